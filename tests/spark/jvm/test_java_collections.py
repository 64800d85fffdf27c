"""Java collections and methods as Python has them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import java_array, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import (
    JavaItems,
    items_of,
    list_of,
    list_of_array,
    list_of_texts,
    value_of,
)
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles


def _items(spark: SparkSession, *texts: str) -> JavaItems:
    return JavaItems(spark, list_of(spark, texts))


@pytest.mark.parametrize("texts", [(), ("a",), ("a", "b", "c")])
def test_the_items_of_a_java_collection_are_a_sequence(spark: SparkSession, texts: tuple[str, ...]) -> None:
    items = _items(spark, *texts)
    assert (list(items), len(items), items[1:], bool(items)) == (list(texts), len(texts), list(texts)[1:], bool(texts))
    with pytest.raises(IndexError):
        items[len(texts)]
    if texts:
        assert items[-1] == texts[-1]


@pytest.mark.parametrize("texts", [(), ("a", "", "c\nd")])
def test_a_function_gives_a_text_of_each_item(spark: SparkSession, texts: tuple[str, ...]) -> None:
    make = method_handles(spark)
    shouted = make.function(make.method("java.lang.String", "toUpperCase", "java.lang.String"))
    assert _items(spark, *texts).texts(shouted) == [each.upper() for each in texts]


def test_a_method_is_called_with_each_item_by_one_command(spark: SparkSession) -> None:
    found = jvm_of(spark).java.util.TreeSet()
    added = method_handles(spark).method("java.util.Collection", "add", "boolean", "java.lang.Object")
    _items(spark, "b", "a").give_each(added.bindTo(found))
    assert found.toString() == "[a, b]"


def test_lists_of_python_and_arrays_are_lists_of_java(spark: SparkSession) -> None:
    texts = ["a", "", "b"]
    array = java_array(spark, "java.lang.String", texts)
    made = (list_of(spark, texts), list_of_texts(spark, texts), list_of_array(spark, array))
    assert [str(each.toString()) for each in made] == ["[a, , b]"] * 3
    assert str(jvm_of(spark).java.util.Arrays.toString(java_array(spark, "int", [3, 1]))) == "[3, 1]"


def test_what_scala_lists_and_may_lack_is_read(spark: SparkSession) -> None:
    plan: Any = spark.range(2).union(spark.range(1))._jdf.queryExecution().analyzed()
    option = jvm_of(spark).scala.Option
    assert [str(each.nodeName()) for each in items_of(plan.children())] == ["Range", "Range"]
    assert (value_of(option.apply("a")), value_of(option.empty())) == ("a", None)

"""Java collections and methods as Python has them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.java_methods import JavaItems, as_function, load_class, method


def _items(spark: SparkSession, *texts: str) -> JavaItems:
    jvm: Any = spark._jvm
    listed = jvm.java.util.ArrayList()
    for text in texts:
        listed.add(text)
    return JavaItems(spark, listed)


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
    text = load_class(spark, "java.lang.String")
    shouted = as_function(spark, method(spark, "java.lang.String", "toUpperCase", text))
    assert _items(spark, *texts).texts(shouted) == [each.upper() for each in texts]


def test_a_method_is_called_with_each_item_by_one_command(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    found = jvm.java.util.TreeSet()
    anything = load_class(spark, "java.lang.Object")
    added = method(spark, "java.util.Collection", "add", jvm.java.lang.Boolean.TYPE, anything)
    _items(spark, "b", "a").give_each(added.bindTo(found))
    assert found.toString() == "[a, b]"

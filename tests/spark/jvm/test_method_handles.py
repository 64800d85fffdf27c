"""Methods of Java are found, combined and called as functions of the JVM."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.jvm.gateway import has_class, jvm_of
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles

TEXT, OBJECT, MATH = "java.lang.String", "java.lang.Object", "java.lang.Math"


def test_methods_constructors_and_values_are_put_together(spark: SparkSession) -> None:
    make = method_handles(spark)
    length = make.method(TEXT, "length", "int")
    minus = make.static(MATH, "subtractExact", "int", "int", "int")
    builder = "java.lang.StringBuilder"
    built = make.then(make.constructor(builder, TEXT), make.method(builder, "toString", TEXT))
    longer = make.each_through(minus, 0, length, length)
    assert make.call(make.static(MATH, "max", "long", "long", "long"), 2, 7) == 7
    assert make.call(make.given(minus, 1, 3), 10) == 7
    assert make.call(make.typed(built, OBJECT, OBJECT), "abc") == "abc"
    assert make.call(longer, "abcd", "a") == 3
    assert make.call(make.rearranged(longer, make.type_of("int", TEXT, TEXT), [1, 0]), "abcd", "a") == -3
    assert make.call(make.of_object(spark.sparkContext._jsc, "appName")) == spark.sparkContext.appName


def test_a_test_of_one_class_says_no_of_any_other(spark: SparkSession) -> None:
    make = method_handles(spark)
    is_empty = make.typed(make.method(TEXT, "isEmpty", "boolean"), "boolean", OBJECT)
    test = make.instance("java.util.function.Predicate", make.where_instance(TEXT, is_empty))
    assert [test.test(value) for value in ("", "a", jvm_of(spark).java.util.ArrayList())] == [True, False, False]


def test_an_object_stands_for_another_one_but_for_some_methods(spark: SparkSession) -> None:
    make, items = method_handles(spark), jvm_of(spark).java.util.ArrayList([1, 2])
    failing = make.given(make.throwing("java.lang.Exception", "void"), 0, jvm_of(spark).java.lang.Exception("broken"))
    size = make.dropping(make.method("java.util.List", "size", "int").bindTo(items), 0, "java.util.Iterator")
    caught = make.catching(failing, "java.lang.Exception", make.dropping(make.nothing(), 0, "java.lang.Exception"))
    removed = make.dropping(caught, 0, "java.util.Iterator")
    # Its class is not public.
    iterator = items.iterator()
    standing_for = make.proxies("java.util.Iterator", next=size, remove=removed)
    proxy, other = standing_for(iterator), standing_for(jvm_of(spark).java.util.ArrayList().iterator())
    assert (proxy.hasNext(), proxy.next(), other.hasNext(), other.next()) == (True, 2, False, 2)
    proxy.remove()
    assert (proxy.hashCode(), proxy.toString()) == (iterator.hashCode(), iterator.toString())
    assert proxy.equals(iterator)


def test_handles_are_made_once_for_all_sessions_of_a_driver(spark: SparkSession) -> None:
    assert method_handles(spark.newSession()) is method_handles(spark)


def test_a_class_is_there_or_not(spark: SparkSession) -> None:
    assert has_class(spark, TEXT)
    assert not has_class(spark, "org.apache.iceberg.Absent")

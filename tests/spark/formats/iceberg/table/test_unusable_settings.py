"""Values that Iceberg cannot use are known before it tells, and no others are."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_lake_provider.iceberg.owner_settings import _ABOVE_ZERO, _MOST, _NAMED, unusable_settings
from airflow_lake_provider.spark_jobs.failures import settings_at_fault
from tests.spark.maintained_table import MaintainedTable

VALUES = [
    *("", " ", "x", "1e3", "0x10", "1.0", "NaN", "-1", "+7", "0", "07", "٣", "²", "1_0", " 5"),
    *("2147483648", "9" * 19, "9" * 40),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:20])
def test_a_number_is_one_where_it_is_one_to_iceberg(spark: SparkSession, value: str) -> None:
    utilities = spark._jvm.org.apache.iceberg.util.PropertyUtil  # type: ignore[union-attr]  # JVM attribute
    for name in ("write.parquet.page-size-bytes", "write.target-file-size-bytes"):
        read = utilities.propertyAsInt if _MOST[name] < 2**32 else utilities.propertyAsLong
        properties = spark._jvm.java.util.HashMap()  # type: ignore[union-attr]  # JVM attribute
        properties.put(name, value)
        try:
            read(properties, name, 1)
        except (Py4JJavaError, PySparkException):
            refused = True
        else:
            refused = False
        assert bool(unusable_settings({name: value})) is refused, name


@pytest.mark.parametrize("name", sorted(_ABOVE_ZERO))
@pytest.mark.parametrize("value", ["0", "-1"])
def test_a_number_above_0_is_one_where_nothing_else_works(spark: SparkSession, name: str, value: str) -> None:
    table = MaintainedTable(spark)
    table.append(0, 2)
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{name}' = '{value}')")
    with pytest.raises((Py4JJavaError, PySparkException)):
        table.append(2, 2) if name.startswith("write.") else spark.table(table.name).collect()
    assert "expected a whole number from 1 to" in unusable_settings({name: value})[name]
    assert unusable_settings({name: "1"}) == {}


def test_each_name_is_one_of_icebergs(spark: SparkSession) -> None:
    names = spark._jvm.java.lang.Class.forName("org.apache.iceberg.TableProperties").getFields()  # type: ignore[union-attr]  # JVM attribute
    known = {str(field.get(None)) for field in names}
    assert {*_MOST, *_NAMED} - known == set()


@pytest.mark.parametrize(("method", "is_asked"), [("refreshFromMetadataLocation", False), ("writeNewMetadata", True)])
def test_a_table_that_could_not_be_loaded_is_not_loaded_again_for_its_settings(
    spark: SparkSession, method: str, is_asked: bool
) -> None:
    java: Any = spark._jvm.java.lang  # type: ignore[union-attr]  # JVM attribute
    frames = spark.sparkContext._gateway.new_array(java.StackTraceElement, 1)  # type: ignore[union-attr]  # as above
    frames[0] = java.StackTraceElement("org.apache.iceberg.BaseMetastoreTableOperations", method, "x.java", 1)
    refused = java.IllegalArgumentException("no")
    refused.setStackTrace(frames)
    asked: list[str] = []

    def properties() -> dict[str, str]:
        asked.append("asked")
        return {"commit.retry.num-retries": "x"}

    found = settings_at_fault(Py4JJavaError("an error", refused), properties)
    assert bool(found) is bool(asked) is is_asked

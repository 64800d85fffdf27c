"""Values that Iceberg cannot use are known before it tells, and no others are."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.iceberg.owner_settings import _ABOVE_ZERO, _MOST, _NAMED, unusable_settings
from airflow_lake_provider.spark_jobs.failures import lake_errors, settings_at_fault
from airflow_lake_provider.spark_jobs.jvm.gateway import load_class
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


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_a_codec_is_one_where_it_is_one_to_iceberg(spark: SparkSession, kind: str) -> None:
    shaded = "org.apache.iceberg.shaded.org.apache."
    enums = {
        "parquet": f"{shaded}parquet.hadoop.metadata.CompressionCodecName",
        "orc": f"{shaded}orc.CompressionKind",
        "avro": "org.apache.iceberg.avro.Avro$Codec",
    }
    name = f"write.{kind}.compression-codec"
    codecs = [str(each).lower() for each in load_class(spark, enums[kind]).getEnumConstants()]
    assert unusable_settings({name: "lzma"})[name].startswith(f"property '{name}' is 'lzma', expected one of ")
    assert set(_NAMED[name]) == set(codecs)
    assert unusable_settings({name: codecs[0].upper()}) == {}


MAPPED = '{"field-id": 1, "names": ["id"]}'
DEEP = f"[{MAPPED}]"
for number in range(2, 400):
    DEEP = f'[{{"field-id": {number}, "names": ["a"], "fields": {DEEP}}}]'
MAPPINGS: list[Any] = [
    pytest.param(DEEP, id="deep"),
    *("", "x", "{}", "[1]", "null", "[]", "[{}]", f"[{MAPPED}]", f"[{MAPPED}", f" [{MAPPED}] x"),
    *('[{"field-id": 1, "names": "id"}]', '[{"field-id": "1"}]', '[{"field-id": 1.5}]', '[{"field-id": null}]'),
    *('[{"field-id": true}]', '[{"names": [1]}]', '[{"names": null}]', '[{"fields": {}}]'),
    *(f'[{{"names": ["s"], "fields": [{MAPPED}]}}]', '[{"names": ["s"], "fields": [{"names": [null]}]}]'),
    # An id, or a name, that stands twice.
    *(f'[{MAPPED}, {{"field-id": 1, "names": ["x"]}}]', f'[{MAPPED}, {{"field-id": 2, "names": ["id"]}}]'),
    *(f"[{MAPPED}, {MAPPED}]", f'[{MAPPED}, {{"names": ["id"]}}]', '[{"field-id": 1, "names": ["id", "id"]}]'),
    f'[{{"field-id": 1, "names": ["s"], "fields": [{MAPPED}]}}]',
    # Iceberg looks up whole paths, with dots.
    f'[{{"field-id": 2, "names": ["s.id"]}}, {{"names": ["s"], "fields": [{MAPPED}]}}]',
    f'[{{"names": ["s", "s.id"], "fields": [{MAPPED}]}}]',
    f'[{{"field-id": 2, "names": ["s.t"]}}, {{"names": ["s"], "fields": [{MAPPED}]}}]',
    # No id is an id, too, which one field may have.
    *('[{"names": ["a"]}, {"names": ["b"]}]', '[{"names": ["a"], "fields": [{"names": ["b"]}]}]'),
    f'[{{"names": ["s"], "fields": [{MAPPED}, {MAPPED}]}}]',
    f'[{{"names": ["s"], "fields": [{MAPPED}]}}, {{"field-id": 2, "names": ["id"]}}]',
]


@pytest.mark.parametrize("text", MAPPINGS)
def test_a_name_mapping_is_one_where_it_is_one_to_iceberg(spark: SparkSession, text: str) -> None:
    parser = spark._jvm.org.apache.iceberg.mapping.NameMappingParser  # type: ignore[union-attr]  # JVM attribute
    try:
        parser.fromJson(text)
    except (Py4JJavaError, PySparkException):
        refused = True
    else:
        refused = False
    assert bool(unusable_settings({"schema.name-mapping.default": text})) is refused


@pytest.mark.parametrize(
    ("name", "value"), [("write.parquet.compression-codec", "lzma"), ("schema.name-mapping.default", "x")]
)
def test_a_job_that_meets_an_unusable_setting_names_it_and_is_not_retried(
    spark: SparkSession, name: str, value: str
) -> None:
    table = MaintainedTable(spark)
    for place in range(2):
        table.append(place, 1)
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{name}' = '{value}')")
    expected = f"{table.name}: property '{name}' is '{value}', expected"
    rows = spark.table(table.name)
    with pytest.raises(BrokenMetadataError, match=expected), lake_errors(table.name, table.handle.properties):
        rows.writeTo(table.name).append()


def test_each_name_is_one_of_icebergs(spark: SparkSession) -> None:
    names = load_class(spark, "org.apache.iceberg.TableProperties").getFields()
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

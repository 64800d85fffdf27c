"""Tables with columns that Spark has no type for, or takes for one another, are told of before Spark starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from airflow_lake_provider.contracts.errors import InvalidConnectionError, UnsupportedError
from airflow_lake_provider.iceberg.table_check import check_table
from airflow_lake_provider.iceberg.table_obstacles import with_types_of_spark, without_spark
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.table_facts import facts
from tests.unit.operators.conftest import context
from tests.unit.operators.run_of_tests import NO_SPARK
from tests.unit.table_maker import as_version_3

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["context"]
# Column x of the table, with "binary" for the type that PyIceberg does not write, and that type.
NESTED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "column": (lambda inner: inner, "x"),
    "field": (lambda inner: StructType(NestedField(11, "f", inner)), "x.f"),
    "element": (lambda inner: ListType(11, inner), "x.element"),
    "value": (lambda inner: MapType(11, LongType(), 12, inner), "x.value"),
    "deep": (lambda inner: ListType(11, StructType(NestedField(12, "f", inner))), "x.element.f"),
}
TYPES = ("time", "timestamp_ns", "timestamptz_ns", "geometry", "geography")
TWINS = {
    "columns": ([NestedField(2, "ID", LongType())], "id and ID"),
    "keyless columns": ([NestedField(2, "v", LongType()), NestedField(3, "V", LongType())], "v and V"),
    "fields": (
        [NestedField(2, "s", StructType(NestedField(3, "a", LongType()), NestedField(4, "A", LongType())))],
        "s.a and s.A",
    ),
    "fields of elements": (
        [
            NestedField(
                2, "l", ListType(3, StructType(NestedField(4, "b", LongType()), NestedField(5, "B", LongType())))
            )
        ],
        "l.element.b and l.element.B",
    ),
}
FIT = ("boolean", "int", "decimal(38, 2)", "uuid", "fixed[3]", "timestamptz", "unknown", "variant", "struct")


def retyped(catalog: SqlCatalog, fields: list[NestedField], kind: str | None = None) -> Table:
    """Make a table of version 3 with one row, whose texts have another type."""
    schema = Schema(NestedField(1, "id", LongType(), required=True), *fields, identifier_field_ids=[1])
    made = catalog.create_table("shop.strange", schema)
    made.append(pa.table({"id": [1]}, pa.schema([pa.field("id", pa.int64(), nullable=False)])))
    table = as_version_3(catalog, made)
    if kind is None:
        return table
    path = Path(table.metadata_location.removeprefix("file://"))
    changed = path.with_name("changed.metadata.json")
    changed.write_text(path.read_text().replace('"string"', json.dumps(kind)))
    catalog.drop_table("shop.strange")
    return catalog.register_table("shop.strange", f"file://{changed}")


def operators() -> list[Any]:
    given: dict[str, Any] = {"task_id": "t", **NO_SPARK}
    source: dict[str, Any] = {"source": "shop.strange", "consumer": "c", "query": "SELECT 1", "keys": ["id"]}
    return [
        LakeUpsertOperator(table="shop.strange", source="in/*.parquet", keys=["id"], **given),
        LakeUpdateRowsOperator(table="shop.strange", assignments={"x": "NULL"}, where="id = 1", **given),
        LakeDeleteRowsOperator(table="shop.strange", where="id = 1", **given),
        LakeIncrementalOperator(target="shop.other", **source, **given),
        LakeCompactionOperator(table="shop.strange", level="full", **given),
    ]


def assert_told(table: Table, context: Context, said: str) -> None:
    rows = ("Upsert", "RowsOperator", "Incremental", "Compaction")
    verdicts = [found for found in check_table(facts(table)) if any(name in found.operator for name in rows)]
    assert len(verdicts) == 10
    assert [found for found in verdicts if found.possible or said not in found.reason] == []
    for job in operators():
        with pytest.raises((UnsupportedError, InvalidConnectionError)) as refused:
            job.execute(context)
        assert isinstance(refused.value, UnsupportedError), type(job).__name__
        assert said in str(refused.value)
        assert not refused.value.retry_may_help


@pytest.mark.parametrize("kind", TYPES)
def test_a_type_that_spark_lacks_is_named_with_its_column(
    lake_catalog: SqlCatalog, context: Context, kind: str
) -> None:
    assert_told(retyped(lake_catalog, [NestedField(2, "x", StringType())], kind), context, f"x ({kind}")


@pytest.mark.parametrize("place", NESTED)
def test_a_type_that_spark_lacks_is_found_at_any_depth(lake_catalog: SqlCatalog, context: Context, place: str) -> None:
    made, path = NESTED[place]
    assert_told(retyped(lake_catalog, [NestedField(2, "x", made(StringType()))], "time"), context, f"{path} (time)")


@pytest.mark.parametrize("twins", TWINS)
def test_names_that_differ_in_case_alone_are_named_together(
    lake_catalog: SqlCatalog, context: Context, twins: str
) -> None:
    fields, said = TWINS[twins]
    assert_told(retyped(lake_catalog, fields), context, said)


def test_types_that_spark_has_are_no_obstacle() -> None:
    assert without_spark({f"c{place}": kind for place, kind in enumerate(FIT)}) is None
    assert without_spark({"s": "struct", "s.id": "long", "id": "long", "t": "struct", "t.id": "int"}) is None


def test_a_schema_with_other_types_keeps_ids_names_and_what_is_stored() -> None:
    inner = {"id": 4, "name": "at", "required": True, "type": "time", "initial-default": "12:00:00"}
    seen = {"id": 6, "name": "seen", "required": False, "type": "timestamptz_ns", "write-default": "x"}
    place = {"type": "list", "element-id": 8, "element": "geography(srid:4326, spherical)", "element-required": False}
    plain = {"id": 1, "name": "id", "required": True, "type": "decimal(9, 2)", "initial-default": "1.00"}
    schema = {
        "type": "struct",
        "schema-id": 3,
        "fields": [
            plain,
            {"id": 2, "name": "of", "required": False, "type": {"type": "struct", "fields": [inner]}},
            seen,
            {"id": 7, "name": "places", "required": False, "type": place},
            {"id": 9, "name": "exact", "required": False, "type": "timestamp_ns"},
        ],
    }
    made = with_types_of_spark(schema)
    assert [each["name"] for each in made["fields"]] == ["id", "of", "seen", "places", "exact"]
    assert made["fields"][0] == plain
    assert made["fields"][1]["type"]["fields"] == [{"id": 4, "name": "at", "required": True, "type": "long"}]
    assert made["fields"][2] == {"id": 6, "name": "seen", "required": False, "type": "timestamptz"}
    assert made["fields"][3]["type"] == {**place, "element": "binary"}
    assert made["fields"][4]["type"] == "timestamp"
    assert made["schema-id"] == 3
    assert with_types_of_spark({"type": "struct", "fields": [plain]}) == {"type": "struct", "fields": [plain]}

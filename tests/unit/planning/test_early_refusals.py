"""Operators refuse from the metadata of real tables what Spark would refuse half a minute later, and nothing else.

Every operator here has a Spark connection that does not exist: whatever starts Spark fails with its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.published_position import PublishedPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    InvalidSpecError,
    MissingTableError,
    RangeUnavailableError,
    UnsupportedError,
)
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.overwrite_partitions import LakeOverwritePartitionsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from airflow_lake_provider.planning.nothing_new import position_id
from tests.table_facts import facts
from tests.unit.operators.conftest import context
from tests.unit.operators.run_of_tests import NO_SPARK
from tests.unit.operators.submitted import refusal, starts_spark
from tests.unit.table_maker import COLUMNS, ENCRYPTED, Make, as_version_3, make

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["context", "make"]


def upsert(**arguments: Any) -> LakeUpsertOperator:
    given: dict[str, Any] = {"table": "shop.target", "source": "in/*.parquet", "keys": ["ID"]}
    return LakeUpsertOperator(task_id="t", **{**given, **NO_SPARK, **arguments})


def append(**arguments: Any) -> LakeAppendOperator:
    given: dict[str, Any] = {"table": "shop.target", "source": "in/*.parquet"}
    return LakeAppendOperator(task_id="t", **{**given, **NO_SPARK, **arguments})


def overwrite(**arguments: Any) -> LakeOverwritePartitionsOperator:
    given: dict[str, Any] = {"table": "shop.target", "source": "in/*.parquet"}
    return LakeOverwritePartitionsOperator(task_id="t", **{**given, **NO_SPARK, **arguments})


def incremental(**arguments: Any) -> LakeIncrementalOperator:
    given: dict[str, Any] = {"source": "shop.source", "target": "shop.target", "consumer": "c", "keys": ["id"]}
    return LakeIncrementalOperator(task_id="t", **{"query": "SELECT 1", **given, **NO_SPARK, **arguments})


FREEZE = {"schema_contract": "freeze"}
COPY_ON_WRITE = {"write_merge_mode": "copy-on-write"}


def over(**inputs: Source) -> Query:
    return Query("SELECT 1 AS id", over=inputs)


UPSERTS: list[tuple[int, dict[str, str], dict[str, Any], type[Exception], str]] = [
    (2, {}, {"source": LakeTable("shop.absent")}, MissingTableError, "shop.absent: the source table does not exist"),
    (2, {}, {"source": Query("SELECT 1", over=LakeTable("shop.absent"))}, MissingTableError, "shop.absent"),
    (2, {}, {"source": LakeTable("shop.source"), "keys": ["code"]}, BadInputError, "batch lacks: ['code']"),
    (2, {}, {"source": LakeTable("shop.source"), "order_by": ["at"]}, BadInputError, "batch lacks: ['at']"),
    (
        2,
        {},
        {"source": LakeTable("shop.source", as_of="7")},
        BadInputError,
        "snapshot 7 is not in the table's metadata",
    ),
    (
        2,
        {},
        {"source": LakeTable("shop.source", as_of="eod")},
        BadInputError,
        "no tag or branch of the table",
    ),
    (2, {}, {"source": LakeTable("shop.source", as_of="2001-01-01T00:00:00Z")}, BadInputError, "its log goes back to"),
    (
        2,
        {},
        {"source": over(o=LakeTable("shop.source"), p=LakeTable("shop.absent"))},
        MissingTableError,
        "of input 'p'",
    ),
    (2, {}, {"source": over(o=LakeTable("shop.source", columns=["code"]))}, BadInputError, "columns names columns"),
    (2, {}, {"source": over(o=LakeTable("shop.source", where="code = 1"))}, InvalidSpecError, "where names columns"),
    (2, {}, {"source": over(o=Changes("shop.source"))}, UnsupportedError, "upgrade it to 3"),
    (2, {}, {"keys": ["code"], **FREEZE}, BadInputError, "table lacks: ['code']"),
    (1, {}, {"strategy": "positions"}, UnsupportedError, "format version 1 has no deletes"),
    (1, {}, {"strategy": "equality"}, UnsupportedError, "format version 1 has no deletes"),
    (2, COPY_ON_WRITE, {"strategy": "positions"}, UnsupportedError, "write.merge.mode asks for copy-on-write"),
    (2, ENCRYPTED, {"strategy": "copy-on-write"}, UnsupportedError, "encrypted"),
    (2, {}, {"strategy": "equality", "keys": ["score"]}, UnsupportedError, "key column score is of type double"),
]


@pytest.mark.parametrize(("version", "properties", "arguments", "error", "said"), UPSERTS)
def test_an_upsert_that_its_tables_rule_out_is_refused_without_spark(
    make: Make,
    context: Context,
    version: int,
    properties: dict[str, str],
    arguments: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    make("shop.target", version, **properties)
    make("shop.source")
    found = refusal(upsert(**arguments), context)
    assert isinstance(found, error)
    assert said in str(found)


APPENDS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"source": LakeTable("shop.absent")}, MissingTableError, "shop.absent: the source table does not exist"),
    ({"source": LakeTable("shop.source"), "deduplicate_by": ["code"]}, BadInputError, "deduplicate_by names"),
    ({"deduplicate_by": ["code"], **FREEZE}, BadInputError, "table lacks: ['code']"),
]


@pytest.mark.parametrize(("arguments", "error", "said"), APPENDS)
def test_an_append_that_its_tables_rule_out_is_refused_without_spark(
    make: Make, context: Context, arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    make("shop.target")
    make("shop.source")
    refused = refusal(append(**arguments), context)
    assert isinstance(refused, error)
    assert said in str(refused)
    assert starts_spark(append(source=LakeTable("shop.source"), deduplicate_by=["ID"]), context)


DAY: dict[str, Any] = {"where": "id = 3"}
OVERWRITES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"source": LakeTable("shop.absent"), **DAY}, MissingTableError, "shop.absent: the source table does not exist"),
    ({"source": LakeTable("shop.source"), **DAY, "keys": ["code"]}, UnsupportedError, "upgrade it to 3"),
    ({"source": LakeTable("shop.source"), **DAY, "deduplicate_by": ["code"]}, BadInputError, "batch lacks: ['code']"),
    ({"where": "code = 3"}, InvalidSpecError, "where names columns ['code'] that the table lacks"),
    ({"where": "id = 3 AND name = 'a'"}, InvalidSpecError, "where names ['name'], by which the table is not part"),
    ({"table": "shop.plain"}, InvalidSpecError, "the table has no partitions; where='true' replaces all"),
    ({"table": "shop.plain", **DAY}, InvalidSpecError, "the table has no partitions"),
    ({"table": "shop.new", "create": True}, InvalidSpecError, "the table has no partitions"),
    ({"table": "shop.old", **DAY, "allow_rows": True}, UnsupportedError, "format version 1 has no deletes"),
]


@pytest.mark.parametrize(("arguments", "error", "said"), OVERWRITES)
def test_an_overwrite_that_its_tables_rule_out_is_refused_without_spark(
    make: Make, context: Context, arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    with make("shop.target").update_spec() as changed:
        changed.add_identity("id")
    make("shop.source")
    make("shop.plain")
    make("shop.old", 1)
    refused = refusal(overwrite(**arguments), context)
    assert isinstance(refused, error)
    assert said in str(refused)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        DAY,
        {"where": "`id` = 3"},
        {"where": "Name = 'a'", "allow_rows": True},
        {"table": "shop.plain", "where": "true"},
        {"table": "shop.plain", "where": "id = 3", "allow_rows": True},
        {"table": "shop.new", "create": TableLayout(partition_by=["days(at)"])},
        {"table": "shop.new", "where": "true"},
    ],
)
def test_an_overwrite_that_the_driver_may_take_reaches_spark(
    make: Make, context: Context, arguments: dict[str, Any]
) -> None:
    with make("shop.target").update_spec() as changed:
        changed.add_identity("id")
    make("shop.plain")
    assert starts_spark(overwrite(**arguments), context)


def test_a_missing_target_that_may_not_be_created_is_refused_without_spark(make: Make, context: Context) -> None:
    make("shop.source", 3)
    missing = {"create": False}
    for job in (upsert(**missing), append(**missing), overwrite(**missing), incremental(**missing)):
        found = refusal(job, context)
        assert isinstance(found, MissingTableError)
        assert "shop.target: the table does not exist and create=False" in str(found)


@pytest.mark.parametrize(
    ("version", "arguments"),
    [
        (2, {}),
        (2, {"keys": ["code"]}),
        (2, {"source": LakeTable("shop.source"), "order_by": ["NAME"]}),
        (2, {"source": Query("SELECT id AS code FROM source", over=LakeTable("shop.source")), "keys": ["code"]}),
        (2, {"source": LakeTable("shop.source", as_of="main", columns=["ID"], where="NAME = 'a'")}),
        (2, {"strategy": "equality"}),
        (1, {}),
        (1, {"strategy": "copy-on-write"}),
        (1, {"strategy": "merge"}),
        (3, {"strategy": "positions"}),
    ],
)
def test_an_upsert_that_the_driver_may_take_reaches_spark(
    make: Make, context: Context, version: int, arguments: dict[str, Any]
) -> None:
    make("shop.target", version)
    make("shop.source")
    assert starts_spark(upsert(**arguments), context)


def test_a_column_that_only_an_older_schema_has_is_left_to_the_driver(make: Make, context: Context) -> None:
    source = make("shop.source")
    with source.update_schema() as changed:
        changed.rename_column("Name", "title")
    # The head was written with the older schema.
    assert starts_spark(upsert(source=LakeTable("shop.source"), order_by=["name"]), context)


@pytest.mark.parametrize("name", ["", "orders"])
def test_changes_whose_start_was_expired_are_refused_without_spark(make: Make, context: Context, name: str) -> None:
    target, source = make("shop.target"), make("shop.source", 3)
    changes = Changes("shop.source", where="id > 0")
    read = Query("SELECT 1 AS id", over={name: changes} if name else changes, name="s")
    for consumed, is_gone in (("7", True), (str(source.metadata.current_snapshot_id), False)):
        position, at = SourcePosition(), SourcePosition().moved(SnapshotPosition(consumed))
        position = position.moved_inputs({name: at}, {}) if name else at
        with target.transaction() as changed:
            changed.set_properties(position.to_properties("s"))
        if is_gone:
            found = refusal(upsert(source=read), context)
            assert isinstance(found, RangeUnavailableError)
            assert "snapshot 7 is not in the table's metadata" in str(found)
        assert starts_spark(upsert(source=read, on_repeat="apply" if is_gone else "skip"), context)
    unknown = refusal(upsert(source=Changes("shop.source", keys=["code"])), context)
    assert "keys names columns that the table lacks: ['code']" in str(unknown)


@pytest.mark.parametrize("version", [1, 2])
def test_an_incremental_source_without_row_lineage_is_refused_without_spark(
    make: Make, context: Context, version: int
) -> None:
    make("shop.source", version)
    found = refusal(incremental(), context)
    assert isinstance(found, UnsupportedError)
    assert f"the table has version {version}, upgrade it to 3" in str(found)


WITHOUT_KEYS = Schema(*COLUMNS.fields)


def test_the_keys_of_a_load_tell_changes_apart_unless_a_query_is_between(make: Make, context: Context) -> None:
    make("shop.target")
    make("shop.source", 3, WITHOUT_KEYS)
    changes = Changes("shop.source")
    assert starts_spark(upsert(source=changes), context)
    assert "no identifier fields" in str(refusal(upsert(source=Query("SELECT 1 AS id", over=changes)), context))


@pytest.mark.parametrize(
    ("schema", "arguments", "error", "said"),
    [
        (WITHOUT_KEYS, {}, InvalidSpecError, "or set them, of columns that are NOT NULL"),
        (COLUMNS, {"source_keys": ["code"]}, InvalidSpecError, "no top-level column ['code']"),
        (COLUMNS, {"from_snapshot": "17"}, RangeUnavailableError, "from_snapshot 17 is not in"),
    ],
)
def test_an_incremental_range_that_cannot_be_read_is_refused_without_spark(
    make: Make, context: Context, schema: Schema, arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    make("shop.source", 3, schema)
    found = refusal(incremental(**arguments), context)
    assert isinstance(found, error)
    assert said in str(found)


@pytest.mark.parametrize("name", ["_change_type", "_CHANGE_TYPE"])
def test_a_source_with_the_column_that_tells_changes_in_any_case_is_refused_without_spark(
    lake_catalog: SqlCatalog, context: Context, name: str
) -> None:
    schema = Schema(*COLUMNS.fields[:1], NestedField(2, name, StringType()), identifier_field_ids=[1])
    source = lake_catalog.create_table("shop.source", schema)
    source.append(pa.table({"id": [1], name: ["x"]}, schema.as_arrow()))
    as_version_3(lake_catalog, source)
    assert f"has a column {name}" in str(refusal(incremental(), context))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, RangeUnavailableError),
        ({"on_gap": "full"}, None),
        ({"full_refresh": True}, None),
    ],
)
def test_a_position_whose_snapshot_was_expired_is_refused_unless_everything_is_read(
    make: Make, context: Context, arguments: dict[str, Any], expected: type[Exception] | None
) -> None:
    source, target = make("shop.source", 3), make("shop.target")
    with target.transaction() as changed:
        changed.set_properties(
            SourcePosition().moved(SnapshotPosition("17")).to_properties(position_id(facts(source), "c"))
        )
    job = incremental(**arguments)
    assert starts_spark(job, context) if expected is None else isinstance(refusal(job, context), expected)


@pytest.mark.parametrize(
    ("arguments", "is_refused"), [({}, False), ({"from_snapshot": "17"}, True), ({"from_snapshot": "18"}, True)]
)
def test_the_start_of_a_range_need_not_be_there_where_the_whole_source_is_read_after_all(
    make: Make, context: Context, arguments: dict[str, Any], is_refused: bool
) -> None:
    source, target = make("shop.source", 3), make("shop.target")
    position = SourcePosition().moved(SnapshotPosition("17")).with_position(PublishedPosition(1))
    with target.transaction() as changed:
        changed.set_properties(position.to_properties(position_id(facts(source), "c")))
    job = incremental(**arguments)
    assert isinstance(refusal(job, context), RangeUnavailableError) if is_refused else starts_spark(job, context)


@pytest.mark.parametrize("is_published", [False, True])
@pytest.mark.parametrize(("on_change", "refused"), [("fail", True), ("full", False), ("continue", False)])
def test_a_target_that_another_transform_filled_is_refused_without_spark(
    make: Make, context: Context, on_change: str, refused: bool, is_published: bool
) -> None:
    source, target = make("shop.source", 3), make("shop.target")
    position = SourcePosition().moved(SnapshotPosition("17"))
    position = position.with_position(PublishedPosition(1)) if is_published else position
    properties = position.to_properties(position_id(facts(source), "c"))
    with target.transaction() as changed:
        changed.set_properties({**properties, "lake.transform.c": "0" * 32})
    job = incremental(on_transform_change=on_change, on_gap="full")
    if refused:
        assert "filled by another transform" in str(refusal(job, context))
    else:
        assert starts_spark(job, context)

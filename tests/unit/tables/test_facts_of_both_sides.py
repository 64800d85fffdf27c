"""Worker and driver know the same of a table: PyIceberg and the driver's own reading of one metadata file agree."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType

from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.iceberg import metadata_facts
from airflow_lake_provider.iceberg.table_obstacles import strategy_obstacles
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.tables.iceberg import pyiceberg_facts

# Written by Iceberg's own Java: ten tables of every kind that this package writes.
EARLIER_LAKE = Path(__file__).parents[2] / "data" / "lake_of_9bcfaf4" / "lake.tar.xz"
NAME = "shop.orders"


def by_worker(text: str) -> TableFacts:
    return pyiceberg_facts.facts_of(NAME, TableMetadataUtil.parse_raw(text))


def by_driver(text: str) -> TableFacts:
    return metadata_facts.facts_of(NAME, json.loads(text))


def all_of(facts: TableFacts) -> dict[str, Any]:
    """Return what is worked out of facts, beside their fields."""
    shape = facts.shape
    strategies = {each.value: [*strategy_obstacles(shape, each, shape.identifiers)] for each in UpsertStrategy}
    return {
        "state": {name: facts.state(lambda _: 7, name) for name in facts.references},
        "lines": [[each.id for each in line] for line in facts.branch_histories()],
        "snapshots": [(each.counts, each.changes_rows, each.begins_history) for each in facts.snapshots.values()],
        "columns": shape.columns,
        "names": (shape.names, shape.names_ever, shape.identifiers, shape.sort_columns),
        "partitions": (shape.partition_fields(), shape.partition_fields(of_all_specs=True), shape.spec_id),
        "schema": shape.schema_id,
        "strategies": strategies,
    }


def assert_alike(text: str) -> None:
    worker, driver = by_worker(text), by_driver(text)
    assert worker == driver
    assert all_of(worker) == all_of(driver)


def test_every_metadata_file_of_a_lake_that_spark_wrote_is_read_alike() -> None:
    with tarfile.open(EARLIER_LAKE) as lake:
        files = [member for member in lake if member.name.endswith(".metadata.json")]
        texts = [file.read().decode() for member in files if (file := lake.extractfile(member)) is not None]
    assert len(texts) > 20
    for text in texts:
        assert_alike(text)


def metadata_of(table: Table) -> str:
    return Path(table.metadata_location.removeprefix("file://")).read_text()


def test_branches_tags_logs_and_nested_columns_that_pyiceberg_wrote_are_read_alike(
    orders: Table, append: Callable[..., int], lake_catalog: SqlCatalog
) -> None:
    first = append(orders, 1)
    orders.manage_snapshots().create_tag(first, "v1", max_ref_age_ms=7).create_branch(first, "load").commit()
    append(orders, 2, branch="load")
    with orders.update_schema() as change:
        change.add_column("where", StructType(NestedField(7, "city", StringType())))
    assert_alike(metadata_of(orders.refresh()))
    schema = Schema(NestedField(1, "id", LongType(), required=True), identifier_field_ids=[1])
    made = lake_catalog.create_table(
        "shop.other",
        schema,
        partition_spec=PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket")),
        sort_order=SortOrder(SortField(1, IdentityTransform())),
    )
    assert_alike(metadata_of(made))


IDS = st.integers(0, 2**63 - 1)
MILLIS = st.integers(0, 253_402_300_799_999)
NAMES = st.text("abcdeÄ_ß ", min_size=1, max_size=5)
SUMMARIES = st.fixed_dictionaries(
    {"operation": st.sampled_from(["append", "overwrite", "delete", "replace"])},
    optional={
        name: st.integers(0, 9).map(str) | st.sampled_from(["x", "²"])
        for name in ("added-records", "deleted-records", "total-records", "total-position-deletes", "lake.action")
    }
    | {"flink.job-id": st.just("a"), "flink.max-committed-checkpoint-id": st.just("3")},
)
PRIMITIVES = st.sampled_from(["long", "string", "decimal(9, 2)", "fixed[16]", "timestamptz", "double"])


@st.composite
def types(draw: st.DrawFn, ids: list[int], depth: int = 0) -> Any:
    kind = draw(st.sampled_from(["plain", "plain", "struct", "list", "map"])) if depth < 3 else "plain"
    if kind == "struct":
        return {"type": "struct", "fields": draw(fields(ids, depth + 1))}
    if kind == "list":
        return {"type": "list", "element-id": taken(ids), "element": draw(types(ids, depth + 1)), **needs("element")}
    if kind == "map":
        parts = {"key-id": taken(ids), "key": draw(PRIMITIVES), "value-id": taken(ids)}
        return {"type": "map", **parts, "value": draw(types(ids, depth + 1)), **needs("value")}
    return draw(PRIMITIVES)


def needs(part: str) -> dict[str, bool]:
    return {f"{part}-required": False}


def taken(ids: list[int]) -> int:
    ids.append(len(ids) + 1)
    return ids[-1]


@st.composite
def fields(draw: st.DrawFn, ids: list[int], depth: int = 0) -> list[dict[str, Any]]:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    made = [{"id": taken(ids), "name": name, "required": draw(st.booleans())} for name in names]
    return [{**field, "type": draw(types(ids, depth))} for field in made]


@st.composite
def snapshots_of(draw: st.DrawFn, numbers: list[int], version: int) -> list[dict[str, Any]]:
    """Snapshots with these ids, some of which follow from the one before."""
    return [
        {
            "snapshot-id": id_,
            **({"parent-snapshot-id": numbers[place - 1]} if place and draw(st.booleans()) else {}),
            "sequence-number": place + 1,
            "timestamp-ms": draw(MILLIS),
            "manifest-list": f"file:///t/metadata/{id_}.avro",
            "schema-id": draw(st.sampled_from([0, 1])),
            **({"summary": draw(SUMMARIES)} if draw(st.booleans()) else {}),
            **({"first-row-id": place, "added-rows": 1} if version == 3 else {}),
        }
        for place, id_ in enumerate(numbers)
    ]


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Metadata of a table of version 2 or 3 as Iceberg's spec has it, with whatever history."""
    ids: list[int] = []
    columns = [{"id": taken(ids), "name": "id", "required": True, "type": "long"}]
    columns += [field for field in draw(fields(ids)) if field["name"] != "id"]
    schemas = [
        {"type": "struct", "schema-id": 0, "fields": columns[:1]},
        {"type": "struct", "schema-id": 1, "fields": columns, "identifier-field-ids": [1]},
    ]
    numbers = draw(st.lists(IDS, unique=True, max_size=6))
    version = draw(st.sampled_from([2, 3]))
    snapshots = draw(snapshots_of(numbers, version))
    refs = {"main": {"type": "branch", "snapshot-id": numbers[-1]}} if numbers else {}
    for name in draw(st.lists(NAMES, max_size=3)) if numbers else ():
        ref: dict[str, Any] = {"snapshot-id": draw(st.sampled_from(numbers)), "type": "tag", "max-ref-age-ms": 5}
        refs[name] = ref | draw(st.sampled_from([{}, {"type": "branch", "min-snapshots-to-keep": 2}]))
    transform = draw(st.sampled_from(["identity", "bucket[16]", "truncate[4]", "void"]))
    spec = [{"source-id": 1, "field-id": 1000, "transform": transform, "name": "part"}]
    return {
        "format-version": version,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:///t",
        "last-sequence-number": len(numbers),
        "last-updated-ms": 1,
        "last-column-id": len(ids),
        "next-row-id": len(numbers),
        "schemas": schemas,
        "current-schema-id": 1,
        "partition-specs": [{"spec-id": 0, "fields": []}, {"spec-id": 1, "fields": spec}],
        "default-spec-id": draw(st.sampled_from([0, 1])),
        "last-partition-id": 1000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": draw(st.dictionaries(st.sampled_from(["write.merge.mode", "encryption.key-id"]), NAMES)),
        **({"current-snapshot-id": numbers[-1]} if numbers else {}),
        "refs": refs,
        "snapshots": snapshots,
        "snapshot-log": [{"timestamp-ms": draw(MILLIS), "snapshot-id": id_} for id_ in numbers],
        "metadata-log": [{"timestamp-ms": draw(MILLIS), "metadata-file": "file:///t/metadata/1.metadata.json"}],
        "statistics": [
            {"snapshot-id": id_, "statistics-path": "p", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1,
             "blob-metadata": []}
            for id_ in numbers[:1]
        ],
    }  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(tables())
def test_whatever_metadata_says_is_read_alike(metadata: dict[str, Any]) -> None:
    assert_alike(json.dumps(metadata))


@pytest.mark.parametrize("head", [None, -1, 5])
def test_metadata_of_version_1_that_knows_no_branches_is_read_alike(head: int | None) -> None:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    spec = [{"source-id": 1, "field-id": 1000, "transform": "identity", "name": "id"}]
    snapshot = {"snapshot-id": 5, "timestamp-ms": 9, "manifest-list": "file:///t/5.avro"}
    metadata = {
        "format-version": 1,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:///t",
        "last-updated-ms": 1,
        "last-column-id": 1,
        "schema": schema,
        "partition-spec": spec,
        "current-snapshot-id": head,
        "snapshots": [snapshot] if head == 5 else [],
    }
    assert_alike(json.dumps(metadata))


def test_a_commit_that_was_cherry_picked_says_what_was_written_about_the_original() -> None:
    original = {"operation": "append", "lake.run-key": "k", "lake.source-position": "inbox=2", "app-id": "1"}
    summaries = {
        5: original,
        6: {"operation": "append", "source-snapshot-id": "5", "app-id": "2"},
        # A pick of the pick, one of what has expired, and one that says something itself.
        7: {"operation": "append", "source-snapshot-id": "6"},
        8: {"operation": "append", "source-snapshot-id": "4"},
        9: {"operation": "append", "source-snapshot-id": "5", "lake.run-key": "own"},
    }
    snapshots = [
        {"snapshot-id": id_, "sequence-number": id_, "timestamp-ms": id_, "manifest-list": "l", "summary": summary}
        for id_, summary in summaries.items()
    ]
    metadata = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:///t",
        "last-sequence-number": 9,
        "last-updated-ms": 9,
        "last-column-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "snapshots": snapshots,
    }
    assert_alike(json.dumps(metadata))
    told = {id_: each.summary for id_, each in by_driver(json.dumps(metadata)).snapshots.items()}
    assert told["5"] == original
    assert told["6"] == {**original, "source-snapshot-id": "5", "app-id": "2"}
    assert (told["7"]["lake.run-key"], told["7"]["lake.source-position"]) == ("k", "inbox=2")
    assert told["8"] == summaries[8]
    assert told["9"]["lake.run-key"] == "own"

"""The strategy that writes keys as deletes; read back by Spark, as PyIceberg cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.iceberg.iceberg_format import IcebergFormatTable
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.row_versions import live_files
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import SCHEMA, Flow, InterruptedProgress, NewFlow, row

V2 = TableLayout(properties={"format-version": "2"})
V2_BUCKETS = TableLayout(partition_by=("bucket(2, id)",), properties={"format-version": "2"})


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    return new_flow(strategy=UpsertStrategy.EQUALITY)


def read(flow: Flow) -> dict[int, tuple[Any, ...]]:
    """Rows by id, as Spark reads them."""
    found = flow.spark.table(flow.table).collect()
    keyed = {r["id"]: tuple(value for name, value in r.asDict().items() if name != "id") for r in found}
    assert len(keyed) == len(found), f"keys occur twice in {found}"
    return keyed


def compaction(flow: Flow, level: CompactionLevel = CompactionLevel.AUTO) -> CompactionSpec:
    run = RunIdentity.of("compact", "r", "t")
    return CompactionSpec(catalog="lake_default", table=flow.table, run=run, level=level)


def compact(flow: Flow, level: CompactionLevel = CompactionLevel.AUTO) -> CompactionReport:
    return compact_table(flow.spark, compaction(flow, level), Progress())


@pytest.mark.parametrize("layout", [TableLayout(), V2_BUCKETS], ids=["v3", "v2 partitioned by key"])
def test_batches_are_applied_and_a_compaction_leaves_what_pyiceberg_reads_alike(
    flow: Flow, layout: TableLayout
) -> None:
    flow.arrive("1.jsonl", *(row(number, "a", number) for number in range(10)))
    first = flow.apply("run 1", create=layout)
    assert (first.strategy, first.rows_inserted, first.equality_delete_files) == ("equality", 10, None)
    flow.arrive("2.jsonl", row(1, "x"), row(2, "x"), row(1, "b", 1), row(3, "", op="d"), row(77, "", op="d"))
    second = flow.apply("run 2")
    assert (second.rows_inserted, second.rows_updated, second.rows_deleted) == (None, None, None)
    flow.arrive("3.jsonl", row(3, "back"), row(2, "", op="d"), row(4, "p"), row(60, "new"))
    flow.apply("run 3", strategy=UpsertStrategy.POSITIONS)
    flow.arrive("4.jsonl", row(4, "c"), row(3, "again"), row(2, "back"), row(60, "", op="d"))
    last = flow.apply("run 4")
    expected = {number: ("a", number) for number in range(10)}
    expected |= {1: ("b", 1), 2: ("back", 0), 3: ("again", 0), 4: ("c", 0)}
    assert read(flow) == expected
    assert last.after is not None
    assert last.after.equality_deletes == 8
    assert last.equality_delete_files == sum(1 for r in delete_files(flow) if r["content"] == 2)
    assert f"8 equality deletes in {last.equality_delete_files} files" in last.warnings[0]
    report = compact(flow)
    assert report.outcome is Outcome.DONE
    assert report.after is not None
    assert report.after.equality_deletes == 0
    assert flow.rows() == read(flow) == expected


def test_deletes_of_keys_that_no_file_can_hold_are_removed_without_a_rewrite(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(7, "new"))
    flow.apply("run 2")
    report = compact(flow)
    assert (report.outcome, report.files_rewritten, report.delete_files_removed) == (Outcome.DONE, 0, 1)
    assert flow.rows() == {1: ("a", 0), 2: ("a", 0), 7: ("new", 0)}


def delete_files(flow: Flow) -> list[Any]:
    return flow.spark.table(f"{flow.table}.delete_files").collect()


KEYS = (
    "flag BOOLEAN, small INT, big BIGINT, day DATE, at TIMESTAMP, seen TIMESTAMP_NTZ, price DECIMAL(12,2), "
    "long_price DECIMAL(25,3), raw BINARY, code STRING"
)


@pytest.mark.parametrize(
    "partition_by",
    [(), ("flag", "truncate(10, small)", "day", "hours(at)", "months(seen)", "price", "raw", "truncate(2, code)")],
    ids=["unpartitioned", "partitioned"],
)
def test_keys_of_every_type_are_written_as_readers_compare_them(flow: Flow, partition_by: tuple[str, ...]) -> None:
    flow.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        key = {
            "flag": True, "small": -7, "big": -(2**40), "day": "1582-10-10", "at": "1970-01-01T00:30:00.123456Z",
            "seen": "1969-12-31T23:59:59.999999", "price": -12.5, "long_price": 1234567890123.125, "raw": "/wA=",
            "code": "d\u00fcr/ \U0001f4a7 a=b",
        }  # fmt: skip
        other = key | {"code": "other"}
        source = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=f"{KEYS}, n INT, op STRING")
        shape: dict[str, Any] = {"source": source, "keys": tuple(key)}
        flow.arrive("1.jsonl", key | {"n": 1}, other | {"n": 1})
        flow.apply("run 1", create=TableLayout(partition_by=partition_by), **shape)
        flow.arrive("2.jsonl", key | {"n": 2})
        flow.apply("run 2", **shape)
        flow.arrive("3.jsonl", key | {"n": 3}, other | {"op": "d"})
        flow.apply("run 3", **shape)
        assert [r["n"] for r in flow.spark.table(flow.table).collect()] == [3]
    finally:
        flow.spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_data_file_without_keys_of_the_batch_is_read_without_its_deletes(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(10)))
    flow.apply("run 1")
    flow.arrive("2.jsonl", *(row(number, "a") for number in range(100, 110)))
    flow.apply("run 2")
    flow.arrive("3.jsonl", row(3, "b"), row(5, "b"))
    report = flow.apply("run 3")
    table = table_of(flow.spark, flow.spec())
    assert isinstance(table, IcebergFormatTable)
    files = live_files(table.table, int(report.committed[0]))
    assert {file.data_sequence_number for file in files} == {1, 2, 3}
    assert {file.data_sequence_number for file in files if file.deletes} == {1}


def upsert_of_another_run(flow: Flow) -> None:
    other = Flow(flow.spark, flow.table, flow.inbox.parent / "other", dict(flow.changes))
    other.arrive("1.jsonl", row(2, "theirs"), row(3, "theirs"))
    source = replace(other.spec().source, name="other")
    other.apply("their run", identity=RunIdentity.of("another dag", "r", "t"), source=source)


FOREIGN: dict[str, tuple[Callable[[Flow], Any], dict[int, tuple[Any, ...]]]] = {
    "append of a key of the batch": (lambda f: f.spark.sql(f"INSERT INTO {f.table} VALUES (2, 'z', 9)"), {}),
    "equality upsert of the same new key": (upsert_of_another_run, {3: ("theirs", 0)}),
    "compaction": (compact, {}),
}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_what_is_committed_in_between_is_older_than_the_batch_and_nothing_is_read_again(
    flow: Flow, foreign: str
) -> None:
    act, theirs = FOREIGN[foreign]
    flow.arrive("1.jsonl", row(1, "a"), row(3, "a"), row(5, "a"))
    flow.apply("run 1", create=V2 if foreign == "compaction" else TableLayout())
    flow.arrive("2.jsonl", row(5, "a5"))
    flow.apply("run 2")
    flow.arrive("3.jsonl", row(1, "b"), row(2, "b"))
    report = flow.apply("run 3", progress=InterruptedProgress(at="commit", then=lambda: act(flow)))
    assert (report.outcome, report.attempts) == (Outcome.APPLIED, 1)
    assert read(flow) == {3: ("a", 0), 5: ("a5", 0)} | theirs | {1: ("b", 0), 2: ("b", 0)}
    assert flow.commits_of(report.run_key) == 1


def test_an_upsert_by_position_finds_what_an_equality_upsert_has_put_in_between(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"), row(3, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(2, "b"), row(4, "b"))
    progress = InterruptedProgress(at="commit", then=lambda: upsert_of_another_run(flow))
    flow.apply("run 2", strategy=UpsertStrategy.POSITIONS, progress=progress)
    assert read(flow) == {1: ("a", 0), 2: ("b", 0), 3: ("theirs", 0), 4: ("b", 0)}


def test_a_compaction_that_began_before_a_batch_brings_no_old_row_back(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1", create=V2)
    flow.arrive("2.jsonl", row(3, "a"))
    flow.apply("run 2", strategy=UpsertStrategy.POSITIONS)
    flow.arrive("3.jsonl", row(1, "b"), row(2, "", op="d"))
    spec = compaction(flow, CompactionLevel.FULL)
    compact_table(flow.spark, spec, InterruptedProgress(at="rewrite", then=lambda: flow.apply("run 3")))
    assert read(flow) == {1: ("b", 0), 3: ("a", 0)}


@pytest.mark.parametrize(
    ("id_type", "terms", "reason"),
    [
        ("BIGINT", "TBLPROPERTIES ('format-version'='1')", "version 1 has no deletes"),
        ("DOUBLE", "TBLPROPERTIES ('format-version'='2')", "id is of type double"),
        ("BIGINT", "PARTITIONED BY (bucket(2, id), name)", "by name .name., which is not"),
        ("BIGINT", "TBLPROPERTIES ('write.merge.mode'='copy-on-write')", "copy-on-write"),
    ],
)
def test_a_table_that_equality_deletes_are_not_right_for_is_refused_with_the_reason(
    flow: Flow, id_type: str, terms: str, reason: str
) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.make_table(f"id {id_type}, name STRING, n INT", terms)
    source = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=SCHEMA.replace("BIGINT", id_type))
    with pytest.raises(UnsupportedError, match=f"{reason}.*use 'auto'"):
        flow.apply("run 1", source=source)


def test_files_of_an_older_partition_spec_are_refused_until_they_are_rewritten(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1")
    flow.spark.sql(f"ALTER TABLE {flow.table} ADD PARTITION FIELD bucket(2, id)")
    flow.arrive("2.jsonl", row(1, "b"))
    with pytest.raises(UnsupportedError, match=r"data files of partition specs \[0\] beside the current 1"):
        flow.apply("run 2")
    compact(flow, CompactionLevel.FULL)
    flow.apply("run 2")
    assert read(flow) == {1: ("b", 0), 2: ("a", 0)}


def test_a_partition_spec_that_changes_while_deletes_are_written_is_noticed(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))
    change = f"ALTER TABLE {flow.table} ADD PARTITION FIELD bucket(2, id)"
    progress = InterruptedProgress(at="stage", then=lambda: flow.spark.sql(change))
    with pytest.raises(UnsupportedError, match="data files of partition specs"):
        flow.apply("run 2", progress=progress)
    assert read(flow) == {1: ("a", 0), 2: ("a", 0)}


def test_text_that_readers_could_take_for_another_is_refused(flow: Flow) -> None:
    by_name: dict[str, Any] = {"keys": ("name",)}
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1", **by_name)
    flow.arrive("2.jsonl", row(1, "a\ufffd"))
    with pytest.raises(BadInputError, match=r"key column name has text that is no UTF-8.*strategy='auto'"):
        flow.apply("run 2", **by_name)
    assert read(flow) == {1: ("a", 0)}

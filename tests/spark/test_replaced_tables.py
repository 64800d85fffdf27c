"""Replace targets and sources: what a table keeps of the one before says nothing about its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    BrokenMetadataError,
    RangeUnavailableError,
    RolledBackError,
)
from airflow_lake_provider.contracts.reports.job import IncrementalReport, Outcome
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.planning.early_refusals import refuse_incremental
from airflow_lake_provider.planning.nothing_new import nothing_new
from airflow_lake_provider.spark_jobs.actions.incremental_run import run_incremental
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.tables.detect_new_snapshot import NewSnapshot, TableHead, decide
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from airflow_lake_provider.tables.watermark import Since
from tests.spark.append_flow import append
from tests.spark.overwrite_flow import overwrite
from tests.spark.upsert_flow import Flow, InterruptedProgress, row
from tests.table_facts import facts

COLUMNS = "(id BIGINT, name STRING, n INT)"
WITH_ROWS = "AS SELECT 8L AS id, 'theirs' AS name, 0 AS n"
BATCH = {1: ("a", 0), 2: ("b", 0)}
THEIRS = {8: ("theirs", 0)}
TABLES = iter(range(1_000_000))


def flow_of(spark: SparkSession, folder: Path, version: int = 3) -> Flow:
    flow = Flow(spark, f"replaced.t{next(TABLES)}", folder / "inbox")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS replaced")
    spark.sql(f"CREATE TABLE {flow.table} {COLUMNS} USING iceberg TBLPROPERTIES ('format-version' = '{version}')")
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b"))
    return flow


def create_or_replace(flow: Flow, rest: str = COLUMNS) -> None:
    head, _, query = rest.partition("AS SELECT")
    select = f"AS SELECT{query}" if query else ""
    flow.spark.sql(f"CREATE OR REPLACE TABLE {flow.table} {head} USING iceberg {select}")


def by_dataframe(flow: Flow) -> None:
    rows = flow.spark.createDataFrame([(8, "theirs", 0)], "id BIGINT, name STRING, n INT")
    rows.writeTo(flow.table).using("iceberg").createOrReplace()


def sql(text: str) -> Any:
    return lambda flow: flow.spark.sql(text.format(table=flow.table))


def dropped_and_made_again(flow: Flow) -> None:
    flow.spark.sql(f"DROP TABLE {flow.table} PURGE")
    flow.spark.sql(f"CREATE TABLE {flow.table} {COLUMNS} USING iceberg")


def renamed_there_and_back(flow: Flow) -> None:
    flow.spark.sql(f"ALTER TABLE {flow.table} RENAME TO {flow.table}_other")
    flow.spark.sql(f"ALTER TABLE {flow.table}_other RENAME TO {flow.table}")


def registered_anew(flow: Flow) -> None:
    catalog, location = flow.catalog(), flow.loaded().metadata_location
    catalog.drop_table(flow.table)
    catalog.register_table(flow.table, location)


def restored_from_before(flow: Flow) -> None:
    """Register the metadata of before the batch, as a backup has it."""
    catalog, log = flow.catalog(), flow.loaded().metadata.metadata_log
    catalog.drop_table(flow.table)
    catalog.register_table(flow.table, log[0].metadata_file)


AGAIN: dict[str, tuple[Any, dict[int, Any]]] = {
    "create or replace": (create_or_replace, BATCH),
    "replace": (sql(f"REPLACE TABLE {{table}} {COLUMNS} USING iceberg"), BATCH),
    "create or replace as select": (lambda flow: create_or_replace(flow, WITH_ROWS), THEIRS | BATCH),
    "createOrReplace of a DataFrame": (by_dataframe, THEIRS | BATCH),
    "dropped and made again": (dropped_and_made_again, BATCH),
    "restored from before the batch": (restored_from_before, BATCH),
}
KNOWN: dict[str, tuple[Any, dict[int, Any]]] = {
    "insert overwrite": (sql("INSERT OVERWRITE {table} SELECT 8L, 'theirs', 0"), THEIRS),
    "truncate": (sql("TRUNCATE TABLE {table}"), {}),
    "delete all": (sql("DELETE FROM {table}"), {}),
    "renamed there and back": (renamed_there_and_back, BATCH),
    "registered anew": (registered_anew, BATCH),
}


@pytest.mark.parametrize(
    ("version", "way"),
    [*((3, way) for way in AGAIN), (1, "create or replace"), (2, "create or replace as select")],
)
def test_a_replaced_target_gets_all_of_its_input_again_and_once(
    spark: SparkSession, tmp_path: Path, version: int, way: str
) -> None:
    flow = flow_of(spark, tmp_path, version)
    flow.apply("run 1")
    replace_it, expected = AGAIN[way]
    replace_it(flow)
    # The same run, too: its run key is of the table before.
    report = flow.apply("run 1")
    assert (report.outcome, flow.rows()) == (Outcome.APPLIED, expected)
    assert flow.apply("run 2").outcome is Outcome.NOTHING_NEW
    assert flow.apply("run 1").outcome is Outcome.ALREADY_APPLIED


ANCESTRY = {
    **dict.fromkeys(list(AGAIN)[:4], "replaced"),
    "dropped and made again": "start-expired",
    "restored from before the batch": "start-expired",
    **dict.fromkeys(("insert overwrite", "truncate", "delete all"), "linear"),
}


@pytest.mark.parametrize("way", ANCESTRY)
def test_a_watcher_says_of_a_replaced_table_that_it_was_replaced(spark: SparkSession, tmp_path: Path, way: str) -> None:
    flow = flow_of(spark, tmp_path)
    seen = flow.apply("run 1").committed[-1]
    change_it, _ = {**AGAIN, **KNOWN}[way]
    change_it(flow)
    spark.sql(f"INSERT INTO {flow.table} SELECT 9L, 'later', 0")
    found = decide(TableHead.of(facts(flow.loaded())), Since(snapshot_id=seen))
    assert isinstance(found, NewSnapshot)
    assert found.ancestry.value == ANCESTRY[way]


@pytest.mark.parametrize("way", KNOWN)
def test_a_target_whose_rows_somebody_changed_or_moved_keeps_what_it_has_applied(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    flow = flow_of(spark, tmp_path)
    flow.apply("run 1")
    change_it, expected = KNOWN[way]
    change_it(flow)
    assert flow.apply("run 2").outcome is Outcome.NOTHING_NEW
    assert flow.rows() == expected


@pytest.mark.parametrize("strategy", [s for s in UpsertStrategy if s is not UpsertStrategy.AUTO])
def test_every_strategy_fills_a_table_that_was_replaced_while_it_was_expired_too(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy
) -> None:
    flow = flow_of(spark, tmp_path, 2)
    flow.apply("run 1", strategy=strategy)
    create_or_replace(flow)
    flow.loaded().maintenance.expire_snapshots().by_ids([s.snapshot_id for s in flow.loaded().snapshots()]).commit()
    flow.apply("run 2", strategy=strategy)
    assert flow.rows() == BATCH


def columns_swapped(flow: Flow) -> None:
    """Drop a table without rows and create it with its fields in another order, which changes their ids."""
    flow.spark.sql(f"DROP TABLE {flow.table}")
    flow.spark.sql(f"CREATE TABLE {flow.table} (n INT, name STRING, id BIGINT) USING iceberg")


def columns_of_other_types(flow: Flow) -> None:
    create_or_replace(flow, "(id STRING, name STRING, n INT)")


@pytest.mark.parametrize("replace_it", [dropped_and_made_again, columns_swapped])
@pytest.mark.parametrize("strategy", [s for s in UpsertStrategy if s is not UpsertStrategy.AUTO])
def test_an_upsert_fills_the_columns_of_an_empty_table_that_is_replaced_before_its_commit(
    spark: SparkSession, tmp_path: Path, strategy: UpsertStrategy, replace_it: Any
) -> None:
    flow = flow_of(spark, tmp_path, 2)
    report = flow.apply("run 1", InterruptedProgress(at="commit", then=lambda: replace_it(flow)), strategy=strategy)
    assert {row["id"]: (row["name"], row["n"]) for row in flow.records()} == BATCH
    assert report.attempts == (1 if strategy is UpsertStrategy.MERGE else 2)


@pytest.mark.parametrize("where", [None, "true"])
def test_rows_fill_the_columns_of_an_empty_table_that_is_replaced_before_their_commit(
    spark: SparkSession, tmp_path: Path, where: str | None
) -> None:
    flow = flow_of(spark, tmp_path)
    flow.changes = {
        "source": Files(path=f"{flow.inbox}/*.jsonl", format="json", schema="id BIGINT, name STRING, n INT")
    }
    then = InterruptedProgress(at="commit", then=lambda: columns_swapped(flow))
    report: Any = append(flow, "run 1", then) if where is None else overwrite(flow, "run 1", "", then, where=where)
    assert {row["id"]: (row["name"], row["n"]) for row in flow.records()} == BATCH
    assert report.attempts == 2


def test_rows_of_a_type_that_an_empty_table_has_no_more_are_not_committed(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_of(spark, tmp_path)
    with pytest.raises(BadInputError, match="id"):
        flow.apply("run 1", InterruptedProgress(at="commit", then=lambda: columns_of_other_types(flow)))
    assert flow.loaded().metadata.snapshots == []


def test_what_cannot_be_told_is_refused_until_a_person_decides(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_of(spark, tmp_path, 2)
    flow.apply("run 1")
    ours = flow.loaded().metadata.current_snapshot_id
    by_dataframe(flow)
    flow.loaded().maintenance.expire_snapshots().by_id(int(ours or 0)).commit()
    with pytest.raises(RolledBackError, match="no snapshot in the history of main"):
        flow.apply("run 2")
    rolled_back = flow_of(spark, tmp_path / "2")
    spark.sql(f"INSERT INTO {rolled_back.table} VALUES (8, 'theirs', 0)")
    before = rolled_back.loaded().metadata.current_snapshot_id
    rolled_back.apply("run 1")
    spark.sql(f"CALL system.rollback_to_snapshot('{rolled_back.table}', {before})")
    with pytest.raises(RolledBackError, match="on_repeat='apply'"):
        rolled_back.apply("run 2")


def test_an_aggregation_counts_nothing_into_rows_that_may_have_it(spark: SparkSession, tmp_path: Path) -> None:
    flow = flow_of(spark, tmp_path)
    counted = Aggregation({"n": "sum", "name": "max"})
    flow.apply("run 1", merge_engine=counted, delete_when=None)
    by_dataframe(flow)
    with pytest.raises(BadInputError, match="was replaced"):
        flow.apply("run 2", merge_engine=counted, delete_when=None)
    assert flow.rows() == THEIRS


def incremental(source: Flow, target: Flow, run: str, **changes: Any) -> IncrementalReport:
    return run_incremental(source.spark, incremental_spec(source, target, run, **changes), Progress())


def incremental_spec(source: Flow, target: Flow, run: str, **changes: Any) -> IncrementalSpec:
    arguments: dict[str, Any] = {
        "catalog": "lake_default",
        "table": target.table,
        "run": RunIdentity.of("dag", run, "task", "-1"),
        "source": source.table,
        "consumer": "copy",
        "keys": ("id",),
        "source_keys": ("id",),
        "to_snapshot": str(source.loaded().metadata.current_snapshot_id),
        "query": "SELECT id, CAST(name AS STRING) AS name, n, _change_type FROM changes",
    }
    return IncrementalSpec(**{**arguments, **changes})


@pytest.mark.parametrize(
    ("rest", "columns"),
    [
        ("AS SELECT 1L AS id, 10 AS name, 0 AS n", "name was string, now int"),
        ("AS SELECT 1L AS id, named_struct('a', 1) AS name, 0 AS n", "name was string, now struct"),
        ("AS SELECT '1' AS id, 'a' AS name, 0 AS n", "id was long, now string"),
        ("AS SELECT 1 AS id, 'a' AS name, 0 AS n", "id was long, now int"),
        ("AS SELECT 1L AS id, 'a' AS name, 0.5D AS n", "n was int, now double"),
        ("AS SELECT 1L AS id, DATE '2026-01-01' AS name, 0 AS n", "name was string, now date"),
    ],
)
def test_a_source_whose_columns_got_other_types_under_their_ids_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, rest: str, columns: str
) -> None:
    source, target = flow_of(spark, tmp_path), flow_of(spark, tmp_path)
    source.apply("run 1")
    # As a consumer has left it; what the target has does not matter to the refusal.
    start = str(source.loaded().metadata.current_snapshot_id)
    create_or_replace(source, rest)
    spec = incremental_spec(source, target, "2", from_snapshot=start)
    with pytest.raises(RangeUnavailableError, match=columns):
        run_incremental(spark, spec, Progress())
    with pytest.raises(RangeUnavailableError, match=columns):
        refuse_incremental(spec, LoadedIcebergTable(target.loaded()), LoadedIcebergTable(source.loaded()))


def test_a_consumer_follows_a_source_that_is_replaced_and_is_rebuilt_where_types_differ(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = flow_of(spark, tmp_path)
    source.apply("run 1")
    target = Flow(spark, f"{source.table}_copy", tmp_path / "unused")
    incremental(source, target, "1")
    create_or_replace(source, "AS SELECT * FROM VALUES (1L, 'a', 0), (3L, 'c', 0) AS t(id, name, n)")
    assert incremental(source, target, "2").outcome is Outcome.APPLIED
    assert target.rows() == {1: ("a", 0), 3: ("c", 0)}
    create_or_replace(source, "AS SELECT * FROM VALUES (1L, 10, 0), (2L, 20, 0) AS t(id, name, n)")
    assert "was replaced" in incremental(source, target, "3", on_gap="full").reason
    assert target.rows() == {1: ("10", 0), 2: ("20", 0)}
    assert incremental(source, target, "4").outcome is Outcome.NOTHING_NEW
    create_or_replace(target)
    assert not nothing_new(source.on_worker(), facts(target.loaded()), "copy").nothing_new
    assert incremental(source, target, "5").outcome is Outcome.APPLIED
    assert target.rows() == {1: ("10", 0), 2: ("20", 0)}
    create_or_replace(source)
    assert not nothing_new(source.on_worker(), facts(target.loaded()), "copy").nothing_new


BROKEN = [
    ("lake.position.inbox", "x"),
    ("lake.position.inbox", "{}"),
    ("lake.position.inbox", "[]"),
    ("lake.position.inbox", '{"generation":-1}'),
    ("lake.position.inbox", '{"generation":true}'),
    ("lake.position.inbox", '{"generation":NaN}'),
    ("lake.position.inbox", '{"generation":"²"}'),
    ("lake.position.inbox", '{"generation":' + "9" * 5000 + "}"),
    ("lake.position.inbox", '{"generation":1,"forgotten_until":99999999999999}'),
    ("lake.position.inbox", '{"generation":1,"files":"AA"}'),
    ("lake.position.inbox", '{"generation":1,"files":"!!!!"}'),
    ("lake.position.inbox", '{"generation":1,"side_file":"ab"}'),
    ("lake.position.inbox", '{"generation":1,"side_file":["/etc/hostname",1,2]}'),
    ("lake.position.inbox", '{"generation":1,"snapshot":"²"}'),
    ("lake.position.inbox", '{"generation":1,"shape":["a"]}'),
    ("lake.position.inbox", "[" * 5000),
    ("lake.events.inbox", "x"),
    ("lake.events.inbox", ""),
    ("lake.events.inbox", "AQkA"),
    ("lake.key-changes.inbox", "7=zz"),
    ("lake.key-changes.inbox", "7=1-2-3"),
    ("lake.source-epoch.inbox", "²"),
    ("lake.source-epoch.inbox", "99999999999"),
]


def test_a_property_that_this_package_did_not_write_is_refused_by_table_and_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = flow_of(spark, tmp_path, 2)
    flow.apply("run 1")
    kept = flow.loaded().properties
    for name, value in BROKEN:
        with flow.loaded().transaction() as change:
            change.set_properties({name: value})
        with pytest.raises(BrokenMetadataError) as refused:
            flow.apply("run 2")
        assert flow.table in str(refused.value), value[:40]
        assert name in str(refused.value), value[:40]
        assert "UNSET TBLPROPERTIES" in str(refused.value) or "epoch" in name
        assert not refused.value.retry_may_help
        assert len(str(refused.value)) < 700
        with flow.loaded().transaction() as change:
            if name in kept:
                change.set_properties({name: kept[name]})
            else:
                change.remove_properties(name)
    assert flow.apply("run 2").outcome is Outcome.NOTHING_NEW


@pytest.mark.parametrize(
    "path", ["/etc/hostname", "{inbox}/_lake-position-1.bin", "{metadata}/../_lake-position-1.bin"]
)
def test_a_list_of_files_outside_the_metadata_of_the_table_is_never_read(
    spark: SparkSession, tmp_path: Path, path: str
) -> None:
    flow = flow_of(spark, tmp_path, 2)
    flow.apply("run 1")
    named = path.format(inbox=flow.inbox, metadata=flow.folder().parent / "metadata")
    if not named.startswith("/etc"):
        Path(named).write_bytes(bytes(14))
    with flow.loaded().transaction() as change:
        change.set_properties({"lake.position.inbox": f'{{"generation":1,"side_file":["{named}",1]}}'})
    with pytest.raises(BadInputError, match="no list of this table"):
        flow.apply("run 2")

"""The official OpenLineage provider gets inputs and outputs with snapshots and counts. Tables are real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    IncrementalReport,
    JobReport,
    Outcome,
    UpsertReport,
)
from airflow_lake_provider.contracts.table_facts import TableState
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.openlineage import lineage
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

if TYPE_CHECKING:
    from airflow.sdk import Context


def extracted(job: LakeJobOperator[Any], *, failed: bool = False) -> tuple[list[Any], list[Any]]:
    """Ask as the provider does; its errors are not hidden."""
    extractor = DefaultExtractor(operator=job)
    extractor._get_openlineage_facets = lambda method, *given: method(*given)  # type: ignore[method-assign]
    found: Any = extractor.extract_on_failure(None) if failed else extractor.extract_on_complete(None)
    return found.inputs, found.outputs


def ended(job: LakeJobOperator[Any], context: Context, report: JobReport | None) -> LakeJobOperator[Any]:
    """Bring an operator to where the provider asks it: after its task."""
    (task,) = job._tasks = job.table_tasks(context)
    task.report = report
    return job


def upsert(**arguments: Any) -> LakeUpsertOperator:
    given: dict[str, Any] = {"table": "shop.orders", "source": Files("s3a://in/*.parquet", name="s"), "keys": ["id"]}
    return LakeUpsertOperator(task_id="t", **{**given, **arguments})


def report(cls: type[JobReport], **fields: Any) -> JobReport:
    return cls(**{"table": "shop.orders", "outcome": Outcome.APPLIED, "reason": "", "before": TableState(), **fields})


def test_an_upsert_of_files_names_them_and_the_snapshot_it_made(
    orders: Table, append: Callable[..., int], context: Context, tmp_path: Path
) -> None:
    snapshot = str(append(orders, 1, 2))
    counts: dict[str, Any] = {"batch_rows": 9, "batch_files": 2, "rows_inserted": 2, "rows_updated": 3}
    done = report(UpsertReport, committed=(snapshot,), source_location="s3a://bucket/in/*.parquet", **counts)
    (read,), (written,) = extracted(ended(upsert(), context, done))
    assert (read.namespace, read.name) == ("s3://bucket", "in")
    assert (read.inputFacets["inputStatistics"].rowCount, read.inputFacets["inputStatistics"].fileCount) == (9, 2)
    assert (written.namespace, written.name) == ("file", f"{tmp_path}/warehouse/shop/orders")
    (other,) = written.facets["symlinks"].identifiers
    assert (other.namespace, other.name, other.type) == ("file", f"{tmp_path}/warehouse/shop.orders", "TABLE")
    assert written.facets["version"].datasetVersion == snapshot
    assert [(field.name, field.type) for field in written.facets["schema"].fields] == [("id", "long")]
    assert (written.facets["catalog"].type, written.facets["catalog"].name) == ("jdbc", "lake_default")
    summary: Any = orders.refresh().current_snapshot()
    statistics = written.outputFacets["outputStatistics"]
    assert (statistics.rowCount, statistics.fileCount) == (5, 1)
    assert statistics.size == int(summary.summary["added-files-size"])


@pytest.mark.parametrize("written", ["9" * 5000, "-1", "²", "9" * 30, ""], ids=lambda text: text[:5])
def test_a_count_that_is_no_number_is_not_told(
    orders: Table, append: Callable[..., int], context: Context, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    snapshot = append(orders, 1)
    table = orders.refresh()
    summary: Any = table.snapshot_by_id(snapshot)
    summary.summary["added-data-files"] = written
    job = upsert()
    finished = ended(job, context, report(UpsertReport, committed=(str(snapshot),)))
    monkeypatch.setattr(job.lake, "loaded", lambda _: LoadedIcebergTable(table))
    _, (out,) = extracted(finished)
    assert out.outputFacets["outputStatistics"].fileCount is None
    assert out.outputFacets["outputStatistics"].size > 0


def test_an_upsert_of_a_table_names_the_snapshot_it_consumed(
    lake_catalog: SqlCatalog, orders: Table, append: Callable[..., int], context: Context
) -> None:
    consumed = str(append(lake_catalog.create_table("shop.lines", orders.schema()), 1))
    job = upsert(source=LakeTable("shop.lines", name="s"))
    with orders.transaction() as changed:
        changed.set_properties(SourcePosition().moved(SnapshotPosition(consumed)).to_properties("s"))
    done = report(UpsertReport, committed=(str(append(orders, 1)),), batch_rows=1)
    (read,), _ = extracted(ended(job, context, done))
    assert read.name.endswith("/shop/lines")
    assert read.facets["version"].datasetVersion == consumed
    assert read.inputFacets["inputStatistics"].rowCount == 1


def test_an_upsert_of_named_inputs_names_each_of_them_with_what_it_consumed(
    lake_catalog: SqlCatalog, orders: Table, append: Callable[..., int], context: Context
) -> None:
    consumed = {name: str(append(lake_catalog.create_table(f"shop.{name}", orders.schema()), 1)) for name in ("a", "b")}
    inputs = {"a": Changes("shop.a"), "f": Files("s3://bucket/in/*.csv"), "b": LakeTable("shop.b")}
    job = upsert(source=Query("SELECT 1", over=inputs, name="s"))
    moved = {name: SourcePosition().moved(SnapshotPosition(snapshot)) for name, snapshot in consumed.items()}
    with orders.transaction() as changed:
        changed.set_properties(SourcePosition().moved_inputs(moved, {}).to_properties("s"))
    done = report(UpsertReport, committed=(str(append(orders, 1)),), batch_rows=1)
    read, _ = extracted(ended(job, context, done))
    assert [each.name.rpartition("/")[2] for each in read] == ["a", "in", "b"]
    versions = [each.facets["version"].datasetVersion for each in read if "version" in each.facets]
    assert versions == list(consumed.values())
    # Nobody counts the rows of each input.
    assert [each.inputFacets for each in read] == [{}, {}, {}]


def test_an_incremental_run_names_the_end_of_its_range(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    head = str(append(orders, 1))
    job = LakeIncrementalOperator(
        task_id="t", source="shop.orders", target="shop.mart", consumer="c", keys=["id"], query="SELECT 1"
    )
    done = report(
        IncrementalReport, table="shop.mart", committed=("7",), upserts_read=4, deletes_read=1, rows_updated=2
    )
    (read,), (written,) = extracted(ended(job, context, done))
    assert (read.facets["version"].datasetVersion, read.inputFacets["inputStatistics"].rowCount) == (head, 5)
    # The target is not there: it is named by where its catalog would put it.
    assert written.name.endswith("/warehouse/shop/mart")
    assert (written.facets["version"].datasetVersion, written.outputFacets["outputStatistics"].rowCount) == ("7", 2)
    assert "schema" not in written.facets


def test_a_compaction_reads_and_writes_one_table(orders: Table, context: Context) -> None:
    job = LakeCompactionOperator(task_id="t", table="shop.orders")
    states = {"before": TableState(snapshot="6"), "after": TableState(snapshot="7")}
    (read,), (written,) = extracted(ended(job, context, report(CompactionReport, **states)))
    assert (read.name, read.facets["version"].datasetVersion) == (written.name, "6")
    assert written.facets["version"].datasetVersion == "7"


def test_what_is_not_known_is_not_told(orders: Table, append: Callable[..., int], context: Context) -> None:
    unknown = dict.fromkeys(("batch_rows", "batch_files", "rows_inserted", "rows_updated", "rows_deleted"))
    lost = report(UpsertReport, before=None, committed=(str(append(orders, 1)),), **unknown)
    (read,), (written,) = extracted(ended(upsert(), context, lost))
    assert read.inputFacets == {}
    assert written.outputFacets["outputStatistics"].rowCount is None
    repeat = report(
        UpsertReport,
        outcome=Outcome.ALREADY_APPLIED,
        before=TableState(snapshot="5"),
        committed=lost.committed,
        rows_inserted=3,
    )
    # The task's first try since it was cleared, so that another run has committed.
    (read,), (written,) = extracted(ended(upsert(retries=2), context, repeat))
    assert (read.inputFacets, written.outputFacets) == ({}, {})
    assert written.facets["version"].datasetVersion == "5"


def test_a_retry_tells_what_the_try_before_it_committed(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    found = report(
        UpsertReport,
        outcome=Outcome.ALREADY_APPLIED,
        committed=(str(append(orders, 1)),),
        rows_inserted=3,
        rows_updated=4,
        batch_rows=8,
        batch_files=1,
    )
    context["ti"].try_number, context["ti"].max_tries = 2, 1
    (read,), (written,) = extracted(ended(upsert(retries=1), context, found))
    assert read.inputFacets["inputStatistics"].rowCount == 8
    assert written.outputFacets["outputStatistics"].rowCount == 7


def test_a_job_that_failed_names_what_it_would_have_read_and_written(orders: Table, context: Context) -> None:
    (read,), (written,) = extracted(ended(upsert(), context, None), failed=True)
    assert (read.namespace, read.name) == ("s3://in", "/")
    assert "version" not in written.facets
    refused = upsert(table="a.b", allowed_tables=["shop.*"])
    with pytest.raises(InvalidSpecError):
        refused.execute(context)
    assert refused.get_openlineage_facets_on_complete(None) is None


def test_what_is_read_by_a_connection_is_named_among_several_inputs_and_after_a_failure(
    orders: Table, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, kind, port in (("shop", "postgres", None), ("stock", "mysql", 3307)):
        database = {"conn_type": kind, "host": "db", "port": port, "schema": "s", "login": "u", "password": "hush"}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(database))
    brokers = {"conn_type": "kafka", "extra": {"bootstrap.servers": "one:9092,two:9092"}}
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps(brokers))
    inputs = {
        "a": JdbcTable("shop", 'public."Daily Orders"'),
        "b": JdbcTable("stock", "pieces"),
        "c": JdbcTable("stock", "other.pieces"),
        "d": KafkaTopic("events", "clicks", schema="id BIGINT"),
        "e": JdbcTable("shop", sql="SELECT 1"),
        "f": JdbcTable("gone", "public.orders"),
    }
    monkeypatch.setenv("AIRFLOW_CONN_GONE", json.dumps(database))
    job = ended(upsert(source=Query("SELECT 1", over=inputs, name="s")), context, None)
    monkeypatch.delenv("AIRFLOW_CONN_GONE")
    read, _ = extracted(job, failed=True)
    assert [(each.namespace, each.name) for each in read] == [
        ("postgres://db:5432", "s.public.Daily Orders"),
        ("mysql://db:3307", "s.pieces"),
        ("mysql://db:3307", "other.pieces"),
        ("kafka://one:9092", "clicks"),
    ]
    assert "hush" not in str(read)


def test_a_table_that_several_tasks_write_is_named_once_with_the_counts_of_all(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    commits = [str(append(orders, 1)), str(append(orders, 2))]
    spec, lake = upsert().build_spec(context), upsert().lake
    reports = [
        report(UpsertReport, committed=(commit,), batch_rows=5, batch_files=files, rows_inserted=3, rows_updated=0)
        for commit, files in zip(commits, (2, None), strict=True)
    ]
    other = replace(spec, table="shop.other")
    told = lineage(lake, [(spec, reports[0]), (other, None), (spec, reports[1])])
    assert [each.name.rpartition("/")[2] for each in told.outputs] == ["orders", "other"]
    written, (read,) = told.outputs[0], told.inputs
    assert written.facets["version"].datasetVersion == commits[1]
    statistics = written.outputFacets["outputStatistics"]
    assert (statistics.rowCount, statistics.fileCount) == (6, 2)
    counted = read.inputFacets["inputStatistics"]
    # Of one task nobody knows the files.
    assert (counted.rowCount, counted.fileCount) == (10, None)


def test_dead_letters_are_an_output_and_a_dry_run_has_none(orders: Table, context: Context) -> None:
    job = upsert(source=Files("in/*.csv", format="csv", name="s"), dead_letter={"table": "ops.letters"})
    done: Any = report(UpsertReport, committed=("7",), dead_letters=2)
    _, (_, letters) = extracted(ended(job, context, done))
    assert letters.name.endswith("/ops/letters")
    assert letters.outputFacets["outputStatistics"].rowCount == 2
    for without in (replace(done, dead_letters=0), None):
        _, (written,) = extracted(ended(job, context, without))
        assert written.name.endswith("/shop/orders")
    compaction = LakeCompactionOperator(task_id="t", table="shop.orders", dry_run=True)
    read, written_to = extracted(ended(compaction, context, report(CompactionReport, outcome=Outcome.PLANNED)))
    assert ([each.name.rpartition("/")[2] for each in read], written_to) == (["orders"], [])


@pytest.mark.parametrize(
    ("source", "engine", "told"),
    [
        ({"columns": ["ID", "name"]}, None, {"id": ("id", "IDENTITY"), "name": ("name", "IDENTITY")}),
        (
            {},
            Aggregation({"more": "max"}),
            {"id": ("id", "IDENTITY"), "name": ("name", "AGGREGATION"), "more": ("more", "AGGREGATION")},
        ),
    ],
)
def test_columns_of_a_table_that_is_read_as_it_is_are_told(
    lake_catalog: SqlCatalog,
    append: Callable[..., int],
    context: Context,
    source: dict[str, Any],
    engine: Any,
    told: dict[str, tuple[str, str | None]],
) -> None:
    kinds = [(name, pa.string()) for name in ("name", "more", "only_here")]
    lake_catalog.create_table("shop.orders", pa.schema([("id", pa.int64()), *kinds]))
    lake_catalog.create_table("shop.lines", pa.schema([("id", pa.int64()), *kinds[:2], ("left_out", pa.string())]))
    more = {"merge_engine": engine} if engine else {}
    job = upsert(source=LakeTable("shop.lines", name="s", **source), **more)
    (read,), (written,) = extracted(ended(job, context, None), failed=True)
    fields = written.facets["columnLineage"].fields
    origins = {name: of.inputFields[0] for name, of in fields.items()}
    assert {name: (each.field, each.transformations[0].subtype) for name, each in origins.items()} == told
    assert {(each.namespace, each.name) for each in origins.values()} == {(read.namespace, read.name)}
    made = upsert(source=Query("SELECT 1", over=LakeTable("shop.lines"), name="s"))
    _, (written,) = extracted(ended(made, context, None), failed=True)
    assert "columnLineage" not in written.facets


def test_a_query_is_told_and_a_predicate_that_may_name_whom_to_forget_is_not(orders: Table, context: Context) -> None:
    job = upsert(source=Query("SELECT 1 AS id", over="s3://in/*.csv", name="s"))
    assert lineage(job.lake, [(job.build_spec(context), None)]).job_facets["sql"].query == "SELECT 1 AS id"
    deletion = LakeDeleteRowsOperator(task_id="t", table="shop.orders", where="id = 7")
    for plain in (deletion, upsert()):
        assert lineage(plain.lake, [(plain.build_spec(context), None)]).job_facets == {}

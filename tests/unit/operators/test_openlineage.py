"""The official OpenLineage provider gets inputs and outputs with snapshots and counts. Tables are real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
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
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
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
    assert (written.facets["catalog"].type, written.facets["catalog"].name) == ("sql", "lake_default")
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
    (read,), (written,) = extracted(ended(upsert(), context, repeat))
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

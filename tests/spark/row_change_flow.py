"""Deletions and updates of rows, run as the driver runs them, on the tables of ``maintained_table``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.reports.job import DeleteRowsReport, RowExpiryReport, UpdateRowsReport
from airflow_lake_provider.contracts.specs.maintenance import RowExpirySpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.actions.expire_rows import expire_rows
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table, expire_snapshots
from airflow_lake_provider.spark_jobs.actions.update_rows import update_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.maintained_table import CATALOG, RUN, MaintainedTable


def delete(
    table: MaintainedTable, run: str | RunIdentity = "run 1", progress: Progress | None = None, **arguments: Any
) -> DeleteRowsReport:
    identity = run if isinstance(run, RunIdentity) else RunIdentity.of("dag", run, "task", "-1")
    spec = DeleteRowsSpec(catalog=CATALOG, table=table.name, run=identity, **arguments)
    return delete_rows(table.spark, spec, progress or Progress())


def update(
    table: MaintainedTable, run: str | RunIdentity = "run 1", progress: Progress | None = None, **arguments: Any
) -> UpdateRowsReport:
    identity = run if isinstance(run, RunIdentity) else RunIdentity.of("dag", run, "task", "-1")
    spec = UpdateRowsSpec(catalog=CATALOG, table=table.name, run=identity, **arguments)
    return update_rows(table.spark, spec, progress or Progress())


def expire_old_rows(
    table: MaintainedTable, run: str = "run 1", progress: Progress | None = None, **arguments: Any
) -> RowExpiryReport:
    return expire_rows(table.spark, row_expiry(table, run, **arguments), progress or Progress())


def row_expiry(table: MaintainedTable, run: str = "run 1", **arguments: Any) -> RowExpirySpec:
    given = {"column": "day", "keep": timedelta(days=30), "max_share": 1.0, "asked_at": datetime.now(UTC), **arguments}
    identity = RunIdentity.of("dag", run, "task", "-1")
    return RowExpirySpec(catalog=CATALOG, table=table.name, run=identity, **given)


def rows_outside(table: MaintainedTable) -> dict[int, tuple[str, int]]:
    """Rows as another reader than Spark has them; a row read twice is an error."""
    found = [(row["id"], (row["region"], row["amount"])) for row in table.records()]
    assert len(found) == len(dict(found))
    return dict(found)


def ids_in_any_file(table: MaintainedTable) -> set[int]:
    """Ids in every Parquet file with data below the table's data folder, whether a snapshot reaches it or not."""
    found: set[int] = set()
    for path in table.files_on_disk():
        if path.suffix != ".parquet":
            continue
        content: pa.Table = pq.ParquetFile(path).read()
        if "id" in content.column_names:
            found |= set(content.column("id").to_pylist())
    return found


def summary(table: MaintainedTable) -> dict[str, str]:
    """Entries of the head's summary."""
    head = table.on_worker().facts.newest()
    assert head is not None
    return dict(head.summary)


def compact_away(table: MaintainedTable) -> None:
    """Rewrite every data file with deletes."""
    spec = table.compaction(level=CompactionLevel.MAJOR, delete_ratio_threshold=0.01, rewrite_manifests=False)
    compact_table(table.spark, spec, Progress())


def expire_all(table: MaintainedTable) -> None:
    """Expire all snapshots that no reference keeps."""
    now = datetime.now(UTC) + timedelta(minutes=1)
    spec = SnapshotExpirySpec(
        catalog=CATALOG, table=table.name, run=RUN, expire_before=now, expire_stage_branches_before=now
    )
    expire_snapshots(table.spark, spec, Progress())

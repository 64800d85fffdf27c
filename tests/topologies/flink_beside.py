"""A table that a Flink job and we write in turn, and beside it the rows that it must hold, kept in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.reports.job import ExpiryReport, MetadataChangeReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.metadata_changes import RollbackSpec, TableUpgradeSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table, expire_snapshots
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from airflow_lake_provider.tables.iceberg.maintenance_plans import plan_expiry
from tests.spark.metadata_change_flow import carry_out
from tests.spark.upsert_flow import Flow
from tests.topologies.flink_jobs import FlinkJobs


@dataclass
class TableBesideFlink:
    """One table, the job that writes it, and the checkpoint that the job ended with.

    :param name: of the table in the namespace, and of the job.
    :param sink: class of Flink's sink.
    :param upsert: the job replaces the rows of its keys; otherwise it appends.
    """

    spark: SparkSession
    jobs: FlinkJobs
    folder: Path
    name: str
    sink: str
    upsert: bool
    version: int
    rows: dict[int, str] = field(default_factory=dict)
    job_id: str = ""
    checkpoint: str = ""
    began: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    def __post_init__(self) -> None:
        self.flow = Flow(self.spark, f"beside.{self.name}", self.folder / self.name, self._columns())
        self.flow.catalog()
        self.spark.sql(
            f"CREATE TABLE {self.table} (id BIGINT NOT NULL, name STRING) USING iceberg TBLPROPERTIES "
            f"('format-version' = '{self.version}', 'write.delete.mode' = 'merge-on-read')"
        )

    @property
    def table(self) -> str:
        """``namespace.table``."""
        return self.flow.table

    def _columns(self) -> dict[str, Any]:
        source = Files(path=f"{self.folder / self.name}/*.jsonl", format="json", schema="id BIGINT, name STRING")
        return {"source": source, "delete_when": None, "exclude_columns": ()}

    def job_writes(self, word: str, *, stops: bool = False) -> None:
        """Let the job go on from its checkpoint, write, and end with a new one."""
        self.job_begins()
        self.job_commits(word)
        if stops:
            self.checkpoint = self.jobs.stop(self.name)
        else:
            self.jobs.kill(self.name)

    def job_begins(self) -> None:
        """Start the job, from its checkpoint where it has one."""
        self.began = datetime.now(UTC)
        self.job_id = self.jobs.start(
            self.name, self.sink, self.table, upsert=self.upsert, restored_from=self.checkpoint
        )

    def job_commits(self, word: str) -> None:
        """Let the running job write rows that are new, and by upsert old ones, too; one of them twice."""
        first = max(self.rows, default=0) + 1
        new = {first + place: f"{word} {place}" for place in range(3)}
        if self.upsert:
            # A key that comes twice in a checkpoint is deleted by position, or by a deletion vector.
            self.jobs.write(self.name, {first: "replaced", 1: f"{word} replaced"})
            new |= {1: word}
        self.jobs.write(self.name, new)
        self.checkpoint = self.jobs.checkpoint(self.name)
        self.rows |= new

    def compact(self) -> None:
        """Rewrite every file."""
        spec = CompactionSpec(**self._frame(), level=CompactionLevel.FULL)
        assert compact_table(self.spark, spec, Progress()).outcome is Outcome.DONE

    def upsert_rows(self, word: str) -> None:
        """Change a row of the job's and add one, by our upsert."""
        new = {2: word, max(self.rows) + 1: word}
        self.flow.arrive(f"{word}.jsonl", *({"id": id_, "name": name} for id_, name in new.items()))
        assert self.flow.apply(f"run {word}").outcome is Outcome.APPLIED
        self.rows |= new

    def delete_row(self) -> None:
        """Delete the newest row."""
        gone = max(self.rows)
        delete_rows(self.spark, DeleteRowsSpec(**self._frame(), where=f"id = {gone}"), Progress())
        del self.rows[gone]

    def expiry(self, **arguments: Any) -> SnapshotExpirySpec:
        """Spec of an expiry of all that the newest job does not need: those before it count as gone."""
        now = datetime.now(UTC) + timedelta(minutes=1)
        return SnapshotExpirySpec(
            **self._frame(),
            expire_before=now,
            expire_stage_branches_before=now - timedelta(days=1),
            expire_flink_jobs_before=self.began,
            **arguments,
        )

    def expire(self, **arguments: Any) -> ExpiryReport:
        """Expire as the operator does: the worker plans, the driver expires."""
        spec = self.expiry(**arguments)
        plan_expiry(LoadedIcebergTable(self.flow.loaded()), spec)
        return expire_snapshots(self.spark, spec, Progress())

    def head(self) -> str:
        """Snapshot at which main is."""
        return str(self.flow.loaded().metadata.current_snapshot_id)

    def roll_back(self, snapshot: str) -> MetadataChangeReport:
        """Roll main back to a snapshot."""
        return carry_out(self.flow, RollbackSpec, f"run {snapshot}", snapshot_id=snapshot)

    def upgrade(self, **arguments: Any) -> MetadataChangeReport:
        """Upgrade to format version 3."""
        return carry_out(self.flow, TableUpgradeSpec, **arguments)

    def _frame(self) -> dict[str, Any]:
        run = RunIdentity.of("dag", f"run {datetime.now(UTC).isoformat()}", "task", "-1")
        return {"catalog": "lake_default", "table": self.table, "run": run}

    def rows_read(self) -> dict[int, str]:
        """Rows as Spark reads them; a key that is there twice is an error."""
        self.spark.sql(f"REFRESH TABLE {self.table}")
        found = [(row["id"], row["name"]) for row in self.spark.table(self.table).collect()]
        assert len(found) == len(dict(found)), f"rows that are there twice: {sorted(found)}"
        return dict(found)

"""Small batches of rows into one table, run as the driver runs them and read back by PyIceberg.

A subclass reads tables of another format back: see ``formats/tiny_suite.py``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.reports.job import UpsertReport
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

NewFlow = Callable[..., "Flow"]
SCHEMA = "id BIGINT, name STRING, n INT, op STRING"


class Killed(BaseException):
    """Stands for a kill: no handler of the driver takes it for an error."""


def kill() -> None:
    """Stand for a driver that ends at once."""
    raise Killed


@dataclass
class InterruptedProgress(Progress):
    """Calls something when a phase begins, once: another writer, or a kill."""

    at: str = ""
    then: Callable[[], Any] | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[dict[str, object]]:
        if name == self.at and self.then is not None:
            then, self.then = self.then, None
            then()
        with super().phase(name) as facts:
            yield facts


@dataclass
class CountedCommits(Progress):
    """Calls something with the number of each commit, from 0 on, before it begins."""

    then: Callable[[int], Any] = print
    count: int = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[dict[str, object]]:
        if name == "commit":
            self.then(self.count)
            self.count += 1
        with super().phase(name) as facts:
            yield facts


@dataclass
class Flow:
    """One table and its inbox.

    :param table: ``namespace.table``.
    :param inbox: folder of JSON lines.
    """

    spark: SparkSession
    table: str
    inbox: Path
    changes: dict[str, Any] = field(default_factory=dict)

    def arrive(self, name: str, *rows: dict[str, Any], at: int | None = None) -> None:
        """Write a file of the inbox; ``at`` sets its modification time, for a correction within one second."""
        self.inbox.mkdir(parents=True, exist_ok=True)
        file = self.inbox / name
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        if at is not None:
            os.utime(file, (at, at))

    def make_table(self, columns: str, terms: str = "") -> None:
        """Make the table before the first batch, as its owner may.

        :param columns: with their types.
        :param terms: of SQL, such as ``PARTITIONED BY (name)``.
        """
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.table.rpartition('.')[0]}")
        self.spark.sql(f"CREATE TABLE {self.table} ({columns}) USING iceberg {terms}")

    def spec(self, run: str = "run 1", **changes: Any) -> UpsertSpec:
        identity = changes.pop("identity", None) or RunIdentity.of("dag", run, "task", "-1")
        arguments: dict[str, Any] = {
            "catalog": "lake_default",
            "table": self.table,
            "run": identity,
            "source": Files(path=f"{self.inbox}/*.jsonl", format="json", schema=SCHEMA),
            "keys": ("id",),
            "delete_when": "op = 'd'",
            "exclude_columns": ("op",),
        }
        given = {**arguments, **self.changes, **changes}
        given["source"] = replace(given["source"], name=given["source"].name or "inbox")
        columns = {name: given.pop(name) for name in ("exclude_columns", "missing_columns") if name in given}
        given.setdefault("schema_contract", SchemaContract(**columns))
        return UpsertSpec(**given)

    def apply(self, run: str = "run 1", progress: Progress | None = None, **changes: Any) -> UpsertReport:
        return upsert_batch(self.spark, self.spec(run, **changes), progress or Progress())

    def forget_commits(self, row: str) -> None:
        """Add a row by another writer, and expire all snapshots of before, as if weeks had passed."""
        table = f"lake_default.{self.table}"
        self.spark.sql(f"INSERT INTO {table} VALUES {row}")
        moment = f"TIMESTAMP '{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}'"
        expire = f"CALL lake_default.system.expire_snapshots(table => '{self.table}', older_than => {moment})"
        self.spark.sql(expire).collect()

    def catalog(self) -> Catalog:
        """The session's catalog in PyIceberg, with the table's namespace in it."""
        settings = self.spark.conf
        uri = str(settings.get("spark.sql.catalog.lake_default.uri")).removeprefix("jdbc:").partition("?")[0]
        warehouse = str(settings.get("spark.sql.catalog.lake_default.warehouse"))
        catalog = load_catalog(
            "lake_default", type="sql", uri=uri.replace("sqlite:", "sqlite:///"), warehouse=warehouse
        )
        catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
        return catalog

    def loaded(self) -> Table:
        """The table as PyIceberg sees it now."""
        return self.catalog().load_table(self.table)

    def on_worker(self) -> LoadedIcebergTable:
        """The table as a worker sees it now."""
        return LoadedIcebergTable(self.loaded())

    def copy(self, table: str) -> Flow:
        """Register the table under another name, as it is now: batches that many tests begin with are applied once.

        Both go on from the same files, so neither may delete any. No run of before is recognised under another name:
        see ``kept_tables.py``.
        """
        made = replace(self, table=table)
        made.catalog().register_table(table, self.loaded().metadata_location)
        return made

    def head(self) -> str:
        """Snapshot of main."""
        return str(self.loaded().metadata.current_snapshot_id)

    def properties(self) -> dict[str, str]:
        """Properties of the table."""
        return dict(self.on_worker().facts.properties)

    def records(self, branch: str = "main") -> list[dict[str, Any]]:
        """Rows, read by PyIceberg."""
        table = self.loaded()
        found: list[dict[str, Any]] = (
            table.scan(snapshot_id=table.metadata.refs[branch].snapshot_id).to_arrow().to_pylist()
        )
        return found

    def data_files(self) -> set[str]:
        """Names of the data and delete files below the table's location, part of it or not."""
        return {path.name for path in self.folder().rglob("*") if path.suffix in (".parquet", ".puffin")}

    def folder(self) -> Path:
        """Return the folder of the table's data and delete files."""
        return Path(self.loaded().location().removeprefix("file://").removeprefix("file:")) / "data"

    def rows(self, branch: str = "main") -> dict[int, tuple[Any, ...]]:
        """Rows by id, as :meth:`records` reads them."""
        found = self.records(branch)
        keyed = {row["id"]: tuple(value for name, value in row.items() if name != "id") for row in found}
        assert len(keyed) == len(found), f"{len(found) - len(keyed)} rows have the key of another"
        return keyed

    def rows_of_spark(self) -> dict[int, tuple[Any, ...]]:
        """Rows by id, as Spark reads them."""
        return {found["id"]: (found["name"], found["n"]) for found in self.spark.table(self.table).collect()}

    def row_ids(self) -> dict[int, int]:
        """``_row_id`` by id, as Spark reads it."""
        found = self.spark.sql(f"SELECT id, _row_id FROM {self.table}").collect()
        return {found_row["id"]: found_row["_row_id"] for found_row in found}

    def commits_of(self, run_key: str | None, branch: str = "main") -> int:
        """Count the snapshots of a branch's history with a run key; a staged and refused one is in no history."""
        table = self.loaded()
        history = ancestors_of(table.snapshot_by_name(branch), table.metadata)
        return sum(1 for s in history if s.summary and s.summary["lake.run-key"] == run_key)


def row(number: int, name: str, n: int | None = 0, op: str = "u") -> dict[str, Any]:
    return {"id": number, "name": name, "n": n, "op": op}

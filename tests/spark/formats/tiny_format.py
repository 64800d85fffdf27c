"""A second table format, of which only the tests know: Parquet files and a file that says which of them count.

It has three capabilities, and is as small as a format may be. Rows, position and run keys change together: by the
link of one file, whose name only one writer can take.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.capabilities import FormatCapabilities
from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.table_facts import TableState
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, FormatTable
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit, KeyedCommit
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.tiny_format import TINY

WAREHOUSE = "spark.tiny.warehouse"


class TinyFormat:
    """Tables below the folder of a setting."""

    capabilities: ClassVar[FormatCapabilities] = TINY

    def open_catalog(self, spark: SparkSession, catalog: str) -> Any:
        return SimpleNamespace(close=lambda: None)

    def table(self, spark: SparkSession, catalog: str, name: TableName, write_options: Mapping[str, str]) -> TinyTable:
        return TinyTable(spark, Path(str(spark.conf.get(WAREHOUSE))) / str(name))


@dataclass
class TinyTable(FormatTable):
    """A folder with numbered heads: version, folder of the rows, columns, position by source, run keys."""

    capabilities: ClassVar[FormatCapabilities] = TINY
    spark: SparkSession
    folder: Path

    def exists(self) -> bool:
        return bool(self.heads())

    def heads(self) -> list[Path]:
        """All heads, oldest first."""
        return sorted(self.folder.glob("head-*.json"))

    def state(self, branch: str | None = None) -> TableState:
        return TableState(snapshot=self._head()["version"])

    def schema(self) -> StructType | None:
        return StructType.fromJson(json.loads(self._head()["columns"])) if self.exists() else None

    def current_rows(self, base: str | None) -> DataFrame | None:
        return self.spark.read.parquet(self._head()["rows"]) if self.exists() and self._head()["rows"] else None

    def applied_state(self, source_name: str, branch: str | None = None) -> AppliedState:
        head = self._head()
        position = SourcePosition.read(head["properties"], source_name, self.folder.name)
        run_keys = RecentRunKeys.read(head["properties"])
        return AppliedState(base=head["version"], run_keys=run_keys, position=position, newest=position.generation)

    def create(self, columns: StructType, keys: tuple[str, ...], layout: TableLayout) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._link({**self._head(), "columns": columns.json()}, 0)

    def fit_schema(self, columns: StructType, contract: SchemaContract, missing: MissingColumns) -> tuple[str, ...]:
        if new := sorted(set(columns.names) - set((self.schema() or StructType()).names)):
            TINY.refuse_lacking(f"{self.folder.name}: columns {new} are new", ("schema-evolution",))
        return ()

    def apply(self, commit: KeyedCommit, progress: Progress) -> AppliedCommit:
        head, held, number = self._head(), self.current_rows(commit.base), len(self.heads())
        if head["version"] != commit.base:
            raise CommitConflictError(f"{self.folder.name}: the table is at {head['version']}")
        names = (self.schema() or StructType()).names
        rows = commit.rows.filter(~sf.col(DELETED)).select(*names)
        if held is not None:
            kept = held.join(commit.rows.select(*commit.keys), on=list(commit.keys), how="left_anti")
            rows = kept.select(*names).unionByName(rows)
        version = f"v{time.time_ns()}"
        rows.write.parquet(f"{self.folder}/{version}")
        recent = RecentRunKeys.read(head["properties"]).add(commit.run_key, datetime.now(UTC))
        properties = {**head["properties"], **recent.to_properties()}
        for source, position in commit.positions.items():
            properties |= position.to_properties(source)
        changed = {"version": version, "rows": f"{self.folder}/{version}", "run_key": commit.run_key}
        with progress.phase("commit"):
            self._link({**head, **changed, "properties": properties}, number)
        return AppliedCommit(snapshot=version, counted=False)

    def _head(self) -> dict[str, Any]:
        if not self.exists():
            columns = StructType().json()
            return {"version": None, "rows": None, "run_key": None, "columns": columns, "properties": {}}
        found: dict[str, Any] = json.loads(self.heads()[-1].read_text())
        return found

    def _link(self, head: dict[str, Any], number: int) -> None:
        new = self.folder / f"{uuid4().hex}.json"
        new.write_text(json.dumps(head))
        try:
            os.link(new, self.folder / f"head-{number:06}.json")
        except FileExistsError:
            raise CommitConflictError(f"{self.folder.name}: another writer committed first") from None

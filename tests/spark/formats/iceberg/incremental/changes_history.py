"""A v3 merge-on-read table that is written by SQL, and its changes as plain Python."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.read_changes import read_changes

CATALOG = "lake_default"
NAMESPACE = "changes"
MERGE_ON_READ = {f"write.{how}.mode": "merge-on-read" for how in ("update", "delete", "merge")}


class ChangesHistory:
    """A fresh table ``id BIGINT NOT NULL, v STRING`` with the identifier field ``id``."""

    def __init__(
        self, spark: SparkSession, *, partitioned_by: str = "", version: int = 3, identifier: bool = True
    ) -> None:
        self.spark = spark
        self.name = f"{NAMESPACE}.t{uuid.uuid4().hex[:12]}"
        properties = ", ".join(
            f"'{key}'='{value}'" for key, value in {"format-version": str(version), **MERGE_ON_READ}.items()
        )
        partitioning = f"PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
        spark.sql(
            f"CREATE TABLE {self.name} (id BIGINT NOT NULL, v STRING) USING iceberg {partitioning} "
            f"TBLPROPERTIES ({properties})"
        )
        if identifier:
            spark.sql(f"ALTER TABLE {self.name} SET IDENTIFIER FIELDS id")

    def run(self, statement: str) -> str:
        """Run SQL in which ``{t}`` is the table and return the head after it."""
        self.spark.sql(statement.replace("{t}", self.name))
        return str(self.handle().head())

    def insert(self, rows: dict[int, str]) -> str:
        """Append rows by id, into one file."""
        values = ", ".join(f"({key}L, '{value}')" for key, value in rows.items())
        return self.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")

    def compact(self) -> str:
        """Rewrite all files and apply all deletes."""
        return self.run(
            f"CALL {CATALOG}.system.rewrite_data_files(table => '{{t}}', options => map('rewrite-all', 'true'))"
        )

    def expire_all_but(self, *kept: str) -> None:
        """Forget all snapshots but these and the head, as a foreign job would."""
        table = self.handle()
        expiry = table.java.expireSnapshots()
        for snapshot in [str(snapshot.snapshotId()) for snapshot in table.java.snapshots()]:
            if snapshot not in kept and snapshot != str(table.head()):
                expiry = expiry.expireSnapshotId(int(snapshot))
        expiry.commit()

    def handle(self) -> IcebergTable:
        """The driver's handle, with newest metadata."""
        return IcebergTable(self.spark, CATALOG, TableName.parse(self.name)).refresh()

    def changes(self, start: str | None, end: str | None = None, **options: Any) -> Counter[tuple[Any, ...]]:
        """Read the changes as tuples, the change type first."""
        rows = read_changes(self.spark, self.name, start, end, **options)
        names = [name for name in rows.columns if name != "_change_type"]
        return Counter((row["_change_type"], *(row[name] for name in names)) for row in rows.collect())


def upserts(*rows: tuple[Any, ...]) -> Counter[tuple[Any, ...]]:
    """Expected upserts."""
    return Counter(("upsert", *row) for row in rows)


def deletes(*rows: tuple[Any, ...]) -> Counter[tuple[Any, ...]]:
    """Expected deletes, with old values."""
    return Counter(("delete", *row) for row in rows)

"""Two tables with the same files and deletes: one that Arrow rewrites, and one that Spark does."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.reports.job import CompactionReport
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.maintained_table import CATALOG, RUN

MERGE_ON_READ = {f"write.{action}.mode": "merge-on-read" for action in ("delete", "update", "merge")}


class Twins:
    """Two tables, of which the second is named like the first with ``_twin``.

    :param columns: as ``CREATE TABLE`` has them.
    """

    def __init__(
        self,
        spark: SparkSession,
        columns: str,
        *,
        version: int,
        partition: str = "",
        properties: dict[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self.name = f"maintained.twins_{uuid4().hex[:8]}"
        self.version = version
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.maintained")
        given = {"format-version": str(version), **MERGE_ON_READ, **(properties or {})}
        listed = ", ".join(f"'{name}'='{value}'" for name, value in given.items())
        self.run(f"CREATE TABLE {{}} ({columns}) USING iceberg {partition} TBLPROPERTIES ({listed})")

    @property
    def names(self) -> tuple[str, str]:
        return self.name, f"{self.name}_twin"

    def run(self, statement: str) -> None:
        """Run a statement for both; ``{}`` stands for the table."""
        for name in self.names:
            self.spark.sql(statement.replace("{}", name))

    def append(self, rows: Any, *, files: int = 1) -> None:
        """Append a DataFrame to both by one commit; only files of one commit are read in a sure order."""
        for name in self.names:
            rows.coalesce(files).writeTo(name).append()

    def compact(self, **arguments: Any) -> CompactionReport:
        """Rewrite the first by Arrow; the second by Spark, which is the oracle."""
        arguments = {"level": CompactionLevel.FULL, **arguments}
        reports = [
            compact_table(
                self.spark,
                CompactionSpec(catalog=CATALOG, table=name, run=RUN, runner=runner, **arguments),
                Progress(),
            )
            for name, runner in zip(self.names, (CompactionRunner.ARROW, CompactionRunner.SPARK), strict=True)
        ]
        return reports[0]

    def outside(self, name: str) -> StaticTable:
        """One of them as PyIceberg reads it."""
        table = IcebergTable(self.spark, CATALOG, TableName.parse(name)).refresh()
        return StaticTable.from_metadata(table.java.operations().current().metadataFileLocation())

    def rows(self, name: str) -> list[str]:
        """Rows of one of them as texts, with row ids and last changes where there are any."""
        self.spark.sql(f"REFRESH TABLE {name}")
        lineage = ", _row_id, _last_updated_sequence_number" if self.version >= 3 else ""
        frame = self.spark.sql(f"SELECT *{lineage} FROM {name}")
        return sorted(str(row) for row in frame.collect())

    def live_files(self, name: str) -> list[str]:
        """Locations of the data files of one of them."""
        self.spark.sql(f"REFRESH TABLE {name}")
        return [row[0] for row in self.spark.sql(f"SELECT file_path FROM {name}.data_files").collect()]

    def data_files(self, name: str) -> list[dict[str, Any]]:
        """Data files of one of them as Iceberg's JSON has them, in order, without what is of this table alone."""
        table = IcebergTable(self.spark, CATALOG, TableName.parse(name)).refresh()
        parser, specs = table.iceberg.ContentFileParser, table.java.specs()
        tasks = table.java.newScan().includeColumnStats().planFiles()
        iterator, files = tasks.iterator(), []
        while iterator.hasNext():
            file = iterator.next().file()
            files.append((int(file.dataSequenceNumber()), json.loads(parser.toJson(file, specs.get(file.specId())))))
        tasks.close()
        return sorted((_comparable(number, file) for number, file in files), key=json.dumps)


def _comparable(sequence_number: int, file: dict[str, Any]) -> dict[str, Any]:
    for name in ("file-path", "split-offsets", "column-sizes", "file-size-in-bytes", "first-row-id"):
        file.pop(name, None)
    for name, value in file.items():
        if isinstance(value, dict) and set(value) == {"keys", "values"}:
            file[name] = sorted(zip(value["keys"], value["values"], strict=True))
    return {**file, "sequence-number": sequence_number}

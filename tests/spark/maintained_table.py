"""Small tables with many files and deletes, and what a test needs to look at them from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
from pyiceberg.table import StaticTable, Table
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

CATALOG = "lake_default"
RUN = RunIdentity.of("dag", "run", "task", "-1")


@dataclass
class MaintainedTable:
    """A table of orders, and beside it the rows that it must hold, kept in plain Python.

    :param partitioned: by region.
    """

    spark: SparkSession
    version: int = 3
    partitioned: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    rows: dict[int, tuple[str, int]] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"maintained.orders_{uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake_default.maintained")
        modes = {f"write.{action}.mode": "merge-on-read" for action in ("delete", "update", "merge")}
        properties = {"format-version": str(self.version), **modes, **self.properties}
        listed = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        partition = "PARTITIONED BY (region)" if self.partitioned else ""
        self.spark.sql(
            f"CREATE TABLE {self.name} (id BIGINT, region STRING, amount BIGINT) USING iceberg {partition} "
            f"TBLPROPERTIES ({listed})"
        )

    def append(self, first: int, count: int, region: Any = "north") -> None:
        """Append one file of rows.

        :param region: of all of them; may be None.
        """
        new = {id_: (region, id_ * 10) for id_ in range(first, first + count)}
        ids = self.spark.range(first, first + count, numPartitions=1)
        frame = ids.select("id", sf.lit(region).cast("string").alias("region"), (sf.col("id") * 10).alias("amount"))
        frame.writeTo(self.name).append()
        self.rows.update(new)

    def delete(self, ids: list[int], session: SparkSession | None = None) -> None:
        """Delete rows by position, in this session or in another that shares nothing but the catalog."""
        (session or self.spark).sql(f"DELETE FROM {self.name} WHERE id IN ({', '.join(map(str, ids))})")
        for id_ in ids:
            del self.rows[id_]

    def merge(self, amounts: dict[int, int]) -> None:
        """Change amounts by MERGE."""
        # As an Arrow table: rows of Python objects would start a Python worker.
        changes = dataframe_of(self.spark, pa.table({"id": list(amounts), "amount": list(amounts.values())}))
        changes.createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO {self.name} t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.amount = s.amount"
        )
        self.rows.update({id_: (self.rows[id_][0], amount) for id_, amount in amounts.items()})

    @property
    def handle(self) -> IcebergTable:
        """A fresh handle, as a driver makes it."""
        return IcebergTable(self.spark, CATALOG, TableName.parse(self.name))

    def outside(self) -> StaticTable:
        """The table as PyIceberg reads it, without Spark."""
        return StaticTable.from_metadata(self.handle.refresh().java.operations().current().metadataFileLocation())

    def on_worker(self) -> LoadedIcebergTable:
        """The table as a worker sees it now."""
        return LoadedIcebergTable(self.outside())

    def head(self) -> str:
        """Snapshot of main."""
        return str(self.handle.head())

    def records(self) -> list[dict[str, Any]]:
        """Rows, read by PyIceberg."""
        found: list[dict[str, Any]] = self.outside().scan().to_arrow().to_pylist()
        return found

    def files_on_disk(self) -> set[Path]:
        """Data and delete files below the table's folder, whether a snapshot reaches them or not."""
        folder = Path(self.outside().location().removeprefix("file://").removeprefix("file:")) / "data"
        return {path for path in folder.rglob("*") if path.suffix in (".parquet", ".puffin")}

    def texts(self) -> list[str]:
        """All that its metadata says."""
        return [str(self.outside().metadata), str(self.outside().properties)]

    def create_tag(self, name: str, snapshot: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} CREATE TAG `{name}` AS OF VERSION {snapshot}")

    def drop_tag(self, name: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} DROP TAG `{name}`")

    def create_branch(self, name: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} CREATE BRANCH {name}")

    def drop_branch(self, name: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} DROP BRANCH {name}")

    def rewrite_metadata(self) -> None:
        """Leave nothing in the metadata of files that are gone."""
        self.spark.sql(f"CALL system.rewrite_manifests('{self.name}')")

    def take_no_files(self) -> None:
        """Put new files where none can be written."""
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('write.data.path' = 'file:/proc/none')")

    def rows_read(self) -> dict[int, tuple[str, int]]:
        """Rows as Spark reads them; a row read twice is an error."""
        self.spark.sql(f"REFRESH TABLE {self.name}")
        found = [(row[0], (row[1], row[2])) for row in self.spark.sql(f"SELECT * FROM {self.name}").collect()]
        assert len(found) == len(dict(found))
        return dict(found)

    def rows_in_data_files(self) -> dict[int, tuple[str, int]]:
        """Rows of the live Parquet files as DuckDB reads them, deletes left out of account."""
        paths = [path.removeprefix("file:") for path in self.live_files()]
        found = duckdb.execute("SELECT id, region, amount FROM read_parquet(?)", [paths]).fetchall()
        return {row[0]: (row[1], row[2]) for row in found}

    def live_files(self, content: int = 0) -> list[str]:
        """Paths of the live data files, or of delete files with content 1."""
        rows = self.spark.sql(f"SELECT file_path FROM {self.name}.files WHERE content = {content}").collect()
        return [row[0] for row in rows]

    def lineage(self) -> dict[int, tuple[int, int]]:
        """Row id and last change of each row."""
        self.spark.sql(f"REFRESH TABLE {self.name}")
        query = f"SELECT id, _row_id, _last_updated_sequence_number FROM {self.name}"
        return {row[0]: (row[1], row[2]) for row in self.spark.sql(query).collect()}

    def compaction(self, **arguments: object) -> CompactionSpec:
        """A spec for this table."""
        return CompactionSpec(catalog=CATALOG, table=self.name, run=RUN, **arguments)  # type: ignore[arg-type]  # as kwargs

    def other_session(self) -> SparkSession:
        """A session with a catalog object of its own: its commits are not seen by handles of the first."""
        return self.spark.newSession()


class ProgressThatRuns(Progress):
    """Calls something each time a phase begins: where a writer gets in between, without a race."""

    def __init__(self, phase: str, call: Callable[[], None], times: int = 1) -> None:
        super().__init__()
        self._phase, self._call, self._left = phase, call, times

    @contextmanager
    def phase(self, name: str) -> Iterator[dict[str, object]]:
        with super().phase(name) as facts:
            if name == self._phase and self._left:
                self._left -= 1
                self._call()
            yield facts


def names_of_files(table: Table) -> set[str]:
    """Return the names of data and delete files, manifests and lists that any snapshot names, by PyIceberg."""
    paths = set()
    for snapshot in table.metadata.snapshots:
        paths.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            paths.add(manifest.manifest_path)
            paths |= {each.data_file.file_path for each in manifest.fetch_manifest_entry(table.io)}
    return {path.rpartition("/")[2] for path in paths}

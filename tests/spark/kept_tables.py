"""Tables of the tests' catalog are put back to what they were, so that an action is due once more."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from tests.spark.faulty_catalog import FaultyCatalog


@dataclass(frozen=True)
class KeptTables:
    """A copy of some tables, each of which has a folder of its own.

    :param names: ``namespace.table``, also of those that are not there yet.
    :param entries: of the catalog's database, by name.
    :param folder: of the copied files.
    """

    spark: SparkSession
    names: tuple[str, ...]
    entries: dict[str, dict[str, Any]]
    folder: Path

    @classmethod
    def of(cls, spark: SparkSession, names: tuple[str, ...], folder: Path) -> KeptTables:
        """Copy what is there."""
        entries = {}
        for name in names:
            with closing(sqlite3.connect(FaultyCatalog.of(spark).database)) as database:
                database.row_factory = sqlite3.Row
                found = database.execute(
                    "SELECT * FROM iceberg_tables WHERE table_namespace || '.' || table_name = ?", (name,)
                ).fetchone()
            if found is not None:
                entries[name] = dict(found)
                shutil.copytree(_place(entries[name]), folder / name)
        return cls(spark, names, entries, folder)

    def put_back(self) -> None:
        """Drop the tables, and let those that were there be as they were."""
        for name in self.names:
            # Spark forgets what it has cached of a table.
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")
        with closing(sqlite3.connect(FaultyCatalog.of(self.spark).database, isolation_level=None)) as database:
            for name, entry in self.entries.items():
                shutil.rmtree(_place(entry))
                shutil.copytree(self.folder / name, _place(entry))
                marks = ", ".join("?" * len(entry))
                columns = ", ".join(entry)
                database.execute(f"INSERT INTO iceberg_tables ({columns}) VALUES ({marks})", tuple(entry.values()))


def _place(entry: dict[str, Any]) -> Path:
    """Return the folder of a table, whose metadata file is two levels below it."""
    return Path(urlsplit(entry["metadata_location"]).path).parents[1]

"""The tests' catalog in SQLite, made to stop taking commits after some: a trigger raises, whoever commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

_FOREVER = 2**31
# FAIL keeps the count, where ABORT would take it back. An action's threads commit through the same table.
_TRIGGER = """
CREATE TRIGGER fault_{when} BEFORE {when} ON iceberg_tables BEGIN
  UPDATE faults SET commits = commits + 1;
  SELECT RAISE(FAIL, 'the catalog takes no commit') FROM faults WHERE commits BETWEEN first AND last;
END
"""


@dataclass(frozen=True)
class FaultyCatalog:
    """Counts commits, creations of tables included.

    :param database: path of the catalog.
    """

    database: str

    @classmethod
    def of(cls, spark: SparkSession) -> FaultyCatalog:
        # The first question makes the tables of a new database.
        spark.sql("SHOW NAMESPACES IN lake_default").collect()
        uri = str(spark.conf.get("spark.sql.catalog.lake_default.uri"))
        return cls(uri.removeprefix("jdbc:sqlite:").partition("?")[0])

    @contextmanager
    def refusing(self, first: int = _FOREVER, *, once: bool = False) -> Iterator[None]:
        """Refuse commits from the given one on, counted from 1; or that one alone."""
        last = first if once else _FOREVER
        self._run(
            "CREATE TABLE faults (commits INTEGER, first INTEGER, last INTEGER)",
            f"INSERT INTO faults VALUES (0, {first}, {last})",
            _TRIGGER.format(when="INSERT"),
            _TRIGGER.format(when="UPDATE"),
        )
        try:
            yield
        finally:
            self._run("DROP TRIGGER fault_INSERT", "DROP TRIGGER fault_UPDATE", "DROP TABLE faults")

    def commits(self) -> int:
        """Return how many were tried; only while commits are counted."""
        with closing(sqlite3.connect(self.database)) as connection:
            return int(connection.execute("SELECT commits FROM faults").fetchone()[0])

    def _run(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.database, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

"""Tables of a database, read as a job does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.source_access import DatabaseAccess
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.sources.base import Listing, open_source
from airflow_lake_provider.spark_jobs.sources.jdbc.source import JdbcSource
from airflow_lake_provider.spark_jobs.sql.older_pyspark import to_arrow


@dataclass(kw_only=True)
class DatabaseTables:
    """A database, and the session that reads it.

    :param conn_id: under which the session has the access.
    """

    spark: SparkSession
    access: DatabaseAccess
    conn_id: str
    opened: list[JdbcSource] = field(default_factory=list)

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        raise NotImplementedError

    @contextmanager
    def lent(self, *statements: str) -> Iterator[Self]:
        """Lend it to a test, with its access in the session.

        :param statements: that empty it.
        """
        settings = self.access.to_settings(self.conn_id)
        for name, value in settings.items():
            self.spark.conf.set(name, value)
        self.run(*statements)
        yield self
        while self.opened:
            self.opened.pop().close()
        for name in settings:
            self.spark.conf.unset(name)

    def listed(self, table: str | None = None, **arguments: Any) -> tuple[JdbcSource, Listing]:
        """Open a source, and list it."""
        read = JdbcTable(arguments.pop("connection", self.conn_id), table, name="shop", **arguments)
        run = RunIdentity.of("dag", "run", "task", "-1")
        spec = UpsertSpec(catalog="lake_default", table="flows.t", run=run, source=read, keys=("id",))
        source = open_source(self.spark, spec)
        assert isinstance(source, JdbcSource)
        self.opened.append(source)
        return source, source.list()

    def rows(
        self, table: str | None = None, types: StructType | None = None, **arguments: Any
    ) -> list[tuple[Any, ...]]:
        """Read a source as a job does."""
        source, listing = self.listed(table, **arguments)
        with closing(source), source.refusing_unreadable(listing):
            return [tuple(row.values()) for row in to_arrow(source.raw(listing, types).rows).to_pylist()]

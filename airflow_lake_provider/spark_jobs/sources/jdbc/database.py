"""One connection of the driver to a database, which says what is there, and keeps a snapshot for the readers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.database_access import DatabaseAccess
from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BadInputError,
    InvalidConnectionError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.spark_jobs.jvm.gateway import has_class, jvm_of, load_class
from airflow_lake_provider.spark_jobs.jvm.java_errors import (
    SPARK_ERRORS,
    GatewayError,
    JavaError,
    java_causes,
    java_exceptions,
)
from airflow_lake_provider.spark_jobs.sources.jdbc.postgresql_types import REFUSED, DatabaseColumn, literal

DRIVER = "org.postgresql.Driver"
# Of java.sql.Types: what the driver takes an enumeration for.
_VARCHAR = 12
# Ranges of row addresses are scanned from here on.
_OLDEST = 140_000
_ISOLATED = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# Texts of times and intervals, whatever the server's or the user's defaults are.
_TEXT_FORMS = ("SET LOCAL TIME ZONE 'UTC'", "SET LOCAL DateStyle TO 'ISO'", "SET LOCAL IntervalStyle TO 'iso_8601'")
_REFUSED = re.compile(rf"{REFUSED} (column [^\"\n]*)")
# What is read, and who reads, by the classes of SQL's codes; all else may be better in a retry.
_CLASSES = {
    **dict.fromkeys(("0A", "22", "25", "42"), BadInputError),
    **dict.fromkeys(("28", "3D"), InvalidConnectionError),
}


@dataclass(frozen=True)
class Database:
    """An open connection, in a transaction that only reads.

    :param snapshot: under which other connections see what this one sees; None where each sees what is there.
    """

    spark: SparkSession
    access: DatabaseAccess
    connection: Any
    snapshot: str | None = None

    @classmethod
    def open(cls, spark: SparkSession, access: DatabaseAccess, *, is_consistent: bool) -> Database:
        """Connect, and take a snapshot for all readers.

        :raises LakeProviderError: the database does not answer, or refuses the user.
        :raises UnsupportedError: it is too old, or its driver is none of the job's jars.
        """
        if not has_class(spark, DRIVER):
            raise UnsupportedError(
                f"{DRIVER}, which reads {access.address}, is in none of the job's jars; add org.postgresql:postgresql "
                "to the jars of [lake] spark_jars, or to the operator's packages"
            )
        with database_errors(access):
            properties = jvm_of(spark).java.util.Properties()
            for name, value in login_of(access).items():
                properties.setProperty(name, value)
            connection = load_class(spark, DRIVER).newInstance().connect(access.url, properties)
        opened = cls(spark, access, connection)
        try:
            with database_errors(access):
                return opened._begun(is_consistent=is_consistent)
        except BaseException:
            opened.close()
            raise

    def _begun(self, *, is_consistent: bool) -> Database:
        self.connection.setAutoCommit(False)
        version = int(self.text("SHOW server_version_num"))
        if version < _OLDEST:
            raise UnsupportedError(
                f"{self.access.address} is PostgreSQL {version // 10_000}; it is read from {_OLDEST // 10_000} on"
            )
        self.connection.rollback()
        # The server may end a transaction that waits; this one waits until the batch is committed.
        waits = ["idle_in_transaction_session_timeout", *(["transaction_timeout"] if version >= 170_000 else [])]
        self._execute("; ".join([_ISOLATED, *_TEXT_FORMS, *(f"SET LOCAL {name} TO 0" for name in waits)]))
        if not is_consistent:
            return self
        return Database(self.spark, self.access, self.connection, self.text("SELECT pg_export_snapshot()"))

    @property
    def reader_start(self) -> str:
        """Statements with which the connection of each reader begins its transaction."""
        if self.snapshot is None:
            return "; ".join(_TEXT_FORMS)
        return "; ".join([_ISOLATED, f"SET TRANSACTION SNAPSHOT {literal(self.snapshot)}", *_TEXT_FORMS])

    def text(self, sql: str) -> str:
        """Return the only value of a statement, as text.

        :raises LakeProviderError: it cannot be run.
        """
        with database_errors(self.access):
            statement = self.connection.createStatement()
            try:
                rows = statement.executeQuery(sql)
                rows.next()
                return str(rows.getString(1))
            finally:
                statement.close()

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the few rows of a statement, in one answer."""
        rows: list[dict[str, Any]] = json.loads(
            self.text(f"SELECT coalesce(json_agg(lake), '[]')::text FROM (\n{sql}\n) AS lake")
        )
        return rows

    def columns(self, relation: str) -> tuple[DatabaseColumn, ...]:
        """Return the columns of what stands behind FROM; no row is read.

        :raises BadInputError: it cannot be read.
        """
        with database_errors(self.access):
            statement = self.connection.prepareStatement(f"SELECT * FROM {relation} AS lake LIMIT 0")
            try:
                described = statement.getMetaData()
                return tuple(_column(described, place) for place in range(1, described.getColumnCount() + 1))
            finally:
                statement.close()

    def close(self) -> None:
        """End the transaction, and with it the snapshot."""
        # A database that is gone has ended it.
        with suppress(JavaError, GatewayError):
            self.connection.close()

    def _execute(self, sql: str) -> None:
        statement = self.connection.createStatement()
        try:
            statement.execute(sql)
        finally:
            statement.close()


def login_of(access: DatabaseAccess) -> dict[str, str]:
    """Return user and password as the driver takes them."""
    return {name: value for name, value in (("user", access.user), ("password", access.password)) if value}


def _column(described: Any, place: int) -> DatabaseColumn:
    return DatabaseColumn(
        name=str(described.getColumnLabel(place)),
        kind=str(described.getColumnTypeName(place)).strip('"'),
        precision=int(described.getPrecision(place)),
        scale=int(described.getScale(place)),
        is_text=int(described.getColumnType(place)) == _VARCHAR,
    )


@contextmanager
def database_errors(access: DatabaseAccess, snapshot: str | None = None) -> Iterator[None]:
    """Turn an error of a database into one that says what to do; no other error is touched.

    :param snapshot: of the readers.
    :raises LakeProviderError: of the cause's type.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        translated = _translated(access, snapshot, error)
        if translated is None:
            raise
        raise translated from error


def _translated(access: DatabaseAccess, snapshot: str | None, error: Exception) -> LakeProviderError | None:
    causes = [(name, " ".join(text.split())) for name, text in java_causes(error)]
    if (match := _REFUSED.search(" ".join(text for _, text in causes))) is not None:
        return BadInputError(
            f"{access.address}: {match[1]}, which no lake table has. Say what becomes of it in JdbcTable(sql=...), for "
            "example NULLIF(x, 'infinity'), x::text, or x::numeric(38, 9)"
        )
    message = next((text for name, text in reversed(causes) if "PSQLException" in name), None)
    if message is None:
        return None
    if snapshot is not None and snapshot in message:
        return JobFailedError(
            f"{access.address}: a reader could not take the snapshot of the others: {message}. The transaction that "
            "holds it has ended, or a proxy has led the reader to another server. A retry takes a new one; where a "
            "proxy spreads connections over servers, name one server, or give JdbcTable(consistent=False)"
        )
    state = _state(error)
    if state == "42501":
        return AccessDeniedError(f"{access.address}: user {access.user!r} may not read it: {message}")
    kind = _CLASSES.get(state[:2], JobFailedError)
    return kind(f"{access.address}: {message}")


def _state(error: Exception) -> str:
    """Return the code of an error of SQL; empty where it came as text, of an executor."""
    for java in java_exceptions(error):
        if str(java.getClass().getSimpleName()) == "PSQLException":
            return str(java.getSQLState())
    return ""

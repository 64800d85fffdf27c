"""One connection of the driver to a database, which says what is there, and keeps a snapshot for the readers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BadInputError,
    InvalidConnectionError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.failure_causes import TLS
from airflow_lake_provider.contracts.source_access import DatabaseAccess
from airflow_lake_provider.spark_jobs.jvm.gateway import has_class, jvm_of, load_class
from airflow_lake_provider.spark_jobs.jvm.java_errors import (
    SPARK_ERRORS,
    GatewayError,
    JavaError,
    java_causes,
    java_exceptions,
)
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import REFUSED, DatabaseColumn, Dialect
from airflow_lake_provider.spark_jobs.sources.jdbc.mariadb import MariaDb
from airflow_lake_provider.spark_jobs.sources.jdbc.postgresql import PostgreSql

# By the scheme of an address of JDBC.
_DIALECTS: dict[str, Dialect] = {"postgresql": PostgreSql(), "mysql": MariaDb()}
# Of java.sql.Types: what the driver takes an enumeration for.
_VARCHAR = 12
_REFUSED = re.compile(rf"{REFUSED} (column [^\"\n]*?)(?= SQLSTATE: |[\"\n]|$)")
# What is read, and who reads, by the classes of SQL's codes; all else may be better in a retry.
_CLASSES: dict[str, type[LakeProviderError]] = {
    **dict.fromkeys(("0A", "22", "25", "42"), BadInputError),
    **dict.fromkeys(("28", "3D"), InvalidConnectionError),
}


@dataclass(frozen=True)
class Database:
    """An open connection, in a transaction that only reads.

    :param dialect: of the database.
    :param snapshot: under which other connections see what this one sees; None where each sees what is there.
    """

    spark: SparkSession
    access: DatabaseAccess
    connection: Any
    dialect: Dialect
    snapshot: str | None = None

    @classmethod
    def open(cls, spark: SparkSession, access: DatabaseAccess, *, is_consistent: bool) -> Database:
        """Connect, and take a snapshot for all readers.

        :raises LakeProviderError: the database does not answer, or refuses the user.
        :raises UnsupportedError: it is too old, or its driver is none of the job's jars.
        """
        dialect = dialect_of(access)
        if not has_class(spark, dialect.driver):
            raise UnsupportedError(
                f"{dialect.driver}, which reads {access.address}, is in none of the job's jars; add {dialect.package} "
                "to the jars of [lake] spark_jars, or to the operator's packages"
            )
        with database_errors(access):
            properties = jvm_of(spark).java.util.Properties()
            for name, value in {**login_of(access), **dialect.properties}.items():
                properties.setProperty(name, value)
            connection = load_class(spark, dialect.driver).newInstance().connect(access.url, properties)
        opened = cls(spark, access, connection, dialect)
        try:
            with database_errors(access):
                return opened._begun(is_consistent=is_consistent)
        except BaseException:
            opened.close()
            raise

    def _begun(self, *, is_consistent: bool) -> Database:
        version = self.text(self.dialect.version)
        self.dialect.refuse_old(version, self.access.address)
        self.connection.setAutoCommit(False)
        return replace(self, snapshot=self.dialect.begin(self, version, is_consistent=is_consistent))

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
        answer = json.loads(self.text(self.dialect.as_json(sql)))
        return answer if isinstance(answer, list) else [answer]

    def check(self, statement: str) -> None:
        """Let the database say what it refuses about a statement that others will run, and read no row.

        :raises LakeProviderError: it refuses something.
        """
        with database_errors(self.access):
            self.execute(self.dialect.check(statement))
            if not self.dialect.has_shared_snapshots:
                # It serves no reader, and would lock the table's definition: who alters it waits, and all behind it.
                self.connection.rollback()

    def columns(self, relation: str, names: Sequence[str] = ()) -> tuple[DatabaseColumn, ...]:
        """Return the columns of what stands behind FROM; no row is read.

        :param names: of those that are wanted, where the user may not read all.
        :raises BadInputError: it cannot be read.
        """
        try:
            return self._described("*", relation)
        except AccessDeniedError:
            if not names:
                raise
            return self._described(", ".join(map(self.dialect.quoted, names)), relation)

    def _described(self, columns: str, relation: str) -> tuple[DatabaseColumn, ...]:
        with database_errors(self.access):
            statement = self.connection.prepareStatement(f"SELECT {columns} FROM {relation} AS lake LIMIT 0")
            try:
                described = statement.getMetaData()
                return tuple(self._column(described, place) for place in range(1, described.getColumnCount() + 1))
            finally:
                statement.close()

    def _column(self, described: Any, place: int) -> DatabaseColumn:
        return DatabaseColumn(
            name=str(described.getColumnLabel(place)),
            kind=self.dialect.kind(str(described.getColumnTypeName(place))),
            precision=int(described.getPrecision(place)),
            scale=int(described.getScale(place)),
            is_text=int(described.getColumnType(place)) == _VARCHAR,
        )

    def execute(self, sql: str) -> None:
        """Run a statement."""
        statement = self.connection.createStatement()
        try:
            statement.execute(sql)
        finally:
            statement.close()

    def close(self) -> None:
        """End the transaction, and with it the snapshot."""
        # A database that is gone has ended it.
        with suppress(JavaError, GatewayError):
            self.connection.close()


def dialect_of(access: DatabaseAccess) -> Dialect:
    """Return what is known of the kind of database that an address is of."""
    return _DIALECTS[access.address.partition(":")[0]]


def login_of(access: DatabaseAccess) -> dict[str, str]:
    """Return user and password as the driver takes them."""
    return {name: value for name, value in (("user", access.user), ("password", access.password)) if value}


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
            f"example {dialect_of(access).remedies}"
        )
    dialect = dialect_of(access)
    message = next((text for name, text in reversed(causes) if dialect.is_own_error(name)), None)
    if message is None:
        return None
    if snapshot is not None and snapshot in message:
        return JobFailedError(
            f"{access.address}: a reader could not take the snapshot of the others: {message}. The transaction that "
            "holds it has ended, or a proxy has led the reader to another server. A retry takes a new one; where a "
            "proxy spreads connections over servers, name one server, or give JdbcTable(consistent=False)"
        )
    state, code = _codes(dialect, error)
    otherwise = JobFailedError if TLS.find(message) is None else TLS.error
    kind = dialect.error_class(state, code) or _CLASSES.get(state[:2], otherwise)
    may_not = f"user {access.user!r} may not read it: " if kind is AccessDeniedError else ""
    return kind(f"{access.address}: {may_not}{message}")


def _codes(dialect: Dialect, error: Exception) -> tuple[str, int]:
    """Return the codes of an error, of SQL and of the server; nothing where it came as text, of an executor."""
    for java in java_exceptions(error):
        if dialect.is_own_error(str(java.getClass().getSimpleName())):
            return str(java.getSQLState() or ""), int(java.getErrorCode())
    return "", 0

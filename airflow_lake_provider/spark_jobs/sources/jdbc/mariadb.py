"""MariaDB and MySQL, by MariaDB's driver. Connections share no snapshot, so a table is one range by default.

A value is sent in a form of which Spark has exactly the value that the database has. A FLOAT shows six digits by
itself, and TIMESTAMP depends on the session's zone. What is no date, such as 0000-00-00, becomes NULL in computations:
it comes as a number that no date has, and Spark refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
)

from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    InvalidConnectionError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import (
    REFUSED,
    VALUE,
    Asked,
    DatabaseColumn,
    Dialect,
    SentValue,
)

_OLDEST = {"MariaDB": (10, 5), "MySQL": (8, 0)}
_ISOLATED = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# MySQL has no such limits. A long statement's, max_statement_time or max_execution_time, is its owner's wish.
_UNENDED = "SET SESSION idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0"
_VERSION = re.compile(r"(\d+)\.(\d+)")
_FORMS = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%i:%s.%f", "timestamp": "%Y-%m-%dT%H:%i:%s.%fZ"}
_CASTS = {"date": "DATE", "datetime": "DATETIME(6)", "timestamp": "DATETIME(6)"}
# Above all that is no date, by which an index is read; outside the range of its type it would not be.
_ABOVE_NONE = {
    "date": "CAST('0001-01-01' AS DATE)",
    "datetime": "CAST('0001-01-01' AS DATETIME)",
    "timestamp": "CAST('1970-01-01 00:00:01' AS DATETIME)",
}
# Several kinds have the code of SQL of a wrong statement.
_CLASSES: dict[int, type[LakeProviderError]] = {
    # To a database, a table, a column; for want of a privilege; what is below a view.
    **dict.fromkeys((1044, 1142, 1143, 1227, 1345, 1370), AccessDeniedError),
    # Login, database, expired password.
    **dict.fromkeys((1045, 1049, 1698, 1862), InvalidConnectionError),
    # Too many connections; waits for a lock, deadlocks.
    **dict.fromkeys((1040, 1203, 1205, 1213, 1226), JobFailedError),
}
_INTEGERS: dict[str, DataType] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "integer", "year"), IntegerType()),
    **dict.fromkeys(("tinyint unsigned", "smallint unsigned", "mediumint unsigned"), IntegerType()),
    **dict.fromkeys(("integer unsigned", "bigint"), LongType()),
    "bigint unsigned": DecimalType(20, 0),
}
# Types of which the text says all.
_TEXTS = frozenset(
    {
        *("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "time"),
        *("uuid", "inet4", "inet6"),
    }
)
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
# Least of the numbers that arrive; of no date.
_NO_DATE, _NO_TIME = -(2**31), -(2**63)
_BITS_OF_LONG = 63


class MariaDb(Dialect):
    """MariaDB from version 10.5 on, and MySQL from 8.0 on."""

    driver: ClassVar[str] = "org.mariadb.jdbc.Driver"
    package: ClassVar[str] = "org.mariadb.jdbc:mariadb-java-client"
    has_shared_snapshots: ClassVar[bool] = False
    version: ClassVar[str] = "SELECT VERSION()"
    properties: ClassVar[Mapping[str, str]] = {
        # The server ends a connection whose reader takes no rows for a minute, and lets it wait a day for who alters.
        # The driver's waits from the listing to the read. A limit of the server's on the rows of any SELECT would end a
        # read, and nothing would tell.
        "sessionVariables": "time_zone='+00:00',net_write_timeout=3600,wait_timeout=28800,lock_wait_timeout=300,"
        f"sql_select_limit={2**64 - 1}",
        "tinyInt1isBit": "false",
    }
    number_cast: ClassVar[str] = "CAST(x AS SIGNED)"
    # All that it has beside geometry is read.
    text_cast: ClassVar[str] = "ST_AsText(x)"
    remedies: ClassVar[str] = "CASE WHEN YEAR(x) > 0 THEN x END, CAST(x AS CHAR), or CAST(x AS DECIMAL(38, 9))"
    numbers: ClassVar[Sequence[str]] = tuple(
        f"{name}{sign}"
        for name in ("tinyint", "smallint", "mediumint", "integer", "bigint")
        for sign in ("", " unsigned")
    )
    widest: ClassVar[str] = "bigint"
    times: ClassVar[Sequence[str]] = tuple(_FORMS)

    def refuse_old(self, version: str, address: str) -> None:
        """Refuse a server that the tests, or its own maker, have left behind."""
        product = _product(version)
        match = _VERSION.match(version)
        if match is None or (int(match[1]), int(match[2])) < _OLDEST[product]:
            oldest = ".".join(map(str, _OLDEST[product]))
            raise UnsupportedError(f"{address} is {product} {version}; it is read from {oldest} on")

    def begin(self, database: Asked, version: str, *, is_consistent: bool) -> str | None:  # noqa: ARG002  # others share it
        """Take a snapshot, which no other connection can see."""
        if _product(version) == "MariaDB":
            database.execute(_UNENDED)
        database.execute(_ISOLATED)
        database.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return None

    def reader_start(self, snapshot: str | None) -> str:  # noqa: ARG002  # others share it
        """Read what is committed when the statement begins, and write nothing."""
        return _ISOLATED

    def kind(self, type_name: str) -> str:
        """Return the name of the type in lower case."""
        return type_name.lower()

    def quoted(self, name: str) -> str:
        """Return the name in backticks."""
        return _quoted_identifier(name)

    def literal(self, text: str) -> str:
        """Return the text by its bytes."""
        return _literal(text)

    def typed(self, value: str, kind: str) -> str:
        """Return a cast, or the number."""
        if kind in self.numbers:
            return str(int(value))
        return f"CAST({_literal(value.removesuffix('Z'))} AS {_CASTS[kind]})"

    def below(self, value: str, microseconds: int) -> str:
        """Return a difference."""
        # Before the year 0 the difference is NULL.
        return f"COALESCE({value} - INTERVAL {microseconds} MICROSECOND, CAST('0001-01-01' AS DATETIME))"

    def as_json(self, sql: str) -> str:
        """Return the statement: each one here makes an object of a row by itself."""
        return sql

    def pages(self, database: Asked, table: Sequence[str]) -> tuple[int, ...] | None:
        """Return no pages; None where there is no table."""
        return () if _stored(database, table)["count"] else None

    def sent(self, column: DatabaseColumn, wanted: DataType | None) -> SentValue | None:
        """Return how the values of a column are sent."""
        return _sent_value(column, wanted)

    def greatest(self, relation: str, column: DatabaseColumn) -> str:
        """Return the query for the greatest value."""
        # JSON has no zeros before a number, as ZEROFILL shows it.
        value, unfit, future = "m + 0", "FALSE", "FALSE"
        if column.kind in _FORMS:
            value = f"DATE_FORMAT(m, '{_FORMS[column.kind]}')"
            unfit, future = "COALESCE(YEAR(m) = 0, FALSE)", "COALESCE(m > UTC_TIMESTAMP(6) + INTERVAL 1 DAY, FALSE)"
        made = f"JSON_OBJECT('value', {value}, 'is_unfit', {unfit}, 'is_in_future', {future})"
        return f"SELECT {made} FROM (SELECT MAX({_quoted_identifier(column.name)}) AS m FROM {relation} AS lake) AS g"

    def has_nulls(self, relation: str, column: DatabaseColumn) -> str:
        """Return the query for NULL, and for dates that are none."""
        name = _quoted_identifier(column.name)
        is_none = f"{name} IS NULL"
        if column.kind in _FORMS:
            # IS NULL is true of 0000-00-00, but only where the column is NOT NULL.
            is_none = f"({is_none} OR {name} < {_ABOVE_NONE[column.kind]}) AND COALESCE(YEAR({name}), 0) = 0"
        nulls = f"SELECT 1 FROM {relation} AS lake WHERE {is_none}"
        return f"SELECT JSON_OBJECT('are_there', EXISTS ({nulls}))"

    def planned_bytes(
        self,
        database: Asked,
        relation: str,  # noqa: ARG002  # others plan
        table: Sequence[str] | None,
        columns: Sequence[str],  # noqa: ARG002
        where: str,
    ) -> int:
        """Ask for the size of the table; nothing tells that of a part."""
        if table is None or where != "true":
            return 0
        return int(_stored(database, table)["bytes"])

    def weighed_values(self, database: Asked, relation: str, column: DatabaseColumn) -> list[tuple[str, float]]:  # noqa: ARG002  # others have statistics
        """Return nothing: only its administrator may read the server's statistics."""
        return []

    def even_values(self, database: Asked, relation: str, column: DatabaseColumn, where: str, wanted: int) -> list[str]:
        """Compute them of both ends."""
        name = _quoted_identifier(column.name)
        form = f"DATE_FORMAT({{}}, '{_FORMS[column.kind]}')" if column.kind in _FORMS else "{} + 0"
        is_one = _is_date(column) if column.kind in _FORMS else "TRUE"
        low, high = form.format(f"MIN({name})"), form.format(f"MAX({name})")
        (row,) = database.rows(
            f"SELECT JSON_OBJECT('low', {low}, 'high', {high}) FROM {relation} AS lake WHERE ({where}) AND {is_one}"
        )
        return [] if row["low"] is None else _between(row["low"], row["high"], wanted)

    def quantiles(self, database: Asked, relation: str, column: DatabaseColumn, where: str, wanted: int) -> list[str]:
        """Return even values: MySQL has no quantiles."""
        return self.even_values(database, relation, column, where, wanted)

    def is_own_error(self, java_name: str) -> bool:
        """Tell by the classes of JDBC, which the driver uses."""
        return java_name.startswith("SQL") and not java_name.startswith("SQLite")

    def error_class(self, state: str, code: int) -> type[LakeProviderError] | None:  # noqa: ARG002  # others have SQL's
        """Tell by the server's code."""
        return _CLASSES.get(code)

    def check(self, statement: str) -> str:
        """Return the statement without its rows: who may read a view only may not see its plan."""
        return f"SELECT * FROM (\n{statement}\n) AS lake LIMIT 0"


def _product(version: str) -> str:
    return "MariaDB" if "mariadb" in version.lower() else "MySQL"


def _stored(database: Asked, table: Sequence[str]) -> dict[str, Any]:
    """Return ``count`` and ``bytes`` of the tables of a name: of one, or of none."""
    schema = _literal(table[0]) if len(table) > 1 else "DATABASE()"
    (row,) = database.rows(
        "SELECT JSON_OBJECT('count', COUNT(*), 'bytes', COALESCE(MAX(data_length), 0)) FROM information_schema.tables "
        f"WHERE table_schema = {schema} AND table_name = {_literal(table[-1])}"
    )
    return row


def _between(low: str | int, high: str | int, wanted: int) -> list[str]:
    if isinstance(low, int):
        numbers = {low + (int(high) - low) * part // wanted for part in range(1, wanted)}
        return [str(each) for each in sorted(numbers) if each > low]
    first, last = (datetime.fromisoformat(str(end).removesuffix("Z")) for end in (low, high))
    times = sorted({first + (last - first) * part / wanted for part in range(1, wanted)} - {first})
    if len(low) == len(date.min.isoformat()):
        days = {(each + timedelta(hours=12)).date() for each in times}
        return [each.isoformat() for each in sorted(days) if each > first.date()]
    return [each.isoformat(timespec="microseconds") for each in times]


def _sent_value(column: DatabaseColumn, wanted: DataType | None) -> SentValue | None:
    """Return how the values of a column are sent; None for a type that no lake table has.

    :param wanted: type of the column of the target. ``tinyint(1)`` is fitted to BOOLEAN, and a decimal of more than 38
        digits to a smaller one.
    """
    kind, value = column.kind, _quoted_identifier(column.name)
    if kind.startswith("tinyint") and column.precision == 1 and isinstance(wanted, BooleanType):
        return SentValue(value, IntegerType(), _unless("{} NOT IN (0, 1)", column, "a number but 0 and 1", "{} = 1"))
    if kind in _INTEGERS:
        return SentValue(f"{value} + 0", _INTEGERS[kind])
    if kind == "bit":
        return _bits(column, value)
    if kind.startswith(("float", "double")):
        return SentValue(f"{value} * 1E0", DoubleType(), "CAST({} AS FLOAT)" if kind.startswith("float") else VALUE)
    if kind.startswith("decimal"):
        return _decimal(column, value, wanted)
    if kind in ("date", "datetime", "timestamp"):
        return _time(column, value)
    if kind in _BYTES:
        return SentValue(value, BinaryType())
    if kind == "char":
        # A mode of the server keeps the blanks.
        value = f"TRIM(TRAILING ' ' FROM {value})"
    return SentValue(f"CONVERT({value} USING utf8mb4)", StringType()) if kind in _TEXTS else None


def _bits(column: DatabaseColumn, value: str) -> SentValue:
    if column.precision == 1:
        return SentValue(f"{value} + 0", IntegerType(), "{} = 1")
    return SentValue(f"{value} + 0", LongType() if column.precision <= _BITS_OF_LONG else DecimalType(20, 0))


def _decimal(column: DatabaseColumn, value: str, wanted: DataType | None) -> SentValue:
    if (decimal := column.decimal) is not None:
        return SentValue(value, decimal)
    text = f"CAST({value} AS CHAR)"
    if not isinstance(wanted, DecimalType):
        return SentValue(text, StringType())
    # The text has all digits of the scale. Those behind the wanted ones have to be zeros.
    fitted = f"TRY_CAST({{}} AS DECIMAL({wanted.precision}, {wanted.scale}))"
    spare = column.scale - wanted.scale
    is_cut = f"substring({{}}, -{spare}) <> repeat('0', {spare})" if spare > 0 else "false"
    fault = f"a number that is no {wanted.simpleString()}"
    return SentValue(
        text, StringType(), _unless(f"{{}} IS NOT NULL AND ({fitted} IS NULL OR {is_cut})", column, fault, fitted)
    )


def _time(column: DatabaseColumn, value: str) -> SentValue:
    count, none, made = f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {value})", _NO_TIME, "timestamp_micros({})"
    if column.kind == "date":
        count, none, made = f"TO_DAYS({value}) - 719528", _NO_DATE, "date_from_unix_date({})"
    # A date that is none is NULL, and IS NULL, in some places.
    sql = f"CASE WHEN {_is_date(column)} THEN {count} WHEN YEAR({value}) IS NULL THEN NULL ELSE {none} END"
    if column.kind == "datetime":
        # The session's zone is UTC.
        made = f"CAST({made} AS TIMESTAMP_NTZ)"
    sent = IntegerType() if column.kind == "date" else LongType()
    return SentValue(sql, sent, _unless(f"{{}} = {none}", column, "a date that is none", made))


def _is_date(column: DatabaseColumn) -> str:
    """Return the condition that a date or a time is one: of no year 0, with a month and a day, in its month."""
    value = _quoted_identifier(column.name)
    day = value if column.kind == "date" else f"DATE({value})"
    return f"YEAR({value}) > 0 AND COALESCE(FROM_DAYS(TO_DAYS({day})) = {day}, FALSE)"


def _unless(condition: str, column: DatabaseColumn, fault: str, made: str) -> str:
    """Return an expression of Spark that ends the job where a condition holds."""
    message = f"{REFUSED} column {column.name}, it has {fault}".replace("{", "(").replace("}", ")")
    text = message.replace("\\", "\\\\").replace("'", "\\'")
    return f"CASE WHEN {condition} THEN raise_error('{text}') ELSE {made} END"


def _quoted_identifier(name: str) -> str:
    """Return a name as MariaDB reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    """Return a text as a constant: by its bytes, as backslashes depend on the server's mode."""
    return f"_utf8mb4 X'{text.encode().hex()}'"

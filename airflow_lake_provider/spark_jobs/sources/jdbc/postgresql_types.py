"""PostgreSQL's types: in which form a value is sent, so that Spark has exactly the value that the database has.

Spark's own mapping loses some: a numeric without a scale gets 18 digits behind the point, and infinity becomes the year
9999. Dates and times depend on the JVM's zone and calendar there. Here they are sent as whole numbers. A value that no
lake table has ends the statement with a message of ours.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
)

from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import REFUSED, VALUE, DatabaseColumn, SentValue

# Cast in the database, and the type of Spark that it arrives as.
_PLAIN: dict[str, tuple[str, DataType]] = {
    "bool": ("bool", BooleanType()),
    "int2": ("int4", IntegerType()),
    "int4": ("int4", IntegerType()),
    "int8": ("int8", LongType()),
    "oid": ("int8", LongType()),
    "float4": ("float4", FloatType()),
    "float8": ("float8", DoubleType()),
}
# Types of which the text says all.
_TEXTS = frozenset(
    {
        *("text", "varchar", "bpchar", "name", "char", "citext", "uuid", "json", "jsonb", "xml"),
        *("time", "timetz", "interval", "inet", "cidr", "macaddr", "macaddr8", "bit", "varbit"),
    }
)
_TIMES = frozenset({"date", "timestamp", "timestamptz"})


def sent_value(column: DatabaseColumn, wanted: DataType | None) -> SentValue | None:
    """Return how the values of a column are sent; None for a type that no lake table has.

    :param wanted: type of the column of the target, to whose decimals a numeric without a scale is fitted.
    """
    kind, value = column.kind, quoted_identifier(column.name)
    if kind in _PLAIN:
        cast, sent = _PLAIN[kind]
        return SentValue(f"{value}::{cast}", sent)
    if kind in _TIMES:
        return _time(column, value)
    if kind == "numeric":
        return _numeric(column, value, wanted if isinstance(wanted, DecimalType) else None)
    if kind == "bytea":
        return SentValue(value, BinaryType())
    # Names of arrays begin so, and an enumeration may have any name.
    if kind.startswith("_") and not column.is_text:
        return _array(column, value, kind.removeprefix("_"))
    return SentValue(f"{value}::text", StringType()) if kind in _TEXTS or column.is_text else None


def _time(column: DatabaseColumn, value: str) -> SentValue:
    sent, sql, made = _as_number(column.kind, value)
    checked = _unless({f"NOT isfinite({value})": "infinity"}, column, value, sent, sql)
    return SentValue(checked, IntegerType() if sent == "int4" else LongType(), made)


def _as_number(kind: str, value: str) -> tuple[str, str, str]:
    """Return PostgreSQL's type of a number, the number that stands for a date or a time, and what Spark makes of it."""
    if kind == "date":
        return "int4", f"({value} - DATE '1970-01-01')", "date_from_unix_date({})"
    sql, made = f"(extract(epoch FROM {value}) * 1000000)::int8", "timestamp_micros({})"
    # The session's zone is UTC.
    return "int8", sql, f"CAST({made} AS TIMESTAMP_NTZ)" if kind == "timestamp" else made


def _numeric(column: DatabaseColumn, value: str, wanted: DecimalType | None) -> SentValue:
    if (decimal := column.decimal) is not None:
        return SentValue(_unless({f"{value} = 'NaN'": "NaN"}, column, value, "numeric", value), decimal)
    if wanted is None:
        return SentValue(f"{value}::text", StringType())
    # Infinity is one of the numbers that are too large.
    faults = {
        f"{value} = 'NaN'": "NaN",
        f"{value} <> round({value}, {wanted.scale}) OR abs({value}) >= 1e{wanted.precision - wanted.scale}": (
            f"a number that is no {wanted.simpleString()}"
        ),
    }
    return SentValue(_unless(faults, column, value, "numeric", value), wanted)


def _array(column: DatabaseColumn, value: str, kind: str) -> SentValue | None:
    # The driver's array of arrays is none of values.
    faults = {f"array_ndims({value}) > 1": "an array of several dimensions"}
    if kind in _PLAIN:
        cast, sent = _PLAIN[kind]
    elif kind == "numeric" and column.decimal is not None:
        cast, sent = "numeric", column.decimal
        faults[f"'NaN' = ANY({value})"] = "NaN"
    elif kind in _TIMES:
        return _times(column, value, kind, faults)
    elif kind == "numeric" or kind in _TEXTS:
        cast, sent = "text", StringType()
    else:
        return None
    return SentValue(_unless(faults, column, value, f"{cast}[]", f"{value}::{cast}[]"), ArrayType(sent))


def _times(column: DatabaseColumn, value: str, kind: str, faults: dict[str, str]) -> SentValue:
    # As texts, those before year 1 end in BC, which Spark drops from a date.
    sent, number, made = _as_number(kind, "x")
    faults = {**faults, f"'infinity' = ANY({value}) OR '-infinity' = ANY({value})": "infinity"}
    # Of no array there are no elements, and their array is empty.
    numbers = f"CASE WHEN {value} IS NOT NULL THEN ARRAY(SELECT {number} FROM unnest({value}) AS x) END"
    each = IntegerType() if sent == "int4" else LongType()
    made = f"transform({{}}, x -> {made.replace(VALUE, 'x')})"
    return SentValue(_unless(faults, column, value, f"{sent}[]", numbers), ArrayType(each), made)


def _unless(faults: dict[str, str], column: DatabaseColumn, value: str, kind: str, sql: str) -> str:
    """Return an expression that ends the statement where a condition holds.

    A text that is no value of the type is cast to it. It depends on the row, as PostgreSQL computes constants first.
    """
    cases = " ".join(
        f"WHEN {condition} THEN CAST({literal(f'{REFUSED} column {column.name}, it has {fault}')} "
        f"|| left({value}::text, 0) AS {kind})"
        for condition, fault in faults.items()
    )
    return f"CASE {cases} ELSE {sql} END"


def quoted_identifier(name: str) -> str:
    """Return a name as PostgreSQL reads it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def quoted_type(kind: str) -> str:
    """Return a type as PostgreSQL reads it, with its schema where the driver has named that."""
    return ".".join(map(quoted_identifier, kind.split('"."')))


def literal(text: str) -> str:
    """Return a text as a constant of PostgreSQL, whatever the server makes of backslashes."""
    escaped = text.replace("'", "''")
    return f"E'{escaped.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{escaped}'"

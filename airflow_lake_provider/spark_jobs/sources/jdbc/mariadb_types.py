"""Types of MariaDB and MySQL: in which form a value is sent, so that Spark has exactly the value that the database has.

A FLOAT shows six digits by itself, and TIMESTAMP depends on the session's zone. What is no date, such as 0000-00-00,
becomes NULL in computations: it comes as a number that no date has, and Spark refuses it.
"""

from __future__ import annotations

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

from airflow_lake_provider.spark_jobs.sources.jdbc.dialect import REFUSED, VALUE, DatabaseColumn, SentValue

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


def sent_value(column: DatabaseColumn, wanted: DataType | None) -> SentValue | None:
    """Return how the values of a column are sent; None for a type that no lake table has.

    :param wanted: type of the column of the target. ``tinyint(1)`` is fitted to BOOLEAN, and a decimal of more than 38
        digits to a smaller one.
    """
    kind, value = column.kind, quoted_identifier(column.name)
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
    sql = f"CASE WHEN {is_date(column)} THEN {count} WHEN YEAR({value}) IS NULL THEN NULL ELSE {none} END"
    if column.kind == "datetime":
        # The session's zone is UTC.
        made = f"CAST({made} AS TIMESTAMP_NTZ)"
    sent = IntegerType() if column.kind == "date" else LongType()
    return SentValue(sql, sent, _unless(f"{{}} = {none}", column, "a date that is none", made))


def is_date(column: DatabaseColumn) -> str:
    """Return the condition that a date or a time is one: of no year 0, with a month and a day, in its month."""
    value = quoted_identifier(column.name)
    day = value if column.kind == "date" else f"DATE({value})"
    return f"YEAR({value}) > 0 AND COALESCE(FROM_DAYS(TO_DAYS({day})) = {day}, FALSE)"


def _unless(condition: str, column: DatabaseColumn, fault: str, made: str) -> str:
    """Return an expression of Spark that ends the job where a condition holds."""
    message = f"{REFUSED} column {column.name}, it has {fault}".replace("{", "(").replace("}", ")")
    text = message.replace("\\", "\\\\").replace("'", "\\'")
    return f"CASE WHEN {condition} THEN raise_error('{text}') ELSE {made} END"


def quoted_identifier(name: str) -> str:
    """Return a name as MariaDB reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a text as a constant: by its bytes, as backslashes depend on the server's mode."""
    return f"_utf8mb4 X'{text.encode().hex()}'"

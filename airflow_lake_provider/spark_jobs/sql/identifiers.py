"""Names, types and text literals inside SQL statements."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def quoted_name(name: str) -> str:
    """Return a column's or branch's name as SQL reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def field_of(value: str, name: str) -> str:
    """Return SQL of a field of a struct, whatever the table or view is called that has it.

    Spark takes ``orders.id`` for the column ``id`` of a table ``orders``, though a column ``orders`` has such a field.

    :param value: SQL of the struct.
    """
    return f"coalesce({value}).{quoted_name(name)}"


def type_text(data_type: DataType) -> str:
    """Return a type as SQL reads it, whatever characters the names of its nested fields have."""
    match data_type:
        case StructType():
            fields = ", ".join(f"{quoted_name(field.name)}: {type_text(field.dataType)}" for field in data_type)
            return f"STRUCT<{fields}>"
        case ArrayType():
            return f"ARRAY<{type_text(data_type.elementType)}>"
        case MapType():
            return f"MAP<{type_text(data_type.keyType)}, {type_text(data_type.valueType)}>"
    return data_type.simpleString()


def columns_text(columns: StructType) -> str:
    """Return columns as a source's schema lists them."""
    return ", ".join(f"{quoted_name(field.name)} {type_text(field.dataType)}" for field in columns)


def text_literal(text: str) -> str:
    """Return a SQL expression that is folded into a text, whatever the session's settings make of text literals."""
    # Their backslashes may or may not escape, and Spark replaces ${name} in a whole statement, literals included.
    if any(character in text for character in "\\'$"):
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    return f"'{text}'"


def matches(text: str, pattern: str) -> str:
    """Return the condition that a regular expression of Java is found in a text, which is given as SQL."""
    return f"rlike({text}, {text_literal(pattern)})"


def any_of(conditions: Iterable[str]) -> str:
    """Return the condition that one of several holds."""
    return " OR ".join(f"({condition})" for condition in conditions) or "false"


def quoted(name: str) -> Column:
    """Return the top-level column of this name, dots and backticks included."""
    return sf.col(quoted_name(name))

"""Literals that every reader of data files compares as Spark does: strings, truncated bounds and UUIDs among them.

ORC's reader compares texts by UTF-16, and its statistics are in UTF-8. The two orders differ only between two
characters above U+D7FF, so a literal without one is on the same side of every statistic. It also takes days for those
of a calendar that is Julian before 1582: statistics move by days there, and never past 1600. What the literals of other
formats lose by these rules is little, so nobody looks for ORC files first. ``docs/decisions/0019`` has the proof.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, DecimalType, IntegralType, StringType, TimestampNTZType, TimestampType

from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.iceberg.foreign_times import times_are_sure
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted, text_literal

_LAST_SURE_CHARACTER = "\ud7ff"
_FIRST_SURROGATE, _BEHIND_SURROGATES = 0xD800, 0xE000
# 1600-01-01, as a day and as a microsecond since 1970.
_FIRST_SURE_DAY = -135140
_FIRST_SURE_MICROSECOND = _FIRST_SURE_DAY * 86_400_000_000


def has_literals(kind: DataType) -> bool:
    """Tell whether values of a type are compared by literal at all."""
    # A collation has an order of its own.
    return isinstance(kind, (IntegralType, DecimalType, DateType, TimestampType)) or kind == StringType()


def sure_literal(text: str, kind: DataType | None) -> str | None:
    """Return a SQL literal equal to the value; None where it would not be compared alike everywhere.

    :param text: of ``as_text``.
    """
    match kind:
        case IntegralType():
            return f"{text}L"
        case DecimalType():
            return f"{text}BD"
        case DateType():
            return f"date_from_unix_date({text})" if int(text) >= _FIRST_SURE_DAY else None
        case TimestampType():
            return f"timestamp_micros({text}L)" if int(text) >= _FIRST_SURE_MICROSECOND else None
    if kind == StringType() and _sure_start(text) == text:
        return text_literal(text)
    return None


def least_literal(text: str, kind: DataType | None) -> str | None:
    """Return a sure literal that is not above the value; None where there is none."""
    literal = sure_literal(text, kind)
    if literal is None and kind == StringType() and _sure_start(text):
        return text_literal(_sure_start(text))
    return literal


def greatest_literal(text: str, kind: DataType | None) -> str | None:
    """Return a sure literal that is not below the value; None where there is none."""
    literal = sure_literal(text, kind)
    start = _sure_start(text).rstrip(_LAST_SURE_CHARACTER)
    if literal is None and kind == StringType() and start:
        return text_literal(start[:-1] + chr(ord(start[-1]) + 1))
    return literal


def text_after(start: str) -> str | None:
    """Return the first text, by its characters, behind all that begin so; None where there is none."""
    for length in range(len(start), 0, -1):
        point = ord(start[length - 1]) + 1
        if point <= sys.maxunicode:
            # No character is a surrogate.
            return start[: length - 1] + chr(_BEHIND_SURROGATES if point == _FIRST_SURROGATE else point)
    return None


def literal_without_zone(microsecond: int) -> str | None:
    """Return a sure literal of a time without a zone; None where there is none.

    :param microsecond: since 1970.
    """
    try:
        at = datetime(1970, 1, 1) + timedelta(microseconds=microsecond)  # noqa: DTZ001  # it has no zone
    except OverflowError:
        return None
    return f"TIMESTAMP_NTZ '{at.isoformat(' ')}'" if microsecond >= _FIRST_SURE_MICROSECOND else None


def _sure_start(text: str) -> str:
    """Return the text up to its first character above U+D7FF.

    A byte that is no UTF-8 comes to Python as U+FFFD, which is above.
    """
    end = next((place for place, character in enumerate(text) if character > _LAST_SURE_CHARACTER), len(text))
    return text[:end]


_TRUNCATE = re.compile(r"truncate\[(\d+)\]")
# A LONG may have been an INT when its partitions were written.
_BITS = {"int": (32,), "long": (32, 64)}


def truncate_width(transform: str) -> int | None:
    """Return the width of a transform that truncates, such as ``truncate[10]``; None for others."""
    width = _TRUNCATE.fullmatch(transform)
    return int(width[1]) if width else None


def overflows(transform: str, kind: str) -> Iterator[tuple[int, int]]:
    """Yield the least numbers of a type that a transform rounds down below the type, and the partition they are in.

    ``truncate(10, -2147483648)`` is 2147483646 of an INT, as Iceberg's Java computes it.

    :param transform: as Iceberg writes it.
    :param kind: type of the column, as Iceberg writes it.
    :return: the least number above those, and the value of the partition.
    """
    width = truncate_width(transform)
    for bits in _BITS.get(kind, ()) if width else ():
        least = -(2 ** (bits - 1))
        if width and (cut := least % width):
            yield least - cut + width, least - cut + 2**bits


def may_wrap(wrapped: Mapping[str, int], name: str, least: str) -> bool:
    """Tell whether a range of a column may be projected to partitions that do not have its rows.

    :param wrapped: of ``wrapped_columns``.
    :param least: where the range begins, as ``as_text`` has it.
    """
    first_sure = wrapped.get(name.lower())
    return first_sure is not None and int(least) < first_sure


def wrapped_columns(table: IcebergTable, schema: Any = None) -> dict[str, int]:
    """Return the columns that a partition spec truncates so, by name in lower case; of all specs, as files keep theirs.

    :param schema: ``org.apache.iceberg.Schema`` that names the columns; None for the table's.
    :return: the least value of each that is surely in a partition of its own order.
    """
    fields = table.facts.shape.partition_fields(of_all_specs=True)
    wrapped: dict[str, int] = {}
    for field in fields:
        if truncate_width(field.transform) is None:
            continue
        schema = table.java.schema() if schema is None else schema
        source = schema.findField(field.source_id)
        for first_sure, _ in overflows(field.transform, str(source.type())) if source is not None else ():
            name = str(schema.findColumnName(field.source_id)).lower()
            wrapped[name] = max(first_sure, wrapped.get(name, first_sure))
    return wrapped


# As ``java.util.UUID`` writes it, and so Iceberg's readers.
CANONICAL_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\\z"
# A spelling of one, with a capital in it.
_WITH_CAPITALS = re.compile(r"\b(?=[0-9a-f-]{0,35}[A-F])[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_WORD = re.compile(r"\w+")


def is_uuid(table: IcebergTable, name: str, schema: Any = None) -> bool:
    """Tell whether a column of the table is a UUID.

    :param schema: ``org.apache.iceberg.Schema`` that names the columns; None for the table's.
    """
    field = (table.java.schema() if schema is None else schema).caseInsensitiveFindField(name)
    return field is not None and str(field.type()) == "uuid"


def has_sure_bounds(table: IcebergTable, name: str, kind: DataType, schema: Any = None) -> bool:
    """Tell whether literals of a column may prune files of a table at all.

    UUIDs, which are text to Spark, are compared with the bounds of files as signed numbers by Iceberg (#14216). Times
    may be milliseconds in files that Iceberg has not written.

    :param schema: ``org.apache.iceberg.Schema`` that names the columns; None for the table's.
    """
    if is_uuid(table, name, schema):
        return False
    return not isinstance(kind, TimestampType | TimestampNTZType) or times_are_sure(table.properties())


def refuse_other_spellings(table: IcebergTable, rows: DataFrame, keys: Sequence[str]) -> None:
    """Refuse keys that a join would not find, though the table may have them; a job where a key is a UUID.

    :raises BadInputError: it names the column and how many, and no value.
    """
    columns = [key for key in keys if is_uuid(table, key)]
    if not columns:
        return
    others = (sf.count_if(~quoted(name).cast("string").rlike(CANONICAL_UUID)) for name in columns)
    for name, count in zip(columns, rows.agg(*others).collect()[0], strict=True):
        if count:
            raise BadInputError(
                f"{table.name}: {count} keys are no UUIDs in lower case with hyphens, the form in which column {name} "
                "is compared; write them so in the source"
            )


def refuse_capitals(table: IcebergTable, where: str, schema: Any = None) -> None:
    """Refuse a predicate on a UUID column that names a UUID with capitals: Spark compares texts, and finds no row.

    :param schema: ``org.apache.iceberg.Schema`` that names the columns; None for the table's.
    :raises InvalidSpecError: it names the column and no value.
    """
    if not _WITH_CAPITALS.search(where):
        return
    of_time = table.java.schema() if schema is None else schema
    paths = table.iceberg.types.TypeUtil.indexNameById(of_time.asStruct())
    uuids = {str(paths[each]).rpartition(".")[2] for each in list(paths) if str(of_time.findType(each)) == "uuid"}
    words = set(_WORD.findall(where.lower()))
    named = sorted(name for name in uuids if words.issuperset(_WORD.findall(name.lower())))
    if named:
        raise InvalidSpecError(f"{table.name}: where has a UUID in capitals; write those of {named} in lower case")

"""Layout of a table that an operator creates: its partition and sort terms, file format and properties."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_lake_provider.contracts.argument_validation import flag, names, number, optional, options, size
from airflow_lake_provider.contracts.author_object import ArgumentObject, reads
from airflow_lake_provider.contracts.capabilities import FORMATS
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.untrusted_properties import code_properties

# Each takes some 90 bytes of each snapshot, and all snapshots are in each metadata.json.
_MOST_PARTITIONS = 10_000


def _file_format(value: object, name: str) -> str:
    if value not in ("parquet", "orc", "avro"):
        raise InvalidSpecError(f"{name} must be one of parquet, orc, avro, got {value!r}")
    return str(value)


def _partition_summary_limit(value: object, name: str) -> int:
    limit = number(value, name)
    if not 0 < limit <= _MOST_PARTITIONS:
        raise InvalidSpecError(f"{name} must be a number of partitions from 1 to {_MOST_PARTITIONS}, got {value!r}")
    return limit


def _partition_by(value: object, name: str) -> tuple[str, ...]:
    return names(value, name, "columns or transforms of them, such as ['days(at)']")


def _sort_by(value: object, name: str) -> tuple[str, ...]:
    return names(value, name, "columns with their order, such as ['at DESC']")


@dataclass(frozen=True, kw_only=True)
class TableLayout(ArgumentObject):
    """Layout with which a missing table is created; an existing table keeps its own.

    :param partition_by: columns and transforms of them, for example ``("days(placed_at)", "bucket(16, id)")``.
    :param sort_by: columns and transforms with their order, for example ``("placed_at DESC", "id")``.
    :param file_format: ``parquet | orc | avro``; None takes the catalog's default, which is Parquet.
    :param target_file_size: ``"256MB"`` or a number of bytes; None keeps Iceberg's default of 512 MiB.
    :param bloom_filter_columns: columns that get a Parquet bloom filter.
    :param partition_summary_limit: partitions that a commit may change for its summary to say what it did to each;
        ``airflow lake health`` then knows hot partitions without reading manifests. None leaves summaries as they are.
    :param properties: further table properties; texts, numbers and booleans. ``{"format-version": "2"}`` for a table
        that PyIceberg 0.12 is to append to, as it writes no version 3; changes are read from version 3 alone.
    """

    partition_by: Sequence[str] = field(default=(), metadata=reads(_partition_by))
    sort_by: Sequence[str] = field(default=(), metadata=reads(_sort_by))
    file_format: str | None = field(default=None, metadata=reads(optional(_file_format)))
    target_file_size: int | str | None = field(default=None, metadata=reads(optional(size)))
    bloom_filter_columns: Sequence[str] = field(default=(), metadata=reads(names))
    partition_summary_limit: int | None = field(default=None, metadata=reads(optional(_partition_summary_limit)))
    properties: Mapping[str, Any] = field(default_factory=dict, metadata=reads(options))

    def complete(self) -> None:
        """Refuse properties that are not the author's, and terms that Iceberg has not got."""
        if self.bloom_filter_columns and self.file_format not in (None, "parquet"):
            raise InvalidSpecError(f"bloom filters are written to parquet files only, not {self.file_format}")
        ours = sorted(name for name in self.properties if name.strip().lower().startswith("lake."))
        if ours:
            raise InvalidSpecError(f"table properties {ours} belong to this package and cannot be set by hand")
        self._refuse_code()
        reserved = {"location", "provider", "owner", "external", "is_managed_location"}
        given = sorted(reserved & {name.strip().lower() for name in self.properties})
        if given:
            raise InvalidSpecError(f"table properties {given} are the catalog's own and cannot be set by hand")
        # Both become part of a statement.
        partition_terms(self.partition_by)
        sort_terms(self.sort_by)

    @property
    def needs(self) -> tuple[str, ...]:
        """A missing table is created."""
        return ("create-table",)

    @property
    def transforms(self) -> frozenset[str]:
        """Transforms of columns in its terms."""
        return frozenset(each.transform for each in (*partition_terms(self.partition_by), *sort_terms(self.sort_by)))

    def _refuse_code(self) -> None:
        unsafe = code_properties(self.properties, of_python=True)
        if unsafe:
            raise InvalidSpecError(
                f"table properties {sorted(unsafe)} choose code, or where keys go, and cannot be set here; for all new "
                "tables of a catalog the connection's extra may say table-default.<property> in its spark"
            )


def table_layout(value: object, name: str = "create") -> TableLayout | None:
    """Return the layout of a missing table; None when it must not be created.

    :param value: a layout, a mapping of its fields, True for the plain layout, or False.
    :raises InvalidSpecError: it is none of these.
    """
    if isinstance(value, TableLayout):
        return value
    if isinstance(value, Mapping):
        return TableLayout.from_mapping(value, name)
    if isinstance(value, str):
        value = flag(value, name)
    if not isinstance(value, bool):
        raise InvalidSpecError(f"{name} must be True, False, a mapping or a TableLayout, got {value!r}")
    return TableLayout() if value else None


def layout_or_none(value: object, name: str = "create") -> TableLayout | None:
    """Return the layout of a missing table, as a spec has it: None where the table must not be created."""
    return None if value is None else table_layout(value, name)


_NAME = r"(?:[A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`)"
_PATH = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_COLUMN = re.compile(_PATH)
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
# A run of blanks is looked at from its start alone, so that a long one takes no longer than it is.
_ORDER = re.compile(
    r"(.*?)(?:(?<!\s)\s++(?:ASC|DESC))?(?:(?<!\s)\s++NULLS\s++(?:FIRST|LAST))?", re.IGNORECASE | re.DOTALL
)
_OF_NUMBER = {"bucket": "buckets", "truncate": "characters"}
_TERMS = "a column, identity(c), bucket(n, c), truncate(n, c), years(c), months(c), days(c) or hours(c)"


@dataclass(frozen=True, kw_only=True)
class LayoutTerm:
    """A column or a transform of it, such as ``days(placed_at)`` or ``bucket(16, id)``.

    :param transform: name in lower case; ``identity`` for a bare column.
    :param column: the column and, of a nested field, the names down to it; without backticks.
    :param number: buckets, or the width of ``truncate``.
    """

    transform: str
    column: tuple[str, ...]
    number: int | None = None

    @classmethod
    def parse(cls, text: str, role: str) -> LayoutTerm:
        """Read a term.

        :param role: argument that the term is of, for messages.
        :raises InvalidSpecError: for anything else; nothing of it has reached Spark.
        """
        plain = str(text).strip()
        if "${" in plain:
            raise _refused(text, role, "'${' would be replaced by a setting or an environment variable")
        if _COLUMN.fullmatch(plain):
            return cls(transform="identity", column=_names(plain))
        called = _CALL.fullmatch(plain)
        if called is None:
            raise _refused(text, role, "a name with other characters than letters, digits and '_' goes in backticks")
        return cls._of_call(text, role, called[1].lower(), called[2].strip())

    @classmethod
    def _of_call(cls, text: str, role: str, transform: str, arguments: str) -> LayoutTerm:
        if not any(transform in each.transforms for each in FORMATS.values()):
            raise _refused(text, role, f"no table format here has a transform {transform!r}")
        if transform in _OF_NUMBER:
            return cls._of_number(text, role, transform, arguments)
        if not _COLUMN.fullmatch(arguments):
            raise _refused(text, role, f"{transform} takes one column")
        return cls(transform=transform, column=_names(arguments))

    @classmethod
    def _of_number(cls, text: str, role: str, transform: str, arguments: str) -> LayoutTerm:
        given = re.fullmatch(rf"(\d+)\s*,\s*({_PATH})", arguments)
        turned = re.fullmatch(rf"({_PATH})\s*,\s*(\d+)", arguments)
        unit = _OF_NUMBER[transform]
        if turned is not None:
            raise _refused(text, role, f"the number of {unit} comes first: {transform}({turned[2]}, {turned[1]})")
        if given is None:
            raise _refused(text, role, f"{transform} takes the number of {unit} and a column: {transform}(16, id)")
        # Iceberg keeps both as an int of Java.
        if not 0 < int(given[1]) < 2**31:
            raise _refused(text, role, f"the number of {unit} is between 1 and 2147483647, not {given[1]}")
        return cls(transform=transform, column=_names(given[2]), number=int(given[1]))


def partition_terms(texts: Sequence[str]) -> tuple[LayoutTerm, ...]:
    """Read the terms of ``partition_by``.

    :raises InvalidSpecError: a text is no term.
    """
    return tuple(LayoutTerm.parse(text, "partition_by") for text in texts)


def sort_terms(texts: Sequence[str]) -> tuple[LayoutTerm, ...]:
    """Read the terms of ``sort_by``; ``ASC`` or ``DESC`` and ``NULLS FIRST`` or ``NULLS LAST`` may follow each.

    :raises InvalidSpecError: a text is no such term.
    """
    terms = []
    for text in texts:
        ordered = _ORDER.fullmatch(str(text).strip())
        terms.append(LayoutTerm.parse(ordered[1] if ordered else text, "sort_by"))
    return tuple(terms)


def _names(path: str) -> tuple[str, ...]:
    parts = re.findall(_NAME, path)
    return tuple(name[1:-1].replace("``", "`") if name[0] == "`" else name for name in parts)


def _refused(text: str, role: str, why: str) -> InvalidSpecError:
    order = ", each with ASC or DESC and NULLS FIRST or NULLS LAST" if role == "sort_by" else ""
    return InvalidSpecError(f"{role} {text!r} is no term of a layout: {why}. A term is {_TERMS}{order}")

"""Names that a table format gives to columns of its own: a column under one of them hides that, or is hidden."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_lake_provider.contracts.capabilities import FormatCapabilities
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError

# Of a row of a change stream: what happened to it, in the words of Iceberg and Spark.
CHANGE_TYPE = "_change_type"
# Left out without more, every delete of an upsert would become a row.
_ABOUT_DELETES = f"; where it tells deletes, say so to an upsert as well: delete_when=\"{CHANGE_TYPE} = 'delete'\""


def _reserved_among(names: Iterable[str], table_format: FormatCapabilities) -> list[str]:
    """Return the names that a format reserves, in any case, sorted."""
    return sorted(name for name in names if name.lower() in table_format.reserved_columns)


def refuse_reserved_columns(table: str, names: Iterable[str], table_format: FormatCapabilities) -> None:
    """Refuse a batch that would write columns under reserved names.

    :param table_format: that the table has.
    :raises BadInputError: naming them.
    """
    reserved = _reserved_among(names, table_format)
    if reserved:
        raise BadInputError(
            f"{table}: the batch has columns {reserved}, names that {table_format.title} reserves for columns of its "
            "own, and a table that has them can no longer be read and written by position. Rename them in a Query, or "
            f"leave them out with exclude_columns{_ABOUT_DELETES if CHANGE_TYPE in map(str.lower, reserved) else ''}"
        )


def refuse_reserved_names(table: str, what: str, names: Iterable[str], table_format: FormatCapabilities) -> None:
    """Refuse reserved names in an argument.

    :param what: the argument, such as ``keys``.
    :param table_format: that the table has.
    :raises InvalidSpecError: naming them.
    """
    reserved = _reserved_among(names, table_format)
    if reserved:
        raise InvalidSpecError(
            f"{table}: {what} names {reserved}, which {table_format.title} reserves for columns of its own"
        )

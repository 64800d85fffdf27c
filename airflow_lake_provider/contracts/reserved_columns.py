"""Names that Iceberg gives to columns of its own: a column of a table under one of them hides that, or is hidden."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError

# org.apache.iceberg.MetadataColumns: the first of every table, the last three of a table's changes.
RESERVED_COLUMNS = frozenset(
    {
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_partition",
        "_row_id",
        "_last_updated_sequence_number",
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
    }
)


def reserved_among(names: Iterable[str]) -> list[str]:
    """Return the names that are reserved, in any case, sorted."""
    return sorted(name for name in names if name.lower() in RESERVED_COLUMNS)


def refuse_reserved_columns(table: str, names: Iterable[str]) -> None:
    """Refuse a batch that would write columns under reserved names.

    :raises BadInputError: naming them.
    """
    wrong = reserved_among(names)
    if wrong:
        raise BadInputError(
            f"{table}: the batch has columns {wrong}, names that Iceberg reserves for columns of its own, and a table "
            "that has them can no longer be read and written by position. Rename them in a Query, or leave them "
            "out with exclude_columns"
        )


def refuse_reserved_names(table: str, what: str, names: Iterable[str]) -> None:
    """Refuse reserved names in an argument.

    :param what: the argument, such as ``keys``.
    :raises InvalidSpecError: naming them.
    """
    wrong = reserved_among(names)
    if wrong:
        raise InvalidSpecError(f"{table}: {what} names {wrong}, which Iceberg reserves for columns of its own")

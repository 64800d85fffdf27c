"""Tables that rule an operation out, whatever the rows: driver, worker and ``airflow lake check`` ask here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

CHANGE_TYPE = "_change_type"
SCHEMA_CHANGED = "the schema has changed since the last commit"


def without_row_changes(format_version: int, properties: Mapping[str, str]) -> str | None:
    """Return why rows cannot be deleted or updated by position; None where they can.

    :param properties: of the table.
    """
    if format_version < 2:
        return "format version 1 has no deletes; upgrade the table"
    if "encryption.key-id" in properties:
        return "an encrypted table's delete files cannot be read here"
    return None


def without_row_lineage(format_version: int) -> str | None:
    """Return why the changes of a table cannot be told; None where they can."""
    if format_version >= 3:
        return None
    return (
        f"has format version {format_version}; changes are told by row lineage, which needs version 3: upgrade it with "
        "LakeTableUpgradeOperator, or ALTER TABLE ... SET TBLPROPERTIES ('format-version'='3')"
    )


def with_change_type(columns: Collection[str]) -> str | None:
    """Return why the columns of a table are in the way of its changes; None where they are not."""
    return f"has a column {CHANGE_TYPE}; rename it to read its changes" if CHANGE_TYPE in columns else None


def without_expiry(properties: Mapping[str, str]) -> str | None:
    """Return why snapshots may not be expired; None where they may.

    :param properties: of the table.
    """
    if properties.get("gc.enabled", "true").lower() != "false":
        return None
    return "gc.enabled is false, so its snapshots may not be expired; see its owner"


def foreign_partitions(partitions: Iterable[tuple[str, str]], keys: Collection[str]) -> str | None:
    """Return which partition fields a key alone does not decide: the old row may be in any of their partitions.

    :param partitions: of each field that is not void: its name, and the column that it is made of.
    :param keys: key columns, as the table spells them.
    """
    foreign = [f"{field} ({column})" for field, column in partitions if column not in keys]
    if not foreign:
        return None
    named = ", ".join(foreign)
    return f"the table is partitioned by {named}, which is not among the keys, and such a delete stays in its partition"

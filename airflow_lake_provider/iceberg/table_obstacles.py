"""Tables that rule an operation out, whatever the rows: driver, worker and ``airflow lake check`` ask here."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from airflow_lake_provider.contracts.capabilities import ICEBERG
from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.contracts.table_facts import TableShape, schema_columns
from airflow_lake_provider.contracts.untrusted_properties import code_properties
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy

MERGE_MODE = "write.merge.mode"
GC_ENABLED = "gc.enabled"
# Types of Iceberg that Spark has no values of (``TypeToSparkType`` of Iceberg 1.12), or none that it may write.
_STAND_INS = {
    "time": "long",
    "timestamp_ns": "timestamp",
    "timestamptz_ns": "timestamptz",
    "geometry": "binary",
    "geography": "binary",
}
# What Spark reads or writes rows for.
_OF_CHANGES = frozenset({"delete-rows", "update-rows", "row-expiry"})
_OF_FILES = frozenset({"upsert", "append", "overwrite-partitions", "update-rows", "compaction"})
_OF_ROWS = _OF_CHANGES | {
    *("upsert", "append", "overwrite-partitions", "lake-table-source", "read-changes"),
    *("compaction", "file-lists", "statistics"),
}
# ``Transforms`` of Iceberg 1.12; a later writer may have others.
_TRANSFORM = re.compile(r"identity|void|year|month|day|hour|(?:bucket|truncate)\[\d+\]", re.IGNORECASE)
# By name: a strategy that another format declares is not Iceberg's. ``auto`` chooses one, and is none.
_STRATEGIES = {f"strategy-{each.value}": each for each in UpsertStrategy if each is not UpsertStrategy.AUTO}
# The spec bans floating-point delete columns; Spark has no fixed, time or nanosecond columns, and writes uuid as text.
KEY_TYPES = ("boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "binary", "decimal")

_RESERVED = "Iceberg reserves for its own columns"
# By which rows keep their ids on format version 3, where data files are written with them.
_LINEAGE = frozenset({"_row_id", "_last_updated_sequence_number"})
# By which rows are found again. Spark compares without case, and takes a column of the table for one of them.
_PLACES = frozenset({"_file", "_pos"})
# Iceberg compares them with case. Spark's scan of a column of exactly such a name ends in an error.
_METADATA_COLUMNS = _LINEAGE | _PLACES | {"_deleted", "_spec_id", "_partition"}
# Columns that stand beside those of the table while rows of chosen files are read by position.
PLACE_COLUMNS = frozenset({"_lake_file", "_lake_pos"})
# Columns that stand beside those of the table while its changes are read, in lower case.
_CHANGE_COLUMNS = re.compile(rf"{CHANGE_TYPE}|_lake_(?:key_\d+|row|row_id|last_updated|file|pos|is_deleted)")


def refuses_delete_files(format_version: int, properties: Mapping[str, str]) -> str | None:
    """Return why a table takes, or wants, no delete files; None where it takes them.

    :param properties: of the table.
    """
    if (gap := ICEBERG.gap("strategy-positions", format_version)) is not None:
        return gap.reason
    if properties.get(MERGE_MODE) == "copy-on-write":
        return f"the table's {MERGE_MODE} asks for copy-on-write"
    return None


def without_merge(shape: TableShape) -> str | None:
    """Return why Spark's MERGE would end in an error of Java; None where it does not.

    The mode is read in the table's properties alone, so no statement can ask for another.
    """
    mode = shape.properties.get(MERGE_MODE, "")
    if mode.lower() != "merge-on-read":
        return None
    if (why := _with_reserved_columns(shape, _PLACES | {"_spec_id", "_partition"})) is not None:
        return why
    if (gap := ICEBERG.gap("strategy-positions", shape.format_version)) is not None:
        return (
            f"the table's {MERGE_MODE} is {mode}, and {gap.reason}; set it to copy-on-write, or upgrade the table with "
            "LakeTableUpgradeOperator"
        )
    # Also where no file is of that spec any more.
    lost = sorted({each.name for each in shape.partition_fields(of_all_specs=True) if not each.source})
    if not lost:
        return None
    return (
        f"the table's {MERGE_MODE} is {mode}, and a column that it was partitioned by was dropped ({', '.join(lost)}), "
        "where Iceberg writes no deletes of a MERGE; use 'positions' or 'copy-on-write', or set it to copy-on-write"
    )


def unfit_as_equality_key(column: str, iceberg_type: str) -> str | None:
    """Return why a column cannot be a key of equality deletes; None where it can.

    :param iceberg_type: as Iceberg writes it, ``decimal(9, 2)``.
    """
    if iceberg_type.partition("(")[0] in KEY_TYPES:
        return None
    return f"key column {column} is of type {iceberg_type}, and keys may be {', '.join(KEY_TYPES)}"


def without_spark(columns: Mapping[str, str]) -> str | None:
    """Return why Spark can neither read nor write rows of a table; None where it can.

    :param columns: types as the spec of Iceberg writes them, by path; those inside structs, lists and maps as well.
    """
    unknown = [f"{path} ({kind})" for path, kind in columns.items() if kind.partition("(")[0] in _STAND_INS]
    if unknown:
        return f"Spark has no type for its columns {', '.join(unknown)}; change rows of this table with another engine"
    spelled: dict[str, list[str]] = {}
    for path in columns:
        spelled.setdefault(path.lower(), []).append(path)
    twins = [" and ".join(paths) for paths in spelled.values() if len(paths) > 1]
    if twins:
        return (
            f"Spark compares names without case, and its columns {'; '.join(twins)} are one to it; rename one of them"
        )
    return None


def with_types_of_spark(kind: Any) -> Any:
    """Return a type with one that Spark has, and that is stored alike, in place of each that it lacks.

    :param kind: in the JSON of Iceberg's spec, such as a schema.
    """
    if isinstance(kind, str):
        return _STAND_INS.get(kind.partition("(")[0], kind)
    made = {**kind, **{part: with_types_of_spark(kind[part]) for part in ("element", "key", "value") if part in kind}}
    if "fields" in kind:
        made["fields"] = [_field_of_spark(each) for each in kind["fields"]]
    return made


def _field_of_spark(field: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = with_types_of_spark(field["type"])
    if kind == field["type"]:
        return field
    return {**{name: field[name] for name in field if not name.endswith("-default")}, "type": kind}


def without_rows(shape: TableShape) -> str | None:
    """Return why Spark reads no rows of a table; None where it does."""
    return without_spark(shape.columns) or _without_partitions(shape)


def _without_partitions(shape: TableShape) -> str | None:
    """Return why the partitions of all specs, which Iceberg has beside rows and files, cannot be told."""
    fields = shape.partition_fields(of_all_specs=True)
    unknown = [f"{each.name} ({each.transform})" for each in fields if _TRANSFORM.fullmatch(each.transform) is None]
    return f"it is, or was, partitioned by {', '.join(unknown)}, which Iceberg does not know here" if unknown else None


def _without_void_column(shape: TableShape) -> str | None:
    """Return why rows find no partition: Iceberg looks up the columns of all fields, also of those without values.

    A table of version 1 keeps a field that was dropped, and a spec of nothing else is none.
    """
    fields = shape.partition_fields()
    lost = [each.name for each in fields if each.transform == "void" and not each.source]
    if not lost or all(each.transform == "void" for each in fields):
        return None
    upgrade = "upgrade it to version 2 with LakeTableUpgradeOperator, and " if shape.format_version == 1 else ""
    return (
        f"its partition field {lost[0]}, which was dropped, is of a column that was dropped, too, so that Iceberg's "
        f"writers fail; {upgrade}repeat ALTER TABLE ... DROP PARTITION FIELD {lost[0]}"
    )


def specs_without_source(shape: TableShape) -> dict[int, str]:
    """Return specs by id of which a field has lost its type with its source column, and the name of the field.

    A bucket and a time have a type of their own, and void has no value.
    """
    columns = {id_ for id_, _, _ in schema_columns(shape.schema())}
    return {
        id_: each["name"]
        for id_, fields in shape.partition_specs.items()
        for each in fields
        if each["source-id"] not in columns and each["transform"].startswith(("identity", "truncate"))
    }


def without_data_files(shape: TableShape) -> str | None:
    """Return why Spark writes no data files of a table; None where it does."""
    if (why := without_rows(shape) or _without_void_column(shape)) is not None:
        return why
    if shape.format_version >= 3 and (why := _with_columns_of(shape, _LINEAGE, _RESERVED)) is not None:
        return why
    transforms = [str(each.get("transform", "identity")) for each in shape.sort_order]
    unknown = [each for each in transforms if _TRANSFORM.fullmatch(each) is None]
    return f"its sort order has {', '.join(unknown)}, which Iceberg does not know here" if unknown else None


def without_row_changes(shape: TableShape) -> str | None:
    """Return why rows cannot be deleted or updated by position; None where they can."""
    if (why := ICEBERG.lacks("delete-rows", shape.format_version)) is not None:
        return why
    if "encryption.key-id" in shape.properties:
        return "an encrypted table's delete files cannot be read here"
    return _with_reserved_columns(shape)


def _with_reserved_columns(shape: TableShape, read: Collection[str] = _PLACES) -> str | None:
    """Return which columns Spark does not read, or takes for those of Iceberg's that rows are read with."""
    read = {*read, *(_LINEAGE if shape.format_version >= 3 else ())}
    names = [name for name in shape.names if name in _METADATA_COLUMNS or name.lower() in read]
    return _in_the_way(names, _RESERVED)


def _with_columns_of(shape: TableShape, reserved: Collection[str], whose: str) -> str | None:
    """Return why a table's columns hide others that rows are read with; None where they hide none."""
    return _in_the_way([name for name in shape.names if name.lower() in reserved], whose)


def _in_the_way(names: Sequence[str], whose: str) -> str | None:
    if not names:
        return None
    return f"it has a column {', '.join(names)}, a name that {whose}; rename it with ALTER TABLE ... RENAME COLUMN"


def with_place_columns(shape: TableShape) -> str | None:
    """Return why rows of chosen files cannot be told their position; None where the columns are not in the way."""
    return _with_columns_of(shape, PLACE_COLUMNS, "this package reads the places of rows under")


def unread_columns(names: Iterable[str]) -> list[str]:
    """Return the names under which Spark reads no column of a table: its scan ends in an error of Iceberg."""
    return [name for name in names if name in _METADATA_COLUMNS]


def without_row_lineage(format_version: int) -> str | None:
    """Return why the changes of a table cannot be told; None where they can."""
    return ICEBERG.lacks("read-changes", format_version)


def with_change_columns(columns: Collection[str]) -> str | None:
    """Return why the columns of a table are in the way of its changes; None where they are not."""
    # Spark compares names without case: the column would be replaced, or could not be told from that of the read.
    twins = [name for name in columns if name in _METADATA_COLUMNS or _is_read_beside_changes(name.lower())]
    return f"has a column {', '.join(twins)}; rename it to read its changes" if twins else None


def _is_read_beside_changes(name: str) -> bool:
    return name in _LINEAGE or _CHANGE_COLUMNS.fullmatch(name) is not None


def choosing_code(properties: Mapping[str, str]) -> str | None:
    """Return which properties of a table choose a driver's code, or where keys go; None where none does.

    :param properties: of the table.
    """
    unsafe = ", ".join(code_properties(properties))
    return f"its properties {unsafe} choose code, or where keys go; unset them" if unsafe else None


def without_expiry(properties: Mapping[str, str]) -> str | None:
    """Return why snapshots may not be expired; None where they may.

    :param properties: of the table.
    """
    given = properties.get(GC_ENABLED, "true")
    # As Java reads it: whatever is not true is false.
    if given.lower() == "true":
        return None
    why = "" if given.lower() == "false" else f", as Iceberg reads {shown(given)}"
    return f"the table's {GC_ENABLED} is false{why}: its files may belong to other tables, so nothing is expired"


def unfit_for(shape: TableShape, capability: str, keys: Sequence[str] = ()) -> str | None:
    """Return why a table of this shape rules a capability out that Iceberg may have; None where it does not.

    :param capability: one of ``contracts.capabilities``.
    :param keys: of an upsert, however they are spelled.
    """
    obstacle = without_data_files if capability in _OF_FILES else without_rows
    if capability in _OF_ROWS and (why := obstacle(shape)) is not None:
        return why
    if capability in _OF_CHANGES and (why := without_row_changes(shape)) is not None:
        return why
    if capability == "row-expiry":
        # Of the files that stay, rows are read by position; a deletion and an update read them otherwise.
        return with_place_columns(shape)
    if capability == "upsert" and (why := _with_reserved_columns(shape)) is not None:
        return why
    if capability == "read-changes":
        return without_row_lineage(shape.format_version) or with_change_columns(shape.names)
    if capability == "remove-orphans":
        return without_expiry(shape.properties) or _without_partitions(shape)
    if capability == "snapshot-expiry":
        return without_expiry(shape.properties)
    if (strategy := _STRATEGIES.get(capability)) is not None:
        return next(strategy_obstacles(shape, strategy, keys), None)
    return ICEBERG.lacks(capability, shape.format_version)


def strategy_obstacles(shape: TableShape, strategy: UpsertStrategy, keys: Sequence[str]) -> Iterator[str]:
    """Yield what is in the way of a strategy of an upsert; nothing of ``auto``, which takes another.

    :param keys: key columns, however they are spelled.
    """
    if strategy is UpsertStrategy.AUTO:
        return
    if (reason := _with_reserved_columns(shape)) is not None:
        yield reason
    if strategy is UpsertStrategy.MERGE:
        if (reason := without_merge(shape)) is not None:
            yield reason
        return
    if strategy is not UpsertStrategy.COPY_ON_WRITE:
        reason = refuses_delete_files(shape.format_version, shape.properties)
        if reason is not None:
            yield reason
    is_by_equality = strategy is UpsertStrategy.EQUALITY
    if not is_by_equality and (reason := with_place_columns(shape)) is not None:
        yield reason
    if "encryption.key-id" in shape.properties:
        yield (
            "delete files of an encrypted table would be written in plain"
            if is_by_equality
            else "an encrypted table's files cannot be read and written by file here"
        )
    if is_by_equality:
        yield from _unfit_for_equality(shape, keys)


def _unfit_for_equality(shape: TableShape, keys: Sequence[str]) -> Iterator[str]:
    wanted = {name.lower() for name in keys}
    names = [name for name in shape.names if name.lower() in wanted]
    yield from filter(None, (unfit_as_equality_key(name, shape.columns[name]) for name in names))
    partitions = [(each.name, each.source) for each in shape.partition_fields() if each.transform != "void"]
    reason = _foreign_partitions(partitions, names)
    if reason is not None:
        yield reason


def _foreign_partitions(partitions: Iterable[tuple[str, str]], keys: Collection[str]) -> str | None:
    """Return which partition fields a key alone does not decide: the old row may be in any of their partitions."""
    foreign = [f"{field} ({column})" for field, column in partitions if column not in keys]
    if not foreign:
        return None
    named = ", ".join(foreign)
    return f"the table is partitioned by {named}, which is not among the keys, and such a delete stays in its partition"

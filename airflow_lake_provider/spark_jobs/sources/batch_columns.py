"""Columns that a batch cannot have, whatever it is read from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    NullType,
    NumericType,
    StructField,
    StructType,
)

from airflow_lake_provider.contracts.author.merge_engines import MergeEngine
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sql.nested_types import (
    field_paths,
    field_twins,
    is_collated,
    nameless_fields,
    types_inside,
)

_OURS = "_lake_"
# Beside maps; PySpark of older versions does not have their classes.
_UNORDERED = ("variant", "calendarinterval", "interval", "geometry", "geography")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# From, to: what a reader may widen without a change of value.
_WIDER = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


def refuse_unfit_columns(columns: Sequence[str], what: str, remedy: str = "give each a name of its own") -> None:
    """Refuse column names of this package, and names that are one to Spark, which compares them without case.

    :param remedy: what to do about names that are one.
    :raises BadInputError: naming them.
    """
    ours = [name for name in columns if name.lower().startswith(_OURS)]
    if ours:
        raise BadInputError(
            f"columns {ours} of {what} begin with {_OURS}, which this package keeps for itself; rename them there"
        )
    if any(not name.strip() for name in columns):
        raise BadInputError(
            f"{what} has a column without a name, at place {[not n.strip() for n in columns].index(True) + 1}; a table "
            "cannot hold it: give it one there"
        )
    lower = [name.lower() for name in columns]
    twice = sorted({name for name in columns if lower.count(name.lower()) > 1})
    if twice:
        raise BadInputError(f"{what} has columns twice, as names are compared without case: {twice}; {remedy}")


def refuse_unfit_fields(table: str, columns: StructType) -> None:
    """Refuse columns, and fields inside them, that no table can have: equal names, no name, no fields.

    :raises BadInputError: naming them.
    """
    twins = [" and ".join(names) for names in field_twins(columns)]
    if twins:
        raise BadInputError(
            f"{table}: the batch has {'; '.join(twins)}, and names are compared without case; give each a name of its "
            "own"
        )
    nameless = [path or "a column" for path in nameless_fields(columns)]
    if nameless:
        raise BadInputError(
            f"{table}: the batch has columns or fields without a name, in {nameless}, which no file of a table can "
            "hold; name them in a Query, or leave them out there"
        )
    empty = [
        f.name for f in columns if any(isinstance(k, StructType) and not k.fields for k in types_inside(f.dataType))
    ]
    if empty:
        raise BadInputError(
            f"{table}: columns {empty} of the batch have a struct without fields, which no file of a table can hold; "
            "leave them out in a Query, or declare the source's schema without them"
        )


def refuse_untyped_columns(table: str, columns: StructType, table_schema: StructType | None) -> None:
    """Refuse new columns that hold nothing but NULL, of no type: a table that had them would take no value later.

    :param table_schema: None where the table is not there yet.
    :raises BadInputError: naming them.
    """
    if untyped := list(_untyped(columns, table_schema)):
        raise BadInputError(
            f"{table}: columns {untyped} of the batch hold nothing but NULL, so that nothing tells their type; give "
            "them one in a Query, such as CAST(NULL AS STRING), or leave them out with exclude_columns"
        )


def _untyped(kind: DataType, there: DataType | None, path: str = "") -> Iterator[str]:
    """Yield the paths of what has no type, neither in the batch nor in the table.

    :param there: type of the table in its place; None where the table has none.
    """
    match kind:
        case NullType() if there is None:
            yield path
        case StructType():
            fields = {field.name.lower(): field.dataType for field in there} if isinstance(there, StructType) else {}
            for field in kind:
                name = f"{path}.{field.name}" if path else field.name
                yield from _untyped(field.dataType, fields.get(field.name.lower()), name)
        case ArrayType():
            yield from _untyped(kind.elementType, there.elementType if isinstance(there, ArrayType) else None, path)
        case MapType():
            yield from _untyped(kind.keyType, there.keyType if isinstance(there, MapType) else None, path)
            yield from _untyped(kind.valueType, there.valueType if isinstance(there, MapType) else None, path)


def refuse_unordered_columns(rows: StructType, keys: Sequence[str], order_by: Sequence[str] = ()) -> None:
    """Refuse columns whose values cannot be compared, before Spark is asked to put rows in their order.

    :raises BadInputError: naming them with their types.
    """
    if unfit := _unordered(rows, keys):
        raise BadInputError(f"key columns {unfit} cannot identify a row; use whole numbers, text, times or decimals")
    if unfit := _unordered(rows, order_by):
        raise BadInputError(
            f"order_by columns {unfit} have no order; use numbers, text or times, such as a field of theirs in a Query"
        )
    _refuse_collated(rows, (*keys, *order_by))


def _refuse_collated(rows: StructType, names: Collection[str]) -> None:
    asked = {name.lower() for name in names}
    fields = [f for f in rows if f.name.lower() in asked and any(map(is_collated, types_inside(f.dataType)))]
    if fields:
        raise BadInputError(
            f"columns {_shown(fields)} are compared by a collation, to which texts are one that are two in the table, "
            "as no table keeps it. Declare plain STRING, or make others of them in a Query, such as "
            "lower(CAST(id AS STRING)) AS id"
        )


def refuse_unmergeable_columns(rows: StructType, merge_engine: MergeEngine) -> None:
    """Refuse columns that a function, or a sequence group, does not take, before Spark is asked to merge them.

    By a collation a batch would have another greatest text than the table, which has its texts without one.

    :raises BadInputError: naming them with their types.
    """
    if unfit := _unordered(rows, tuple(merge_engine.sequence_groups)):
        raise BadInputError(f"columns {unfit} order a sequence group and have no order; use numbers, text or times")
    functions = {name.lower(): function for name, function in merge_engine.aggregates.items()}
    typed = ((each.name, functions.get(each.name.lower()), each.dataType) for each in rows)
    refused = [f"{name} is {kind.simpleString()}" for name, function, kind in typed if not _takes(function, kind)]
    if refused:
        raise BadInputError(
            f"aggregates do not take the types of their columns: {', '.join(refused)}. sum takes numbers, bool_and and "
            "bool_or take booleans, max and min what has an order. Cast the columns in a Query, or declare the types "
            "of JSON, CSV and XML with the source's schema"
        )
    compared = [name for name, function in functions.items() if function in ("max", "min")]
    _refuse_collated(rows, (*merge_engine.sequence_groups, *compared))


def _takes(function: str | None, kind: DataType) -> bool:
    if isinstance(kind, NullType):
        return True
    match function:
        # Spark would sum texts as doubles.
        case "sum":
            return isinstance(kind, NumericType)
        case "bool_and" | "bool_or":
            return isinstance(kind, BooleanType)
        case "max" | "min":
            return not _is_unordered(kind)
    return True


def _unordered(rows: StructType, names: Sequence[str]) -> dict[str, str]:
    asked = {name.lower() for name in names}
    return _shown(f for f in rows if f.name.lower() in asked and _is_unordered(f.dataType))


def _shown(fields: Iterable[StructField]) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in fields}


def _is_unordered(kind: DataType) -> bool:
    return any(isinstance(each, MapType) or each.typeName() in _UNORDERED for each in types_inside(kind))


def refuse_lossy_types(
    stored: StructType, declared: StructType, what: str, also: Collection[tuple[str, str]] = ()
) -> None:
    """Refuse declared types that are narrower than those of the files: readers give NULL, or another number.

    Fields that only one of the two has are none of it, as they are none of an error among columns.

    :param stored: columns of the files.
    :param also: pairs of types of which the reader reads the first as the second without a change.
    :raises BadInputError: naming the columns with both types.
    """
    lossy = list(_lossy(stored, declared, also))
    if lossy:
        raise BadInputError(
            f"{what}: {'; '.join(lossy)}. Declare the types of the files in the source's schema, and cast in a Query"
        )


def refuse_absent_columns(stored: Iterable[StructType], declared: StructType, what: str) -> None:
    """Refuse declared columns, and fields inside them, that no file has: a reader makes NULL of them.

    That some files lack one is no fault.

    :param stored: columns of the files, each of one or more of them.
    :raises BadInputError: naming them.
    """
    names = {_lower(path): ".".join(path) for columns in stored for path in field_paths(columns)}
    absent = {_lower(path): ".".join(path) for path in field_paths(declared) if _lower(path) not in names}
    # What is inside of an absent one is absent with it.
    outer = {path: name for path, name in absent.items() if not any(path[:end] in absent for end in range(len(path)))}
    if outer:
        beside = sorted(name for path, name in names.items() if path[:-1] in {each[:-1] for each in outer})
        raise BadInputError(
            f"{what} have no column {list(outer.values())}, which the source's schema declares; they have {beside}. "
            "Correct the name, or leave it out of the schema"
        )


def _lower(path: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in path)


def _lossy(stored: DataType, declared: DataType, also: Collection[tuple[str, str]], name: str = "") -> Iterator[str]:
    """Yield what is lost, field by field: the reader of ORC finds nested ones by name too, without case."""
    if isinstance(stored, StructType) and isinstance(declared, StructType):
        pairs = ((have, want) for want in declared for have in stored if have.name.lower() == want.name.lower())
        for have, want in pairs:
            yield from _lossy(have.dataType, want.dataType, also, f"{name}.{want.name}" if name else want.name)
    elif isinstance(stored, ArrayType) and isinstance(declared, ArrayType):
        yield from _lossy(stored.elementType, declared.elementType, also, f"{name}.element")
    elif isinstance(stored, MapType) and isinstance(declared, MapType):
        yield from _lossy(stored.keyType, declared.keyType, also, f"{name}.key")
        yield from _lossy(stored.valueType, declared.valueType, also, f"{name}.value")
    elif not widens(stored, declared) and (stored.simpleString(), declared.simpleString()) not in also:
        yield f"{name} is {stored.simpleString()} and declared as {declared.simpleString()}"


def _more_digits(stored: str, declared: str) -> bool:
    narrow, wide = (_DECIMAL.fullmatch(text) for text in (stored, declared))
    return bool(narrow and wide and narrow[2] == wide[2] and int(narrow[1]) <= int(wide[1]))


def widens(narrow: DataType, wide: DataType) -> bool:
    """Return whether a reader may read one type as the other without a change of value."""
    had, wanted = narrow.simpleString(), wide.simpleString()
    if had == wanted or _more_digits(had, wanted):
        return True
    return any(had in widths and wanted in widths and widths.index(had) < widths.index(wanted) for widths in _WIDER)

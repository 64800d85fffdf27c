"""Nested types, and the SQL that makes a value of one into a value of another: fields are matched by name.

Spark's own cast matches them by position, so that a batch with its fields in another order would swap them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_lake_provider.spark_jobs.sql.identifiers import any_of, field_of, text_literal, type_text

Absent = Callable[[StructField], str]
Condition = Callable[[str, DataType], str | None]
_TIMES = (DateType, TimestampType, TimestampNTZType)


def nullable(data_type: DataType) -> DataType:
    """Return a type whose nested fields, elements and values may all be NULL, without metadata of its fields.

    By that, Spark's readers put the default of a table's field where a record has none.
    """
    match data_type:
        case StructType():
            return StructType([StructField(f.name, nullable(f.dataType)) for f in data_type])
        case ArrayType():
            return ArrayType(nullable(data_type.elementType), True)
        case MapType():
            return MapType(nullable(data_type.keyType), nullable(data_type.valueType), True)
    return data_type


def is_nested(data_type: DataType) -> bool:
    """Tell whether values of a type have values inside."""
    return isinstance(data_type, (StructType, ArrayType, MapType))


def is_same(one: DataType, other: DataType) -> bool:
    """Tell whether two types are one, whatever of them may be NULL."""
    return type_text(one) == type_text(other)


def is_collated(data_type: DataType) -> bool:
    """Return whether texts are compared otherwise than by their bytes."""
    return isinstance(data_type, StringType) and data_type.simpleString() != "string"


def is_number_as_time(one: DataType, other: DataType) -> bool:
    """Return whether one type is of numbers and the other of times: Spark's cast takes seconds, and nobody says so."""
    return any(
        isinstance(number, NumericType) and isinstance(time, _TIMES) for number, time in ((one, other), (other, one))
    )


def loses_fractions(given: DataType, wanted: DataType) -> bool:
    """Return whether a cast makes whole numbers of such as may have a fraction.

    Of 1.7 Spark makes 1 as a BIGINT, and 2 as a DECIMAL(12,0). What it rounds to a DECIMAL with a scale, as a price to
    its cents, is meant so.
    """
    return isinstance(given, FractionalType) and not _is_whole(given) and _is_whole(wanted)


def becomes_infinite(value: str, given: DataType, made: str, wanted: DataType) -> str:
    """Return the condition that a cast makes infinity of a number that has a value; ``false`` where it cannot.

    It does so of a DOUBLE that becomes a FLOAT, and of a text that becomes one of both.

    :param value: SQL of what is cast, and ``made`` of the result.
    """
    kinds = {type(each) for each in types_inside(given)}, {type(each) for each in types_inside(wanted)}
    is_text = StringType in kinds[0] and kinds[1] & {DoubleType, FloatType}
    if not is_text and (DoubleType not in kinds[0] or FloatType not in kinds[1]):
        return "false"
    was, is_now = (any_of(conditions_inside(*each, _is_infinite)) for each in ((value, given), (made, wanted)))
    return f"coalesce({is_now}, false) AND NOT coalesce({was}, false)"


def _is_infinite(value: str, kind: DataType) -> str | None:
    if isinstance(kind, StringType):
        return f"lower(trim({value})) IN ('inf', '+inf', '-inf', 'infinity', '+infinity', '-infinity')"
    return f"abs({value}) = double('Infinity')" if isinstance(kind, (DoubleType, FloatType)) else None


def _is_whole(kind: DataType) -> bool:
    return isinstance(kind, IntegralType) or (isinstance(kind, DecimalType) and kind.scale == 0)


def types_inside(data_type: DataType) -> Iterator[DataType]:
    """Yield a type, and those of all fields, elements, keys and values in it."""
    yield data_type
    match data_type:
        case StructType():
            inner = [field.dataType for field in data_type]
        case ArrayType():
            inner = [data_type.elementType]
        case MapType():
            inner = [data_type.keyType, data_type.valueType]
        case _:
            inner = []
    for each in inner:
        yield from types_inside(each)


def conditions_inside(value: str, kind: DataType, of: Condition, depth: int = 0) -> Iterator[str]:
    """Yield conditions about a value, and about those of all fields, elements, keys and values in it.

    :param value: SQL.
    :param of: SQL of the condition about one value; None for one without.
    """
    if (own := of(value, kind)) is not None:
        yield own
    item, among = f"x{depth}", list[tuple[str, DataType]]()
    match kind:
        case StructType():
            for field in kind:
                yield from conditions_inside(field_of(value, field.name), field.dataType, of, depth)
        case ArrayType():
            among = [(value, kind.elementType)]
        case MapType():
            among = [(f"map_keys({value})", kind.keyType), (f"map_values({value})", kind.valueType)]
    for values, inner in among:
        if conditions := list(conditions_inside(item, inner, of, depth + 1)):
            yield f"exists({values}, {item} -> {any_of(conditions)})"


def has_key_twice(value: str, kind: DataType) -> str | None:
    """Return the condition that a map has a key more than once; None for other types."""
    return key_twice(value) if isinstance(kind, MapType) else None


def key_twice(entries: str) -> str:
    """Return the condition that a map, which is given as SQL, has a key more than once."""
    return f"size(array_distinct(map_keys({entries}))) < size({entries})"


def field_paths(data_type: DataType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each column or field, and of all inside it."""
    match data_type:
        case StructType():
            for field in data_type:
                yield (*path, field.name)
                yield from field_paths(field.dataType, (*path, field.name))
        case ArrayType():
            yield from field_paths(data_type.elementType, (*path, "element"))
        case MapType():
            yield from field_paths(data_type.keyType, (*path, "key"))
            yield from field_paths(data_type.valueType, (*path, "value"))


def field_twins(data_type: DataType) -> Iterator[list[str]]:
    """Yield the paths of fields of one struct whose names are one to Spark, which compares them without case."""
    by_name: dict[tuple[str, ...], list[str]] = {}
    for path in field_paths(data_type):
        by_name.setdefault((*path[:-1], path[-1].lower()), []).append(".".join(path))
    yield from (twins for twins in by_name.values() if len(twins) > 1)


def nameless_fields(data_type: DataType) -> list[str]:
    """Return the path of each struct that has a field without a name; empty for the columns themselves."""
    return list(dict.fromkeys(".".join(path[:-1]) for path in field_paths(data_type) if not path[-1]))


def completed(inferred: DataType, declared: DataType, *, with_absent: bool) -> DataType:
    """Return the type to read values with: types that are known win, fields that are not are added.

    Fields keep the spelling of the values, as a reader of JSON tells names by case.

    :param inferred: told from the values.
    :param declared: of the table.
    :param with_absent: add the fields that no value has; they are NULL then.
    """
    match inferred, declared:
        case StructType(), StructType():
            types = {field.name.lower(): field.dataType for field in declared}
            rank = {name: place for place, name in enumerate(types)}
            fields = [
                StructField(
                    f.name, completed(f.dataType, types.get(f.name.lower(), f.dataType), with_absent=with_absent)
                )
                for f in inferred
            ]
            names = {field.name.lower() for field in inferred}
            fields += [field for field in declared if with_absent and field.name.lower() not in names]
            return StructType(sorted(fields, key=lambda field: rank.get(field.name.lower(), len(rank))))
        case ArrayType(), ArrayType():
            return ArrayType(completed(inferred.elementType, declared.elementType, with_absent=with_absent))
        case StructType(), MapType() if len(inferred):
            # What a record has as an object is told as a struct, whose fields are the keys.
            values = reduce(_united, (field.dataType for field in inferred))
            return MapType(declared.keyType, completed(values, declared.valueType, with_absent=True))
    return declared


def _united(one: DataType, other: DataType) -> DataType:
    """Return a struct with the fields of both; of other types the first."""
    match one, other:
        case StructType(), StructType():
            fields = {field.name: field for field in one}
            for field in other:
                mine = fields.get(field.name)
                fields[field.name] = (
                    field if mine is None else StructField(field.name, _united(mine.dataType, field.dataType))
                )
            return StructType(list(fields.values()))
        case ArrayType(), ArrayType():
            return ArrayType(_united(one.elementType, other.elementType))
        case (_, StructType() | ArrayType()):
            # Told from an empty or missing value.
            return other
    return one


def fitted_value(value: str, given: DataType, wanted: DataType, absent: Absent, depth: int = 0) -> str:
    """Return SQL for a value as another type.

    :param value: SQL.
    :param given: its type.
    :param absent: SQL for a field of ``wanted`` that ``given`` lacks.
    """
    if is_same(given, wanted):
        return value
    item = f"lake_item{depth}"
    match given, wanted:
        case StructType(), StructType():
            by_name = {field.name.lower(): field for field in given}

            def inner(field: StructField) -> str:
                match = by_name.get(field.name.lower())
                if match is None:
                    return absent(field)
                return fitted_value(field_of(value, match.name), match.dataType, field.dataType, absent, depth)

            return _struct(value, wanted, inner)
        case ArrayType(), ArrayType():
            element = fitted_value(item, given.elementType, wanted.elementType, absent, depth + 1)
            return f"transform({value}, {item} -> {element})"
        case MapType(), MapType():
            key = fitted_value(f"{item}.key", given.keyType, wanted.keyType, absent, depth + 1)
            inside = fitted_value(f"{item}.value", given.valueType, wanted.valueType, absent, depth + 1)
            return f"map_from_entries(transform(map_entries({value}), {item} -> struct({key}, {inside})))"
    return f"CAST({value} AS {type_text(wanted)})"


def with_kept_fields(new: str, old: str, given: DataType, wanted: DataType) -> str:
    """Return SQL for a struct in which the fields that ``given`` lacks are those of the old one.

    :param new: SQL of a value that has the type ``wanted`` already; ``old``: likewise.
    :param given: the type that the batch has for it.
    """
    if not (isinstance(given, StructType) and isinstance(wanted, StructType)):
        return new
    by_name = {field.name.lower(): field for field in given}

    def inner(field: StructField) -> str:
        new_field, old_field = (field_of(side, field.name) for side in (new, old))
        match = by_name.get(field.name.lower())
        return old_field if match is None else with_kept_fields(new_field, old_field, match.dataType, field.dataType)

    return new if lacks_no_field(given, wanted) else _struct(new, wanted, inner)


def lacks_no_field(given: DataType, wanted: DataType) -> bool:
    """Tell whether a struct has all fields of another one, and so have the structs in it; arrays and maps count."""
    if not (isinstance(given, StructType) and isinstance(wanted, StructType)):
        return True
    by_name = {field.name.lower(): field for field in given}
    return all(
        f.name.lower() in by_name and lacks_no_field(by_name[f.name.lower()].dataType, f.dataType) for f in wanted
    )


def _struct(value: str, wanted: StructType, inner: Callable[[StructField], str]) -> str:
    fields = ", ".join(f"{text_literal(field.name)}, {inner(field)}" for field in wanted)
    return f"CASE WHEN {value} IS NOT NULL THEN named_struct({fields}) END"

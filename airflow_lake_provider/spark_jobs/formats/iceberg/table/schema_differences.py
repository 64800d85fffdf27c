"""Differences between the columns of a table and those of a batch, nested ones too: by name, without case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StructField,
    StructType,
)

from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name
from airflow_lake_provider.spark_jobs.sql.nested_types import is_same

_WIDTHS = {"byte": 1, "short": 2, "integer": 3, "long": 4}


class DifferenceKind(Enum):
    """Kinds of differences."""

    ADDED = "the table lacks it"
    WIDENED = "the table has a narrower type"
    UNFIT = "the table has another type"
    MISSING = "the batch lacks it"


@dataclass(frozen=True, kw_only=True)
class SchemaDifference:
    """A column, or a field inside one, that differs.

    :param path: names from the column on, ``element``, ``key`` and ``value`` among them, as the table spells them.
    :param present: as the table has it; None where it lacks it.
    :param wanted: as the batch has it; None where it lacks it.
    """

    kind: DifferenceKind
    path: tuple[str, ...]
    present: StructField | None = None
    wanted: StructField | None = None

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)

    @property
    def sql_name(self) -> str:
        """The path as an ALTER TABLE reads it."""
        return ".".join(map(quoted_name, self.path))


def schema_differences(
    present: DataType, wanted: DataType, path: tuple[str, ...] = (), *, in_key: bool = False
) -> Iterator[SchemaDifference]:
    """Yield what tells a type of a batch from that of the table.

    :param in_key: within the key of a map, whose type never changes (Iceberg spec, schema evolution).
    """
    match present, wanted:
        case StructType(), StructType():
            yield from _of_fields(present, wanted, path, in_key)
        case ArrayType(), ArrayType():
            yield from schema_differences(present.elementType, wanted.elementType, (*path, "element"), in_key=in_key)
        case MapType(), MapType():
            yield from schema_differences(present.keyType, wanted.keyType, (*path, "key"), in_key=True)
            yield from schema_differences(present.valueType, wanted.valueType, (*path, "value"), in_key=in_key)
        case _ if not fits(present, wanted):
            may_widen = promotes(present, wanted) and not in_key
            yield SchemaDifference(
                kind=DifferenceKind.WIDENED if may_widen else DifferenceKind.UNFIT,
                path=path,
                present=StructField("", present),
                wanted=StructField("", wanted),
            )


def _of_fields(
    present: StructType, wanted: StructType, path: tuple[str, ...], in_key: bool
) -> Iterator[SchemaDifference]:
    held = {field.name.lower(): field for field in present}
    for field in wanted:
        found = held.pop(field.name.lower(), None)
        if found is not None:
            yield from schema_differences(found.dataType, field.dataType, (*path, found.name), in_key=in_key)
        else:
            kind = DifferenceKind.UNFIT if in_key else DifferenceKind.ADDED
            yield SchemaDifference(kind=kind, path=(*path, field.name), wanted=field)
    for name in sorted(field.name for field in held.values()):
        kind = DifferenceKind.UNFIT if in_key else DifferenceKind.MISSING
        yield SchemaDifference(kind=kind, path=(*path, name), present=held[name.lower()])


def promotes(narrow: DataType, wide: DataType) -> bool:
    """Tell whether Iceberg may promote a type to another one (spec, schema evolution)."""
    if isinstance(narrow, IntegerType) and isinstance(wide, LongType):
        return True
    if isinstance(narrow, FloatType) and isinstance(wide, DoubleType):
        return True
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return False


def fits(present: DataType, wanted: DataType) -> bool:
    """Tell whether values of ``wanted``, which has none inside, go into a column of ``present`` without loss."""
    if is_same(present, wanted) or promotes(wanted, present) or wanted.typeName() == "void":
        return True
    sizes = (_WIDTHS.get(wanted.typeName()), _WIDTHS.get(present.typeName()))
    return None not in sizes and sizes[0] <= sizes[1]  # type: ignore[operator]  # both are numbers here

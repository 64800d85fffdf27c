"""Make a table's schema fit a batch: add columns and fields inside them, widen types, refuse the rest by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    StringType,
    StructField,
    StructType,
)

from airflow_lake_provider.contracts.author.schema_contract import Evolution, MissingColumns, SchemaContract
from airflow_lake_provider.contracts.errors import BadInputError, CommitConflictError
from airflow_lake_provider.contracts.reports.batch_plan import SchemaChange, SchemaChangeKind
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import conflict_message, root_message
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name, type_text
from airflow_lake_provider.spark_jobs.sql.nested_types import is_collated, is_same


def fit_schema(
    table: IcebergTable, columns: StructType, contract: SchemaContract, missing: MissingColumns
) -> tuple[str, ...]:
    """Add and widen columns, and fields inside them, so that a batch of ``columns`` fits.

    :return: what was changed, in words; a schema change commits by itself and is found done by a retry.
    :raises BadInputError: a column does not fit, or the batch lacks one and ``missing`` does not say what it becomes.
    :raises CommitConflictError: another job altered the table meanwhile.
    """
    by_kind: dict[DifferenceKind, list[SchemaDifference]] = {kind: [] for kind in DifferenceKind}
    for difference in schema_differences(table.schema(), columns):
        by_kind[difference.kind].append(difference)
    added, widened = by_kind[DifferenceKind.ADDED], by_kind[DifferenceKind.WIDENED]
    _refuse_missing(table, by_kind[DifferenceKind.MISSING], missing)
    _refuse_unfit(table, by_kind[DifferenceKind.UNFIT])
    _refuse_frozen(table, added, widened, contract)
    columns_text = ", ".join(f"{difference.sql_name} {_type_text(difference)}" for difference in added)
    alter_table(
        table,
        [
            *([f"ADD COLUMNS ({columns_text})"] if added else []),
            *(f"ALTER COLUMN {difference.sql_name} TYPE {_type_text(difference)}" for difference in widened),
        ],
    )
    return tuple(str(difference.change(contract, missing)) for difference in (*added, *widened))


def schema_changes(
    table: IcebergTable, columns: StructType, contract: SchemaContract, missing: MissingColumns
) -> tuple[SchemaChange, ...]:
    """Return the changes that a batch of ``columns`` asks for, with what is made of each; nothing is changed."""
    return tuple(each.change(contract, missing) for each in schema_differences(table.schema(), columns))


def widens(present: StructField, wanted: StructField) -> bool:
    """Tell whether Iceberg may promote the present type to the wanted one (spec, schema evolution)."""
    return promotes(present.dataType, wanted.dataType)


def _type_text(difference: SchemaDifference) -> str:
    return type_text(difference.wanted.dataType) if difference.wanted else ""


def _name(field: StructField | None) -> str:
    return "nothing" if field is None else field.dataType.simpleString()


def _refuse_frozen(
    table: IcebergTable,
    added: Sequence[SchemaDifference],
    widened: Sequence[SchemaDifference],
    contract: SchemaContract,
) -> None:
    by_setting = {
        "new_columns": [each for each in added if contract.of_new(*each.path) is not Evolution.EVOLVE],
        "wider_types": [each for each in widened if contract.of_type(*each.path) is not Evolution.EVOLVE],
    }
    names = sorted(each.name for differences in by_setting.values() for each in differences)
    if names:
        frozen = " and ".join(f"{field}='evolve'" for field, differences in by_setting.items() if differences)
        raise BadInputError(
            f"{table.name}: the batch has new or wider columns {names}, and its schema_contract freezes them; allow "
            f"them with {frozen}, or leave them out with exclude_columns"
        )


def _refuse_unfit(table: IcebergTable, unfit: Iterable[SchemaDifference]) -> None:
    conflicts = [f"{each.name} is {_name(each.present)} and got {_name(each.wanted)}" for each in unfit]
    if conflicts:
        raise BadInputError(
            f"{table.name}: {'; '.join(conflicts)}. Cast them in a Query, or declare the types of JSON, CSV and "
            "XML with the source's schema"
        )


def _refuse_missing(table: IcebergTable, lacking: Sequence[SchemaDifference], missing: MissingColumns) -> None:
    if lacking and missing is MissingColumns.FAIL:
        raise BadInputError(
            f"{table.name}: the batch lacks the table's columns {[each.name for each in lacking]}; say what they "
            "become in its rows with missing_columns='null' or 'keep' (the old value)"
        )
    required = [each.name for each in lacking if each.present is not None and not each.present.nullable]
    if required and missing is MissingColumns.NULL:
        raise BadInputError(
            f"{table.name}: the batch lacks the columns {required}, which the table requires, so they cannot become "
            "NULL; give the batch these columns, or say missing_columns='keep' (the old value, the column's write "
            "default in a new row)"
        )


def alter_table(table: IcebergTable, changes: Sequence[str]) -> None:
    """Run each change as a commit of its own.

    :param changes: what follows ``ALTER TABLE name``.
    :raises CommitConflictError: another driver was quicker, perhaps with the same change, so that the table has to be
        looked at again.
    """
    before = _columns(table) if changes else ""
    for change in changes:
        try:
            table.spark.sql(f"ALTER TABLE {table.sql_name} {change}")
        except SPARK_ERRORS as error:
            if conflict_message(error) is None and _columns(table) == before:
                raise
            raise CommitConflictError(
                f"{table.name}: {change} was refused, another job altered the table meanwhile: {root_message(error)}"
            ) from error
        before = _columns(table)
    table.refresh()


def _columns(table: IcebergTable) -> str:
    return str(table.iceberg.SchemaParser.toJson(table.refresh().java.schema()))


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

    def change(self, contract: SchemaContract, missing: MissingColumns) -> SchemaChange:
        """Return what it would be to the table, and what is made of it."""
        kind, action = SchemaChangeKind.CHANGE_TYPE, contract.of_other(*self.path)
        if self.kind is DifferenceKind.ADDED:
            kind, action = SchemaChangeKind.ADD_COLUMN, contract.of_new(*self.path).value
        elif self.kind is DifferenceKind.WIDENED:
            kind, action = SchemaChangeKind.WIDEN_TYPE, contract.of_type(*self.path).value
        elif self.kind is DifferenceKind.MISSING:
            is_required = self.present is not None and not self.present.nullable and missing is MissingColumns.NULL
            kind = SchemaChangeKind.DROP_REQUIRED if is_required else SchemaChangeKind.DROP_COLUMN
            action = "refuse" if is_required else missing.value
        present, wanted = (
            None if each is None else each.dataType.simpleString() for each in (self.present, self.wanted)
        )
        return SchemaChange(kind=kind, column=self.name, present=present, wanted=wanted, action=action)


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
    remaining = {field.name.lower(): field for field in present}
    for field in wanted:
        match = remaining.pop(field.name.lower(), None)
        if match is not None:
            yield from schema_differences(match.dataType, field.dataType, (*path, match.name), in_key=in_key)
        else:
            kind = DifferenceKind.UNFIT if in_key else DifferenceKind.ADDED
            yield SchemaDifference(kind=kind, path=(*path, field.name), wanted=field)
    for name in sorted(field.name for field in remaining.values()):
        kind = DifferenceKind.UNFIT if in_key else DifferenceKind.MISSING
        yield SchemaDifference(kind=kind, path=(*path, name), present=remaining[name.lower()])


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
    # A table keeps texts without their collation.
    if isinstance(present, StringType) and is_collated(wanted):
        return True
    sizes = (_WIDTHS.get(wanted.typeName()), _WIDTHS.get(present.typeName()))
    return None not in sizes and sizes[0] <= sizes[1]  # type: ignore[operator]  # both are numbers here

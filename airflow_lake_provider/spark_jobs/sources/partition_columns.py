"""Columns that are names of folders, as Hive writes them: ``/landing/day=2026-01-01/region=eu/orders.csv``.

Spark would guess their types, so that ``007`` becomes 7, and would put them in the place of a column of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.sources.text_schema import declared_types, parse_ddl
from airflow_lake_provider.spark_jobs.sources.text_values import converted, is_lost
from airflow_lake_provider.spark_jobs.sql.identifiers import columns_text, quoted_name, text_literal

_NULL = "__HIVE_DEFAULT_PARTITION__"
_KIND = "csv"
_TEXT = StringType()


@dataclass(frozen=True, kw_only=True)
class PartitionColumns:
    """Columns of folders, and the text that each file has of them.

    :param columns: with their types.
    :param texts: by column, one per file; None for NULL.
    """

    columns: StructType
    texts: dict[str, list[str | None]]

    def typed(self, rows: DataFrame) -> DataFrame:
        """Return rows that have the texts with the values in their place."""
        types = {field.name: field.dataType for field in self.columns}
        names = map(quoted_name, rows.columns)
        made = (
            f"{converted(name, _TEXT, types[column], _KIND)} AS {name}" if column in types else name
            for column, name in zip(rows.columns, names, strict=True)
        )
        return rows.selectExpr(*made) if types else rows

    def others(self, columns: StructType | None) -> StructType | None:
        """Return the columns of a table that are no folders."""
        lower = {name.lower() for name in self.columns.names}
        return columns and StructType([field for field in columns if field.name.lower() not in lower])

    def refuse_in(self, columns: Sequence[str], what: str) -> None:
        """Refuse columns of files that folders are, too.

        :raises BadInputError: naming them.
        """
        lower = {name.lower() for name in self.columns.names}
        both = [name for name in columns if name.lower() in lower]
        if both:
            raise BadInputError(
                f"{what} have the columns {both} themselves, which are names of folders too: nothing says which value "
                "counts. Leave them out of partition_columns, or rename the column in the files"
            )


def partition_columns(
    spark: SparkSession, source: Files, files: Sequence[InputFile], table_schema: StructType | None
) -> PartitionColumns:
    """Return the columns that folders of these files are.

    :param table_schema: of the table, for types that the source's schema does not say.
    :raises BadInputError: a file is in no such folder, or in two; or a value does not fit its column.
    """
    if not source.partition_columns:
        return PartitionColumns(columns=StructType(), texts={})
    types = declared_types(source.schema, table_schema)
    columns = StructType([StructField(name, types.get(name.lower(), _TEXT)) for name in source.partition_columns])
    texts = {name: [_value_of(file, name) for file in files] for name in columns.names}
    for field in columns:
        if isinstance(field.dataType, (ArrayType, MapType, StructType)):
            raise BadInputError(
                f"partition_columns: {field.name} is {field.dataType.simpleString()}, which no name of a folder holds"
            )
        _refuse_unfit(spark, field.name, field.dataType, files, texts[field.name])
    return PartitionColumns(columns=columns, texts=texts)


def columns_of_files(schema: str, names: Sequence[str]) -> str | None:
    """Return the columns of a source's schema that are no names of folders; None where all are."""
    lower = {name.lower() for name in names}
    left = StructType([field for field in parse_ddl(schema) if field.name.lower() not in lower])
    return columns_text(left) or None


def _value_of(file: InputFile, column: str) -> str | None:
    folders = list(_folders(file, column))
    if len(folders) != 1 or not folders[0]:
        what = f"in {len(folders)} folders" if folders != [""] else "in a folder without a value"
        raise BadInputError(
            f"{file.path} is {what} of the name {column}=..., expected one, such as {column}=2026-01-01; move the "
            "file, let the path name only such folders, or leave the column out of partition_columns"
        )
    return None if folders[0] == _NULL else folders[0]


def _folders(file: InputFile, column: str) -> Iterator[str]:
    """Yield the values of all folders of a name."""
    for folder in file.path.split("/")[:-1]:
        name, sign, value = folder.partition("=")
        try:
            if sign and unquote(name, errors="strict").lower() == column.lower():
                yield unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise BadInputError(
                f"{file.path}: the folder {folder!r} is percent-encoded, and no UTF-8 text; rename it"
            ) from error


def _refuse_unfit(
    spark: SparkSession, name: str, kind: DataType, files: Sequence[InputFile], texts: Sequence[str | None]
) -> None:
    if isinstance(kind, StringType):
        return
    files_of: dict[str, InputFile] = {}
    for text, file in zip(texts, files, strict=True):
        if text is not None:
            files_of.setdefault(text, file)
    if not files_of:
        return
    # No job: Spark's optimizer evaluates values that stand in the statement.
    values = ", ".join(f"({text_literal(text)})" for text in files_of)
    made = converted("v", _TEXT, kind, _KIND)
    lost = is_lost("v", made, _TEXT, kind, _KIND)
    unfit = spark.sql(f"SELECT * FROM VALUES {values} AS t(v)").filter(sf.expr(lost)).head()
    if unfit is not None:
        raise BadInputError(
            f"{files_of[unfit['v']].path}: the folder {name}={unfit['v']} is no {kind.simpleString()}; rename it, or "
            f"say STRING for the column {name} in the source's schema"
        )

"""Columns of the type UUID, which are text to Spark: of the many spellings of one it finds only that of Iceberg."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.sql.columns import quoted

# As ``java.util.UUID`` writes it, and so Iceberg's readers.
_CANONICAL = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\\z"
# A spelling of one, with a capital in it.
_WITH_CAPITALS = re.compile(r"\b(?=[0-9a-f-]{0,35}[A-F])[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")


def is_uuid(table: IcebergTable, name: str, schema: Any = None) -> bool:
    """Tell whether a column of the table is a UUID.

    :param schema: ``org.apache.iceberg.Schema`` that names the columns; None for the table's.
    """
    field = (table.java.schema() if schema is None else schema).caseInsensitiveFindField(name)
    return field is not None and str(field.type()) == "uuid"


def refuse_other_spellings(table: IcebergTable, rows: DataFrame, keys: Sequence[str]) -> None:
    """Refuse keys that a join would not find, though the table may have them; a job where a key is a UUID.

    :raises BadInputError: it names the column and how many, and no value.
    """
    columns = [key for key in keys if is_uuid(table, key)]
    if not columns:
        return
    others = (sf.count_if(~quoted(name).cast("string").rlike(_CANONICAL)) for name in columns)
    for name, count in zip(columns, rows.agg(*others).collect()[0], strict=True):
        if count:
            raise BadInputError(
                f"{table.name}: {count} keys are no UUIDs in lower case with hyphens, the form in which column {name} "
                "is compared; write them so in the source"
            )


def refuse_capitals(table: IcebergTable, where: str) -> None:
    """Refuse a predicate on a UUID column that names a UUID with capitals: Spark compares texts, and finds no row.

    :raises InvalidSpecError: it names the column and no value.
    """
    if not _WITH_CAPITALS.search(where):
        return
    uuids = [str(field.name()) for field in table.java.schema().columns() if str(field.type()) == "uuid"]
    named = [name for name in uuids if name.lower() in where.lower()]
    if named:
        raise InvalidSpecError(f"{table.name}: where has a UUID in capitals; write those of {named} in lower case")

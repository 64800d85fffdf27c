"""Say whose settings hold for the files that a commit writes, as the end of a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_lake_provider.contracts.compaction_rules import TARGET_SIZE
from airflow_lake_provider.contracts.delete_file_settings import DeleteFileSettings
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy

MERGE_MODE, DELETE_MODE, UPDATE_MODE = (f"write.{action}.mode" for action in ("merge", "delete", "update"))
COPY_ON_WRITE = "copy-on-write"
_SET_BY_ICEBERG = ("write.parquet.compression-codec", "zstd")
# Of data files, which Iceberg's own writer makes.
_OF_DATA = {
    TARGET_SIZE: "the size of data files",
    "write.parquet.compression-codec": "the compression of data files",
    "write.orc.compression-codec": "the compression of data files",
    "write.avro.compression-codec": "the compression of data files",
}


def held_settings(
    table: str, properties: Mapping[str, str], mode: str, strategy: str, *, asked: bool, format_version: int
) -> str:
    """Return the clauses of what the table's owner has set; empty where nothing is.

    :param table: named in an error.
    :param mode: property that says how the owner wants the change to be made.
    :param strategy: by which it was made.
    :param asked: whether the DAG has named it.
    """
    clauses = [*_of_mode(properties, mode, strategy, asked=asked), *_of_data(properties)]
    # Version 3 has vectors for positions, in a format without such settings.
    if strategy == UpsertStrategy.EQUALITY.value or (strategy == UpsertStrategy.POSITIONS.value and format_version < 3):
        clauses += DeleteFileSettings.of(table, properties).held
    return "".join(f"; {clause}" for clause in clauses)


def _of_mode(properties: Mapping[str, str], mode: str, strategy: str, *, asked: bool) -> list[str]:
    owners = properties.get(mode)
    if asked:
        # Spark's MERGE is made as the owner says.
        by_files = strategy != UpsertStrategy.MERGE.value
        differs = (
            by_files
            and owners is not None
            and owners != (COPY_ON_WRITE if strategy == COPY_ON_WRITE else "merge-on-read")
        )
        return [f"strategy is the DAG's and not {owners}, the table's {mode}"] if differs else []
    return [f"strategy is {strategy}, the table's {mode}"] if owners == strategy == COPY_ON_WRITE else []


def _of_data(properties: Mapping[str, str]) -> list[str]:
    # Iceberg itself sets its default codec on each new table.
    set_by_owner = {name: value for name, value in properties.items() if (name, value) != _SET_BY_ICEBERG}
    return [
        f"{what} is {set_by_owner[name]}, the table's {name}" for name, what in _OF_DATA.items() if name in set_by_owner
    ]

"""Which strategy applies a batch, by rule from metadata, and why."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.internals import missing_internals
from airflow_lake_provider.spark_jobs.formats.iceberg.key_pruning import known_ranges
from airflow_lake_provider.spark_jobs.formats.iceberg.table import IcebergTable

POSITION_CLASSES = (
    "org.apache.iceberg.spark.SparkTableCache",
    "org.apache.iceberg.spark.FileRewriteCoordinator",
    "org.apache.iceberg.deletes.BaseDVFileWriter",
    "org.apache.iceberg.deletes.PositionDeleteIndex",
    "org.apache.iceberg.data.BaseDeleteLoader",
)
# Keys are broadcast, and 8 bytes per row found reach the driver.
MAX_KEYS = 2_000_000


@dataclass(frozen=True, kw_only=True)
class ChosenStrategy:
    """A strategy and why.

    :param warning: what the table's owner could mend; None when nothing.
    """

    strategy: UpsertStrategy
    reason: str
    warning: str | None = None


def choose_strategy(table: IcebergTable, commit: KeyedCommit) -> ChosenStrategy:
    """Choose by rule, or do as asked.

    :raises UnsupportedError: ``positions`` was asked for and cannot be.
    """
    if commit.strategy is UpsertStrategy.MERGE:
        return ChosenStrategy(strategy=UpsertStrategy.MERGE, reason="as asked")
    missing = missing_internals(table.spark, POSITION_CLASSES)
    obstacle = f"this Iceberg runtime lacks {', '.join(missing)}" if missing else _obstacle(table, commit)
    if commit.strategy is UpsertStrategy.POSITIONS:
        if obstacle is not None:
            raise UnsupportedError(f"{table.name}: strategy='positions' is not possible, {obstacle}; use 'auto'")
        return ChosenStrategy(strategy=UpsertStrategy.POSITIONS, reason="as asked")
    if obstacle is not None:
        warning = f"the slower strategy merge was used: {obstacle}" if missing else None
        return ChosenStrategy(strategy=UpsertStrategy.MERGE, reason=obstacle, warning=warning)
    return ChosenStrategy(strategy=UpsertStrategy.POSITIONS, reason="the table can be changed by position")


def _obstacle(table: IcebergTable, commit: KeyedCommit) -> str | None:
    """Return why rows cannot, or should not, be replaced by position."""
    if table.format_version < 2:
        return "format version 1 has no deletes"
    base = table.java.snapshot(int(commit.base)) if commit.base is not None else None
    if base is not None and base.schemaId() != table.java.schema().schemaId():
        # A snapshot is read by the schema of its time, whose names may mean other columns now.
        return "the schema has changed since the last commit"
    if table.properties().get("write.merge.mode") == "copy-on-write":
        return "the table's write.merge.mode asks for copy-on-write"
    if "encryption.key-id" in table.properties():
        return "an encrypted table's delete files cannot be read here"
    keys = known_ranges(commit).keys
    if keys > MAX_KEYS:
        return f"{keys} keys are more than the {MAX_KEYS} that are broadcast"
    return None

"""Choose the strategy that applies a batch, by rules on metadata, and say why."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.table_obstacles import SCHEMA_CHANGED
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.strategy_requirements import (
    TableShape,
    lacking_internals,
    unfit_for,
    without_delete_files,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import known_ranges

# Keys are broadcast, and 8 bytes per row found reach the driver.
MAX_KEYS = 2_000_000
# From here on nearly every data file has a row of the batch. To write them all anew is at most four times the rows of
# the batch, once; delete files would make each later read go through the replaced rows, and a compaction write it all
# as well.
COPIED_SHARE = 1 / 3


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

    :raises UnsupportedError: the strategy that was asked for is not possible.
    """
    if commit.strategy in (UpsertStrategy.MERGE, UpsertStrategy.EQUALITY):
        return ChosenStrategy(strategy=commit.strategy, reason="as asked")
    is_asked = commit.strategy is not UpsertStrategy.AUTO
    wanted = ChosenStrategy(strategy=commit.strategy, reason="as asked") if is_asked else _preferred(table, commit)
    lacking = lacking_internals(table.spark, wanted.strategy)
    unfit = lacking or unfit_for(TableShape.of(table), wanted.strategy, commit.keys)
    obstacle = unfit or _obstacle(table, commit)
    if obstacle is None:
        return wanted
    if is_asked:
        strategy = commit.strategy.value
        raise UnsupportedError(f"{table.name}: strategy={strategy!r} is not possible, {obstacle}; use 'auto'")
    warning = f"the slower strategy merge was used: {lacking}" if lacking else None
    return ChosenStrategy(strategy=UpsertStrategy.MERGE, reason=obstacle, warning=warning)


def _preferred(table: IcebergTable, commit: KeyedCommit) -> ChosenStrategy:
    reason = without_delete_files(TableShape.of(table))
    if reason is None:
        keys, rows = known_ranges(commit).keys, _rows_at_base(table, commit)
        if rows == 0 or keys < rows * COPIED_SHARE:
            return ChosenStrategy(strategy=UpsertStrategy.POSITIONS, reason="the table can be changed by position")
        reason = f"{keys} keys are {keys / rows:.0%} of the table's {rows} rows"
    return ChosenStrategy(strategy=UpsertStrategy.COPY_ON_WRITE, reason=reason)


def _rows_at_base(table: IcebergTable, commit: KeyedCommit) -> int:
    """Return the rows of the base's data files, those that deletes hide included."""
    return int(table.summary(commit.base).get("total-records", 0))


def _obstacle(table: IcebergTable, commit: KeyedCommit) -> str | None:
    """Return why this batch cannot, or should not, be applied by a strategy other than ``merge``."""
    base = table.java.snapshot(int(commit.base)) if commit.base is not None else None
    if base is not None and base.schemaId() != table.java.schema().schemaId():
        # A snapshot is read by the schema of its time, whose names may mean other columns now.
        return SCHEMA_CHANGED
    keys = known_ranges(commit).keys
    if keys > MAX_KEYS:
        return f"{keys} keys are more than the {MAX_KEYS} that are broadcast"
    return None

"""An Iceberg table that rows are applied to by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied_history import AppliedOfSource
from airflow_lake_provider.contracts.held_settings import MERGE_MODE, held_settings
from airflow_lake_provider.contracts.job_report import TableState
from airflow_lake_provider.contracts.open_key_changes import OpenKeyChanges
from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.schema_contract import MissingColumns, SchemaContract
from airflow_lake_provider.contracts.source_position import SourcePosition
from airflow_lake_provider.contracts.table_facts import MAIN
from airflow_lake_provider.contracts.table_layout import TableLayout
from airflow_lake_provider.contracts.table_properties import POSITION_PREFIX, RUN_KEY
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.base import AppliedCommit, AppliedState, KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.source_position_file import read_position
from airflow_lake_provider.spark_jobs.formats.iceberg.table import apply_schema_contract, create_table
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.uuid_keys import refuse_other_spellings
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.audited_upsert import upsert_audited
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.choose_strategy import choose_strategy
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.fitted_rows import fit_rows
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_history import IcebergKeyHistory
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import known_ranges
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.rebase_commit import (
    reading_base,
    refuse_expired_base,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.strategies import STRATEGIES
from airflow_lake_provider.spark_jobs.progress import Progress


@dataclass
class IcebergKeyedTable:
    """Implements ``formats.base.KeyedTable``."""

    table: IcebergTable

    def exists(self) -> bool:
        """Tell whether the catalog has it now."""
        return self.table.exists()

    def is_created(self) -> bool:
        """Tell whether it exists with all that its creation sets."""
        return self.table.exists() and not create_table.is_unfinished(self.table)

    def state(self, branch: str | None = None) -> TableState:
        """Counts of the newest metadata."""
        return self.table.refresh().state(branch or MAIN)

    def applied_state(self, source_name: str, branch: str | None = None) -> AppliedState:
        """Read the newest metadata and what it remembers of a source."""
        if not self.exists():
            return AppliedState(keys=self._keys())
        table = self.table.refresh_readable()
        base = table.base_of(branch)
        if branch is not None:
            # The count goes on from main's, so that main does not look rolled back once the branch is published.
            known = SourcePosition.read(table.properties(), source_name, str(table.name))
            consumed = SourcePosition(generation=known.generation)
            return AppliedState(
                base=base,
                run_keys=self._run_keys_in_summaries(branch),
                position=consumed,
                keys=self._keys(),
                commits=table.history(table.origin_of(branch)).line,
            )
        applied, history = self._applied(source_name), table.history()
        open_changes = OpenKeyChanges.read(table.properties(), source_name, str(table.name))
        return AppliedState(
            base=table.base_of(None),
            run_keys=history.run_keys(RecentRunKeys.read(table.properties())),
            position=applied.position,
            newest=applied.newest,
            keys=self._keys(OpenKeyChanges() if applied.is_replaced else open_changes, applied.epoch),
            is_replaced=applied.is_replaced,
            commits=history.line,
        )

    def _keys(self, open_changes: OpenKeyChanges | None = None, epoch: int = 1) -> IcebergKeyHistory:
        return IcebergKeyHistory(
            table=self.table, apply=self.apply, open_changes=open_changes or OpenKeyChanges(), epoch=epoch
        )

    def _applied(self, source_name: str) -> AppliedOfSource:
        position = read_position(self.table, source_name)
        return AppliedOfSource.of(
            position, self.table.properties(), self.table.history(), source_name, str(self.table.name)
        )

    def other_positions(self, source_name: str) -> Mapping[str, SourcePosition]:
        """Positions of all sources but one, by their names; empty for a missing table."""
        known = [name.removeprefix(POSITION_PREFIX) for name in self.properties() if name.startswith(POSITION_PREFIX)]
        return {name: self._applied(name).position for name in known if name != source_name}

    def properties(self) -> dict[str, str]:
        """Table properties; empty for a missing table."""
        return self.table.properties() if self.exists() else {}

    def schema(self) -> StructType | None:
        """Columns and types; None for a missing table."""
        return self.table.schema() if self.exists() else None

    def rows(self, base: str | None) -> DataFrame | None:
        """Live rows at a snapshot; None where there are none."""
        if base is None:
            return None
        return self.table.rows_by_newest_schema(int(base))

    def create(self, columns: StructType, keys: tuple[str, ...], layout: TableLayout, strategy: UpsertStrategy) -> None:
        """Create the table unless another job has just done so."""
        create_table.create_table(self.table, columns, keys, layout, strategy)

    def fit_schema(self, columns: StructType, contract: SchemaContract, missing: MissingColumns) -> tuple[str, ...]:
        """Add and widen columns so that ``columns`` fit."""
        return apply_schema_contract.fit_schema(self.table, columns, contract, missing)

    def apply(self, commit: KeyedCommit, progress: Progress) -> AppliedCommit:
        """Commit once."""
        refuse_other_spellings(self.table, commit.rows, commit.keys)
        commit = replace(commit, key_ranges=known_ranges(commit))
        refuse_expired_base(self.table, commit)
        commit = fit_rows(self.table, replace(commit, schema_id=self.table.schema_id))
        with reading_base(self.table, commit), progress.phase("choose") as facts:
            chosen = choose_strategy(self.table, commit)
            facts["strategy"] = chosen.strategy.value
        commit = replace(commit, candidates=chosen.candidates)
        strategy = STRATEGIES[chosen.strategy]
        # Before the commit, as it may find a setting that is no number.
        held = held_settings(
            str(self.table.name),
            self.table.properties(),
            MERGE_MODE,
            chosen.strategy.value,
            asked=commit.strategy is not UpsertStrategy.AUTO,
            format_version=self.table.format_version,
        )
        if commit.audits is not None:
            applied = upsert_audited(self.table, commit, commit.audits, strategy, progress)
        else:
            applied = strategy.apply(self.table, commit, progress)
        warnings = (*((chosen.warning,) if chosen.warning else ()), *applied.warnings)
        reason = f"{chosen.reason}; {applied.strategy_reason}"
        return replace(applied, strategy_reason=reason, warnings=warnings, held=held)

    def _run_keys_in_summaries(self, branch: str) -> RecentRunKeys:
        """Return the run keys of a branch; one that is not there yet starts from main, and what was applied there."""
        origin = self.table.origin_of(branch)
        keys = [key for summary in self.table.summaries(origin) if (key := summary.get(RUN_KEY))]
        recent = RecentRunKeys.read(self.table.properties())
        published = self.table.history().run_keys(recent).entries if origin == MAIN else ()
        return RecentRunKeys((*((key, 0) for key in keys), *published))

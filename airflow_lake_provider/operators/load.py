"""The worker's part of every load: who asks, and under which name the table keeps the source's position."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, TypeVar

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat
from airflow_lake_provider.hooks.source_access import source_access
from airflow_lake_provider.operators.task_run import TaskRun
from airflow_lake_provider.operators.worker_action import WorkerAction
from airflow_lake_provider.planning.nothing_new import report_at_end
from airflow_lake_provider.planning.table_reads import refuse_gone_start, refuse_read
from airflow_lake_provider.submission.author_code import code_of, refuse_left_behind
from airflow_lake_provider.tables.base import LoadedTable

LoadT = TypeVar("LoadT", bound=LoadSpec)


class LoadAction(WorkerAction[LoadT]):
    """The worker's part of a load."""

    # Whether a worker can ask where the source ends.
    _tells_end = False

    def completed(self, spec: LoadT, run: TaskRun) -> LoadT:
        """Name the source, and add its code.

        :raises InvalidSpecError: a driver would not find its code.
        :raises InvalidConnectionError: what it reads has no connection, or one that cannot be used.
        """
        source = spec.source.with_code(code_of)
        single = source.inputs.get("")
        self._tells_end = single is not None and bool(single.end)
        for conn_id, kind in source.connections.items():
            source_access(conn_id, kind)
        refuse_left_behind(source, getattr(run.context.get("task"), "py_files", None))
        if not source.name:
            source = replace(source, name=run.source_name(spec.table, is_kept=spec.keeps_position))
        return replace(spec, source=source)

    def identity(self, spec: LoadT, run: TaskRun) -> RunIdentity:
        """Return who asks, or the author's batch."""
        # Two tasks may give one batch id to what they read for the same table.
        batch = ("batch", spec.batch_id, spec.source_name) if spec.batch_id else ()
        return run.identity(batch, cleared_is_new=spec.on_repeat is OnRepeat.APPLY)

    def report_without_spark(self, spec: LoadT) -> JobReport | None:
        """Ask a source for its end, where a worker can: for a table that stands there, there is nothing to start."""
        report = report_at_end(spec, self.tables.find_table) if self._tells_end else None
        if report is not None:
            self.refuse_from_metadata(spec)
        return report

    @staticmethod
    @abstractmethod
    def refuse_batch(spec: Any, target: LoadedTable | None, source: LoadedTable | None) -> None:
        """Refuse a target that cannot take the batch, or a source table that cannot be it."""

    def refuse_from_metadata(self, spec: LoadT) -> None:
        """Refuse a source table that is missing, and a target that cannot take the batch."""
        target = self.tables.find_table(spec.table)
        self.refuse_batch(spec, target, self._source_table(spec, target))

    def _source_table(self, spec: LoadT, target: LoadedTable | None) -> LoadedTable | None:
        """Refuse a table that cannot be read; return the one that is read as it is, None for files and queries.

        :raises MissingTableError: it does not exist.
        """
        source = None
        for name, read in spec.source.lake_tables.items():
            source = self.tables.load_source(read.table, f"the table of input {name!r}" if name else "the source table")
            refuse_read(spec, read, source)
            if target is not None:
                refuse_gone_start(spec, name, read, source, target.facts)
        return None if spec.source.is_made else source

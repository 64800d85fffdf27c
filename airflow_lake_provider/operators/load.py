"""The worker's part of every load: who asks, and under which name the table keeps the source's position."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat
from airflow_lake_provider.operators.task_run import TaskRun
from airflow_lake_provider.operators.worker_action import WorkerAction
from airflow_lake_provider.submission.source_modules import refuse_left_behind
from airflow_lake_provider.tables.base import LoadedTable

LoadT = TypeVar("LoadT", bound=LoadSpec)


class LoadAction(WorkerAction[LoadT]):
    """The worker's part of a load."""

    def completed(self, spec: LoadT, run: TaskRun) -> LoadT:
        """Name the source.

        :raises InvalidSpecError: a driver would not find its code.
        """
        source = spec.source
        refuse_left_behind(source, getattr(run.context.get("task"), "py_files", None))
        return spec if source.name else replace(spec, source=replace(source, name=run.source_name(spec.table)))

    def identity(self, spec: LoadT, run: TaskRun) -> RunIdentity:
        """Return who asks, or the author's batch."""
        # Two tasks may give one batch id to what they read for the same table.
        batch = ("batch", spec.batch_id, spec.source_name) if spec.batch_id else ()
        return run.identity(batch, cleared_is_new=spec.on_repeat is OnRepeat.APPLY)

    def source_table(self, spec: LoadT) -> LoadedTable | None:
        """Return the lake table that is read as it is; None for files and queries.

        :raises MissingTableError: it does not exist.
        """
        name = spec.source.lake_table
        source = None if name is None else self.tables.load_source(name, "the source table")
        return None if spec.source.query else source

"""LakeUpdateRowsOperator: columns of the rows where a predicate is true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_lake_provider.contracts.specs.row_changes import UpdateRowsSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import WorkerAction
from airflow_lake_provider.planning.early_refusals import refuse_row_change


class UpdateRowsAction(WorkerAction[UpdateRowsSpec]):
    """The worker's part of an update."""

    spec_type = UpdateRowsSpec

    def refuse_from_metadata(self, spec: UpdateRowsSpec) -> None:
        """Refuse a table that is missing, or whose rows cannot be updated as asked."""
        refuse_row_change(spec, self.tables.load_existing(spec.table))


class LakeUpdateRowsOperator(LakeJobOperator[UpdateRowsSpec]):
    """Set columns of rows of main in one atomic commit, once: a retry or a cleared task is recognised by its run key.

    :param table: ``namespace.table`` (templated).
    :param assignments: column to SQL expression over the row's old values. It is code, so it is not templated; one that
        runs a shell command needs ``allow_sql``.
    :param where: predicate over columns, or the path of a ``.sql`` file with it (templated).
    :param allow_sql: take a ``where`` that is more than comparisons of columns with constants. It is code then: never
        interpolate user input.
    :param max_attempts: commits tried before a conflict fails the task.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises BadInputError: a required column would become NULL.
    :raises ForgottenRunError: the run is older than the run keys that the table remembers.
    """

    action = UpdateRowsAction

    def __init__(
        self,
        *,
        assignments: Mapping[str, str],
        where: str,
        allow_sql: bool = False,
        max_attempts: int = 5,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())

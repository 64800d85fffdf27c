"""LakeDeleteRowsOperator: rows by predicate or by a list of keys, with proof of who still holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import WorkerAction
from airflow_lake_provider.planning.early_refusals import refuse_row_change
from airflow_lake_provider.planning.table_reads import refuse_read

if TYPE_CHECKING:
    from airflow.sdk import XComArg


class DeleteRowsAction(WorkerAction[DeleteRowsSpec]):
    """The worker's part of a deletion."""

    spec_type = DeleteRowsSpec
    cleared_is_new = True

    def refuse_from_metadata(self, spec: DeleteRowsSpec) -> None:
        """Refuse a table that is missing, or whose rows cannot be deleted as asked."""
        keys = None
        for read in (spec.keys_from.lake_tables if spec.keys_from is not None else {}).values():
            keys = self.tables.load_source(read.table, "the table of keys")
            refuse_read(spec, read, keys)
        refuse_row_change(spec, self.tables.load_existing(spec.table), keys)


class LakeDeleteRowsOperator(LakeJobOperator[DeleteRowsSpec]):
    """Delete rows of main in one atomic commit, and report which snapshots, tags and branches still hold them.

    Neither the report, the log, the snapshot's summary nor Airflow's rendered fields have a value of the rows. Each
    run, and each clearing of its task, looks again; Airflow's own retries are recognised.

    :param table: ``namespace.table`` (templated).
    :param where: predicate over columns, or the path of a ``.sql`` file with it; rendered when the task runs and never
        among the rendered fields. Or ``keys_from``.
    :param keys_from: path or glob of files with keys, or ``Files`` or ``LakeTable`` of
        ``airflow_lake_provider``, or a mapping of one (templated).
    :param keys: key columns, which the table and the keys both have (templated).
    :param allow_sql: take a ``where`` that is more than comparisons of columns with constants. It is code then: never
        interpolate user input.
    :param proof: look through all files that the table still reaches for the rows.
    :param max_attempts: commits tried before a conflict fails the task.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises BadInputError: the keys cannot be read, are NULL, or do not fit the table's columns.
    :raises ForgottenRunError: a retry of a run older than the run keys that the table remembers.
    """

    action = DeleteRowsAction

    def __init__(
        self,
        *,
        where: str | None = None,
        keys_from: str | Source | Mapping[str, Any] | XComArg | None = None,
        keys: Sequence[str] | XComArg = (),
        allow_sql: bool = False,
        proof: bool = True,
        max_attempts: int = 5,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())

"""LakeUpdateRowsOperator: columns of the rows where a predicate is true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import flag, number, text
from airflow_lake_provider.contracts.job_spec import SpecFrame
from airflow_lake_provider.contracts.row_change_specs import UpdateRowsSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.untemplated_arguments import texts
from airflow_lake_provider.planning.early_refusals import refuse_row_change

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeUpdateRowsOperator(LakeJobOperator[UpdateRowsSpec]):
    """Set columns of rows of main in one atomic commit, once: a retry or a cleared task is recognised by its run key.

    :param table: ``namespace.table`` (templated).
    :param assignments: column to SQL expression over the row's old values. It is code, so it is not templated; one that
        runs a shell command needs ``allow_sql``.
    :param where: predicate over columns, or the path of a ``.sql`` file with it (templated).
    :param allow_sql: take a ``where`` that is more than comparisons of columns with constants. It is code then: never
        interpolate user input.
    :param max_attempts: commits tried before a conflict fails the task.
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises BadInputError: a required column would become NULL.
    :raises ForgottenRunError: the run is older than the run keys that the table remembers.
    """

    template_fields: Sequence[str] = (*LakeJobOperator.template_fields, "where")
    sql_arguments = ("where",)

    stand_ins: ClassVar[Mapping[str, Any]] = {**LakeJobOperator.stand_ins, "where": "true"}

    def __init__(
        self,
        *,
        assignments: Mapping[str, str],
        where: str,
        allow_sql: bool = False,
        max_attempts: int = 5,
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.assignments = texts(assignments, "assignments", "a column to an SQL expression")
        self.where = where
        self.allow_sql = flag(allow_sql, "allow_sql")
        self.max_attempts = number(max_attempts, "max_attempts")
        self.refuse_wrong_arguments()

    def make_spec(self, frame: SpecFrame, context: Context | None) -> UpdateRowsSpec:  # noqa: ARG002  # for others
        """Translate the arguments."""
        return UpdateRowsSpec(
            **frame,
            assignments=self.assignments,
            where=text(self.where, "where"),
            allow_sql=self.allow_sql,
            max_attempts=self.max_attempts,
        )

    def refuse_from_metadata(self, spec: UpdateRowsSpec) -> None:
        """Refuse a table that is missing, or whose rows cannot be updated as asked."""
        refuse_row_change(spec, self.load_existing(spec.table))

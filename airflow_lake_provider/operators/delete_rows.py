"""LakeDeleteRowsOperator: rows by predicate or by a list of keys, with proof of who still holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import Reader, flag, names, number, optional
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.job_spec import SpecFrame
from airflow_lake_provider.contracts.row_change_specs import DeleteRowsSpec
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.sources import Files, Source, source
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.planning.early_refusals import refuse_row_change

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


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
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises BadInputError: the keys cannot be read, are NULL, or do not fit the table's columns.
    :raises ForgottenRunError: a retry of a run older than the run keys that the table remembers.
    """

    template_fields: Sequence[str] = (*LakeJobOperator.template_fields, "keys_from", "keys")
    stand_ins: ClassVar[Mapping[str, Any]] = {
        **LakeJobOperator.stand_ins,
        "where": "true",
        "keys_from": Files("file.parquet"),
        "keys": ("key",),
    }
    object_readers: ClassVar[Mapping[str, Reader]] = {"keys_from": source}
    sql_arguments = ("where",)

    def __init__(
        self,
        *,
        where: str | None = None,
        keys_from: str | Source | Mapping[str, Any] | XComArg | None = None,
        keys: Sequence[str] | XComArg = (),
        allow_sql: bool = False,
        proof: bool = True,
        max_attempts: int = 5,
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.where = where
        self.keys_from = keys_from
        self.keys = keys
        self.allow_sql = flag(allow_sql, "allow_sql")
        self.proof = flag(proof, "proof")
        self.max_attempts = number(max_attempts, "max_attempts")
        self.refuse_wrong_arguments()

    def make_spec(self, frame: SpecFrame, context: Context | None) -> DeleteRowsSpec:
        """Translate the arguments."""
        return DeleteRowsSpec(
            **frame,
            # Airflow keeps the rendered text of template fields; this one may name whom to forget.
            where=self._where(context),
            keys_from=optional(source)(self.keys_from, "keys_from"),
            keys=names(self.keys, "keys"),
            allow_sql=self.allow_sql,
            proof=self.proof,
            max_attempts=self.max_attempts,
        )

    def refuse_from_metadata(self, spec: DeleteRowsSpec) -> None:
        """Refuse a table that is missing, or whose rows cannot be deleted as asked."""
        name = spec.keys_from.lake_table if spec.keys_from is not None else None
        keys = None if name is None else self.load_source(name, "the table of keys")
        refuse_row_change(spec, self.load_existing(spec.table), keys)

    def run_of(self, context: Context) -> RunIdentity:
        """Return the identity of the run; each clearing of the task is another."""
        return self.run_identity(context, cleared_is_new=True)

    def _where(self, context: Context | None) -> str | None:
        rendered: Any = self.where
        if rendered is not None and context is not None:
            text = self.sql_text(rendered, "where") if isinstance(rendered, str) else rendered
            rendered = self.render_template(text, context)
        if rendered is not None and not isinstance(rendered, str):
            # Without the value: it may name whom to forget.
            raise InvalidSpecError(f"{self.table}: where must be a text of SQL, got a {type(rendered).__name__}")
        return rendered

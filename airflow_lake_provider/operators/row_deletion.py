"""LakeDeleteRowsOperator: rows by predicate or by a list of keys, with proof of who still holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.batch_source import Source, format_of_path
from airflow_lake_provider.contracts.row_change_specs import DeleteRowsSpec
from airflow_lake_provider.operators.arguments import names
from airflow_lake_provider.operators.lake_job import LakeJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeDeleteRowsOperator(LakeJobOperator):
    """Delete rows of main in one atomic commit, and report which snapshots, tags and branches still hold them.

    Neither the report, the log, the snapshot's summary nor Airflow's rendered fields have a value of the rows. Each
    run, and each clearing of its task, looks again; Airflow's own retries are recognised.

    :param table: ``namespace.table`` (templated).
    :param where: predicate over columns, rendered when the task runs and never among the rendered fields; or
        ``keys_from``.
    :param keys_from: path or glob of files with keys (templated); or ``keys_from_table``.
    :param keys_from_table: ``namespace.table`` with keys (templated).
    :param keys: key columns, which the table and the keys both have.
    :param keys_format: ``parquet | orc | json | csv | avro``; default by the path's ending.
    :param keys_options: options of Spark's reader.
    :param keys_schema: DDL of the columns of the keys.
    :param allow_sql: take a ``where`` that is more than comparisons of columns with constants. It is code then: let no
        person's input into it.
    :param proof: look through all files that the table still reaches for the rows.
    :param max_attempts: commits tried before a conflict fails the task.
    :param job: arguments of :class:`LakeJobOperator`.
    """

    template_fields: Sequence[str] = (*LakeJobOperator.template_fields, "keys_from", "keys_from_table")

    def __init__(
        self,
        *,
        where: str | None = None,
        keys_from: str | None = None,
        keys_from_table: str | None = None,
        keys: Sequence[str] = (),
        keys_format: str | None = None,
        keys_options: Mapping[str, str] | None = None,
        keys_schema: str | None = None,
        allow_sql: bool = False,
        proof: bool = True,
        max_attempts: int = 5,
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.where = where
        self.keys_from = keys_from
        self.keys_from_table = keys_from_table
        self.keys = keys
        self.keys_format = keys_format
        self.keys_options = keys_options
        self.keys_schema = keys_schema
        self.allow_sql = allow_sql
        self.proof = proof
        self.max_attempts = max_attempts

    def build_spec(self, context: Context) -> DeleteRowsSpec:
        """Translate the arguments."""
        return DeleteRowsSpec(
            catalog=self.lake.connection.catalog_name,
            table_format=self.lake.connection.table_format,
            table=self.table,
            run=self.run_identity(context, cleared_is_new=True),
            # Airflow keeps the rendered text of template fields; this one may name whom to forget.
            where=None if self.where is None else self.render_template(self.where, context),
            keys_from=self._source(),
            keys=names(self.keys, "keys"),
            allow_sql=self.allow_sql,
            proof=self.proof,
            max_attempts=self.max_attempts,
        )

    def _source(self) -> Source | None:
        if not self.keys_from and not self.keys_from_table:
            return None
        return Source(
            path=self.keys_from or None,
            format=(self.keys_format or format_of_path(self.keys_from)) if self.keys_from else None,
            options=dict(self.keys_options or {}),
            schema=self.keys_schema,
            table=self.keys_from_table or None,
        )

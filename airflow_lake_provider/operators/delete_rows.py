"""LakeDeleteRowsOperator: rows by predicate or by a list of keys, with proof of who still holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.batch_source import Source, format_of_path
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.row_change_specs import DeleteRowsSpec
from airflow_lake_provider.operators.arguments import file_format, flag, names, number, optional_text, options
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
    :param keys_options: options of Spark's reader; texts, numbers and booleans.
    :param keys_schema: DDL of the columns of the keys.
    :param allow_sql: take a ``where`` that is more than comparisons of columns with constants. It is code then: never
        interpolate user input.
    :param proof: look through all files that the table still reaches for the rows.
    :param max_attempts: commits tried before a conflict fails the task.
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises BadInputError: the keys cannot be read, are NULL, or do not fit the table's columns.
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
        keys_options: Mapping[str, Any] | None = None,
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
        self.keys = names(keys, "keys")
        self.keys_format = file_format(keys_format, "keys_format")
        self.keys_options = options(keys_options, "keys_options")
        self.keys_schema = optional_text(keys_schema, "keys_schema")
        self.allow_sql = flag(allow_sql, "allow_sql")
        self.proof = flag(proof, "proof")
        self.max_attempts = number(max_attempts, "max_attempts")

    def build_spec(self, context: Context) -> DeleteRowsSpec:
        """Translate the arguments."""
        return DeleteRowsSpec(
            catalog=self.lake.connection.catalog_name,
            table_format=self.lake.connection.table_format,
            table=self.table,
            run=self.run_identity(context, cleared_is_new=True),
            # Airflow keeps the rendered text of template fields; this one may name whom to forget.
            where=self._where(context),
            keys_from=self._source(),
            keys=self.keys,
            allow_sql=self.allow_sql,
            proof=self.proof,
            max_attempts=self.max_attempts,
        )

    def _where(self, context: Context) -> str | None:
        rendered = None if self.where is None else self.render_template(self.where, context)
        if rendered is not None and not isinstance(rendered, str):
            # Without the value: it may name whom to forget.
            raise InvalidSpecError(f"{self.table}: where must be a text of SQL, got a {type(rendered).__name__}")
        return rendered

    def _source(self) -> Source | None:
        path = optional_text(self.keys_from, "keys_from", templated=True)
        table = optional_text(self.keys_from_table, "keys_from_table", templated=True)
        if path is None and table is None:
            return None
        return Source(
            path=path,
            format=(self.keys_format or format_of_path(path)) if path else None,
            options=self.keys_options,
            schema=self.keys_schema,
            table=table,
        )

"""LakeAppendOperator: the rows of a batch, added to a lake table once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.dead_letter import DeadLetter
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.load import LoadAction
from airflow_lake_provider.planning.early_refusals import refuse_append

if TYPE_CHECKING:
    from airflow.sdk import XComArg


class AppendAction(LoadAction[AppendSpec]):
    """The worker's part of an append."""

    spec_type = AppendSpec
    refuse_batch = staticmethod(refuse_append)


class LakeAppendOperator(LakeJobOperator[AppendSpec]):
    """Add the rows of a batch in one atomic commit, once. No row of the table is looked at.

    A retry or a cleared task is recognised by its run key. A new run adds the files that the table's position of the
    source does not know. A file that has changed under its name is refused, as its rows would be added again.

    Every argument but ``allow_sql`` and ``max_attempts`` is templated, with the texts in its object.
    Where an argument takes an object it takes a mapping of its fields too, so that XCom and forms can give it.

    :param table: ``namespace.table`` to write.
    :param source: a path or glob of files, or ``Files``, ``LakeTable``, ``JdbcTable``, ``KafkaTopic``, ``Query``,
        ``PySparkFunction``, ``RepairedLetters`` of ``airflow_lake_provider``; a mapping says which by ``type``.
    :param deduplicate_by: columns; of rows of a batch that have the same values in all of them, the first is added.
    :param deduplicate_against: leave out rows whose values of ``deduplicate_by`` the table has already. A timedelta or
        ISO-8601 text compares with rows committed within that time, a number with the data files added last.
    :param on_changed_input: ``"fail"``, ``"append"`` or ``"skip"`` when a file or the source table has changed
        since its rows were added.
    :param create: ``TableLayout`` of a missing table; True for the plain layout, False refuses a missing table.
    :param schema_contract: ``"evolve"``, ``"freeze"`` or a ``SchemaContract``: new, wider, missing, excluded columns.
        With ``missing_columns="keep"`` a column that the batch lacks gets its write default.
    :param branch: write to this branch instead of main.
    :param batch_id: with the source, the identity of the batch in place of dag, run, task and map index.
    :param on_repeat: ``"skip"``, ``"apply"`` or ``"fail"`` when the table says that the batch was added. With
        ``"apply"`` a cleared task or a new run adds all of the input once more, and Airflow's own retries do not.
    :param dead_letter: ``DeadLetter``: records of files, topics and tables that cannot be read, or lack what the table
        needs, go to its table. Left out, they refuse the batch.
    :param audits: name -> SQL query of the rows that must not be, or ``Audits``. A query reads the views ``audited``,
        the table as it is to be, and ``batch``, the rows that are added. They wait on a branch until it finds none.
    :param allow_sql: take ``Query`` and ``audits`` that run shell commands. They are code in any case: never
        interpolate user input.
    :param max_attempts: commits tried before a conflict fails the task.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises BadInputError: the batch cannot be added as it is; nothing of it was.
    :raises AuditFailedError: an assertion of ``audits`` found rows; main is as it was.
    :raises RolledBackError: the table was rolled back behind its position of the source.
    :raises ForgottenRunError: the run is older than the run keys that the table remembers.
    """

    action = AppendAction

    def __init__(
        self,
        *,
        source: str | Source | Mapping[str, Any] | XComArg,
        deduplicate_by: Sequence[str] | XComArg = (),
        deduplicate_against: timedelta | int | str | XComArg | None = None,
        on_changed_input: str = "fail",
        create: bool | TableLayout | Mapping[str, Any] | XComArg = True,
        schema_contract: str | SchemaContract | Mapping[str, Any] | XComArg = "evolve",
        branch: str | None = None,
        batch_id: str | None = None,
        on_repeat: str = "skip",
        dead_letter: DeadLetter | Mapping[str, Any] | XComArg | None = None,
        audits: Audits | Mapping[str, Any] | XComArg | None = None,
        allow_sql: bool = False,
        max_attempts: int = 5,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())

"""LakeOverwritePartitionsOperator: the rows of a batch in place of whole partitions of a lake table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.load import LoadAction
from airflow_lake_provider.planning.early_refusals import refuse_overwrite

if TYPE_CHECKING:
    from airflow.sdk import XComArg


class OverwritePartitionsAction(LoadAction[OverwritePartitionsSpec]):
    """The worker's part of an overwrite of partitions."""

    spec_type = OverwritePartitionsSpec
    refuse_batch = staticmethod(refuse_overwrite)


class LakeOverwritePartitionsOperator(LakeJobOperator[OverwritePartitionsSpec]):
    """Put the rows of a batch in place of the partitions that they are in, or of those of ``where``, in one commit.

    All of the source is read by every run. So a backfill that is run again, in any order, gives the same table. A retry
    whose answer was lost is recognised by its run key; a cleared task replaces the partitions again.

    Every argument but ``allow_rows``, ``allow_sql`` and ``max_attempts`` is templated, with the texts in its object.
    Where an argument takes an object it takes a mapping of its fields too, so that XCom and forms can give it.

    :param table: ``namespace.table`` to write.
    :param source: a path or glob of files, or ``Files``, ``LakeTable``, ``JdbcTable``, ``Query``, ``PySparkFunction``
        of ``airflow_lake_provider``; a mapping says which by ``type``.
    :param where: SQL predicate of the rows that are replaced, such as ``"day = '{{ ds }}'"``. It has to select whole
        partitions, and every row of the batch. ``"true"`` replaces all rows. Left out, the partitions that the batch
        has rows of are replaced.
    :param allow_rows: take a ``where`` that selects some rows of a partition: they are deleted by position.
    :param keys: columns of a key. Rows that the partitions of ``where`` have already keep their ids, so that
        incremental consumers see only those that differ. It takes format version 3.
    :param empty: ``"keep"`` or ``"delete"`` the rows of ``where`` when the input is there and has no rows. Where there
        is no input at all they are kept.
    :param deduplicate_by: columns; of rows of a batch that have the same values in all of them, the first is written.
    :param create: ``TableLayout`` of a missing table; True for the plain layout, False refuses a missing table.
    :param schema_contract: ``"evolve"``, ``"freeze"`` or a ``SchemaContract``: new, wider, missing, excluded columns.
        With ``missing_columns="keep"`` a column that the batch lacks gets its write default.
    :param branch: write to this branch instead of main.
    :param batch_id: with the source, the identity of the batch in place of dag, run, task and map index.
    :param on_repeat: ``"apply"``: a cleared task replaces the partitions again, and Airflow's own retries do not.
        With ``"skip"`` or ``"fail"`` a clearing over the same input is a repeat, too.
    :param audits: name -> SQL query of the rows that must not be, or ``Audits``. A query reads the views ``audited``,
        the table as it is to be, and ``batch``, the rows that are written. They wait on a branch until it finds none.
    :param allow_sql: take ``Query`` and ``audits`` that run shell commands. They are code in any case: never
        interpolate user input.
    :param max_attempts: commits tried before a conflict fails the task.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises BadInputError: the batch cannot be written as it is, or has rows outside of ``where``.
    :raises InvalidSpecError: ``where`` does not select whole partitions, or the table has none.
    :raises AuditFailedError: an assertion of ``audits`` found rows; main is as it was.
    """

    action = OverwritePartitionsAction

    def __init__(
        self,
        *,
        source: str | Source | Mapping[str, Any] | XComArg,
        where: str | None = None,
        allow_rows: bool = False,
        keys: Sequence[str] | XComArg = (),
        empty: str = "keep",
        deduplicate_by: Sequence[str] | XComArg = (),
        create: bool | TableLayout | Mapping[str, Any] | XComArg = True,
        schema_contract: str | SchemaContract | Mapping[str, Any] | XComArg = "evolve",
        branch: str | None = None,
        batch_id: str | None = None,
        on_repeat: str = "apply",
        audits: Audits | Mapping[str, Any] | XComArg | None = None,
        allow_sql: bool = False,
        max_attempts: int = 5,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())

"""LakeUpsertOperator: a batch of rows or change events into a lake table, by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.dead_letter import DeadLetter
from airflow_lake_provider.contracts.author.merge_engines import MergeEngine
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.load import LoadAction
from airflow_lake_provider.planning.early_refusals import refuse_upsert

if TYPE_CHECKING:
    from airflow.sdk import XComArg


class UpsertAction(LoadAction[UpsertSpec]):
    """The worker's part of an upsert."""

    spec_type = UpsertSpec
    refuse_batch = staticmethod(refuse_upsert)


class LakeUpsertOperator(LakeJobOperator[UpsertSpec]):
    """Apply the last change of every key of a batch, in one atomic commit, once.

    A retry or a cleared task is recognised by its run key. A new run over the same input is recognised by the position
    that the table keeps of the source. A corrected file under the same name is applied.

    Every argument but ``delete_when``, ``max_deleted_share``, ``allow_sql`` and ``max_attempts`` is templated, with the
    texts in its object. Where an argument takes an object it takes a mapping of its fields too, so that XCom and forms
    can give it.

    :param table: ``namespace.table`` to write.
    :param source: a path or glob of files, or ``Files``, ``LakeTable``, ``Changes``, ``JdbcTable``,
        ``KafkaTopic``, ``Query``, ``PySparkFunction``, ``Debezium``, ``DebeziumTopic``, ``RepairedLetters`` of
        ``airflow_lake_provider``; a mapping says which by ``type``.
    :param keys: key columns; they become the identifier fields of a created table.
    :param order_by: columns that order the changes of a key, the last wins; files break ties by arrival.
    :param delete_when: SQL predicate over a row of the batch: where true, its key is deleted. Left out, deletes of
        ``Changes`` delete.
    :param merge_engine: what becomes of the rows of a key: ``"deduplicate"``, ``"first-row"``, ``"partial-update"``, or
        an engine of ``airflow_lake_provider``; a mapping says which by ``type``.
    :param create: ``TableLayout`` of a missing table; True for the plain layout, False refuses a missing table.
    :param schema_contract: ``"evolve"``, ``"freeze"`` or a ``SchemaContract``: new, wider, missing, excluded columns.
    :param branch: write to this branch instead of main.
    :param batch_id: with the source, the identity of the batch in place of dag, run, task and map index.
    :param on_repeat: ``"skip"``, ``"apply"`` or ``"fail"`` when the table says that the batch was applied. With
        ``"apply"`` a cleared task or a new run applies it once more, and Airflow's own retries of that do not.
    :param strategy: ``"auto"``, ``"positions"``, ``"copy-on-write"``, ``"merge"`` or ``"equality"``: how the rows to
        replace are reached. The last leaves equality deletes, a debt that readers pay until a compaction, and some
        cannot read.
    :param complete: the source holds the whole table: keys that it lacks are deleted, by ``deletes`` of
        ``merge_engine``, and only rows that differ are written. All of it is read whenever something of it has changed.
    :param max_deleted_share: of the table's live rows; a complete batch that would delete more is refused.
    :param dead_letter: ``DeadLetter``: records of files, topics and tables that cannot be read, or lack what the table
        needs, go to its table. Left out, they refuse the batch.
    :param audits: name -> SQL query of the rows that must not be, or ``Audits``. A query reads the views ``audited``,
        the table as it is to be, and ``batch``, its rows to insert or update. The batch waits on a branch until they
        find none.
    :param allow_sql: take ``Query``, ``delete_when`` and ``audits`` that run shell commands. They are code in any case:
        never interpolate user input.
    :param max_attempts: commits tried before a conflict fails the task.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises BadInputError: the batch cannot be applied as it is; nothing of it was.
    :raises AuditFailedError: an assertion of ``audits`` found rows; main is as it was.
    :raises RolledBackError: the table was rolled back behind its position of the source.
    :raises RangeUnavailableError: the snapshot that ``Changes`` go on from was expired.
    :raises ForgottenRunError: the run is older than the run keys that the table remembers.
    """

    action = UpsertAction

    def __init__(
        self,
        *,
        source: str | Source | Mapping[str, Any] | XComArg,
        keys: Sequence[str] | XComArg,
        order_by: Sequence[str] | XComArg = (),
        delete_when: str | None = None,
        merge_engine: str | MergeEngine | Mapping[str, Any] | XComArg = "deduplicate",
        create: bool | TableLayout | Mapping[str, Any] | XComArg = True,
        schema_contract: str | SchemaContract | Mapping[str, Any] | XComArg = "evolve",
        branch: str | None = None,
        batch_id: str | None = None,
        on_repeat: str = "skip",
        strategy: str = "auto",
        complete: bool | str = False,
        max_deleted_share: float = 0.2,
        dead_letter: DeadLetter | Mapping[str, Any] | XComArg | None = None,
        audits: Audits | Mapping[str, Any] | XComArg | None = None,
        allow_sql: bool = False,
        max_attempts: int = 5,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())

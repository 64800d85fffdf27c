"""LakeIncrementalOperator: what changed in one lake table, transformed, into another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.reports.job import IncrementalReport, JobReport, Outcome
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.task_run import TaskRun
from airflow_lake_provider.operators.worker_action import WorkerAction
from airflow_lake_provider.planning.early_refusals import refuse_incremental, refuse_tags_of_another_target
from airflow_lake_provider.planning.nothing_new import is_guard_left, nothing_new
from airflow_lake_provider.submission.author_code import code_of


class IncrementalAction(WorkerAction[IncrementalSpec]):
    """The worker's part of an incremental run."""

    spec_type = IncrementalSpec

    def completed(self, spec: IncrementalSpec, run: TaskRun) -> IncrementalSpec:  # noqa: ARG002  # for others
        """End the range at the head of the source as this worker sees it.

        :raises MissingTableError: the source does not exist or has no snapshot yet.
        """
        return replace(spec, to_snapshot=self._head(spec.source), transform_code=code_of(spec.transform))

    def identity(self, spec: IncrementalSpec, run: TaskRun) -> RunIdentity:
        """Return who asks: who clears a full refresh asks for another one."""
        return run.identity(cleared_is_new=spec.ignores_position)

    def report_without_spark(self, spec: IncrementalSpec) -> JobReport | None:
        """Compare positions: where nothing is new there is nothing to start."""
        if spec.ignores_position:
            return None
        target = self.tables.find_table(spec.table)
        source = self.tables.load_existing(spec.source)
        target_facts = target.facts if target is not None else None
        unread = nothing_new(source, target_facts, spec.consumer)
        replaced = target_facts is not None and spec.replaces_transform(target_facts.properties)
        if not unread.nothing_new or replaced:
            return None
        if spec.protect_source and is_guard_left(source.facts, spec.consumer, unread.from_snapshot):
            return None
        return IncrementalReport(
            table=spec.table,
            outcome=Outcome.NOTHING_NEW,
            reason=unread.reason,
            source=spec.source,
            from_snapshot=unread.from_snapshot,
            to_snapshot=unread.to_snapshot,
        )

    def refuse_from_metadata(self, spec: IncrementalSpec) -> None:
        """Refuse a source that cannot tell its changes, and a target that cannot take them."""
        target, source = self.tables.find_table(spec.table), self.tables.lake.loaded(spec.source)
        refuse_incremental(spec, target, source)
        refuse_tags_of_another_target(spec, target, source, self.tables.find_table)

    def _head(self, source: str) -> str:
        head = self.tables.load_existing(source).facts.head()
        if head is None:
            raise MissingTableError(
                f"{source}: the source has no snapshot: nothing was written yet, or since it was replaced"
            )
        return head


class LakeIncrementalOperator(LakeJobOperator[IncrementalSpec]):
    """Read exactly what changed in ``source`` since ``target`` last read it, and upsert the transformed changes.

    The position is a property of the target, set in the same commit as the rows. So a retry, a cleared task or a second
    event for one commit applies nothing twice. Where nothing is new, Spark is not started. Give the DAG
    ``max_active_runs=1``: two runs at once would only race for the same range.

    :param source: ``namespace.table`` whose changes are read (templated); format version 3.
    :param target: ``namespace.table`` that is written (templated).
    :param consumer: name of this cursor; letters, digits, ``_`` and ``-``, at most 27.
    :param keys: key columns of the target (templated).
    :param transform: ``module:function`` taking the changes DataFrame, or it and the whole source, and returning the
        target's rows. Its module is shipped when the worker can import it. Or ``query``.
    :param query: SQL over the views ``changes`` and ``source``, or the path of a ``.sql`` file with it (templated).
    :param source_keys: keys of the source; default its identifier fields. Where ``keys`` are made of other columns,
        name these: else a row whose key changes stays under the old one, too.
    :param from_snapshot: start after this snapshot, text or number, instead of the position (templated).
    :param full_refresh: rebuild the target from the whole source (templated). Each run, and each clearing of its task,
        rebuilds it; Airflow's own retries are recognised.
    :param on_gap: ``"fail"`` or ``"full"`` when the start of the range was expired.
    :param on_transform_change: ``"fail"``, ``"full"`` or ``"continue"`` when another transform filled the target.
    :param protect_source: tag the source so that expiry keeps what this consumer needs; False for read-only consumers.
    :param allow_sql: take a ``query`` that runs shell commands. It is code in any case: never interpolate user input.
    :param create: ``TableLayout`` of a missing target, as of :class:`.LakeUpsertOperator` (templated).
    :param schema_contract: ``"evolve"``, ``"freeze"`` or a ``SchemaContract``: new columns and wider types (templated).
    :param max_attempts: commits tried before a conflict fails the task.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises InvalidSpecError: another table is filled by the consumer, whose tags on the source both would move.
    :raises RangeUnavailableError: the start of the range was expired, and ``on_gap`` is ``"fail"``.
    :raises BadInputError: another transform filled the target, or the rows of this one cannot be applied.
    :raises RolledBackError: the target was rolled back behind its position of the source.
    :raises ForgottenRunError: a retry with ``full_refresh`` or ``from_snapshot`` of a run older than the run keys that
        the target remembers.
    """

    action = IncrementalAction

    def __init__(
        self,
        *,
        source: str,
        target: str,
        consumer: str,
        keys: Sequence[str],
        transform: str | None = None,
        query: str | None = None,
        source_keys: Sequence[str] = (),
        from_snapshot: int | str | None = None,
        full_refresh: bool | str = False,
        on_gap: str = "fail",
        on_transform_change: str = "fail",
        protect_source: bool = True,
        allow_sql: bool = False,
        create: bool | TableLayout | Mapping[str, Any] = True,
        schema_contract: str | SchemaContract | Mapping[str, Any] = "evolve",
        max_attempts: int = 5,
        **of_job: Any,
    ) -> None:
        super().__init__(table=target, **of_job)
        self.keep(locals())

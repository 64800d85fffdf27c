"""LakeIncrementalOperator: what changed in one lake table, transformed, into another."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import Reader, flag, names, number, optional, text
from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.incremental_spec import IncrementalSpec
from airflow_lake_provider.contracts.job_report import IncrementalReport, JobReport, Outcome
from airflow_lake_provider.contracts.job_spec import JobSpec, SpecFrame
from airflow_lake_provider.contracts.schema_contract import SchemaContract, schema_contract
from airflow_lake_provider.contracts.table_layout import TableLayout, table_layout
from airflow_lake_provider.operators import untemplated_arguments
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.planning.early_refusals import refuse_incremental
from airflow_lake_provider.planning.incremental_plan import is_guard_left, nothing_new
from airflow_lake_provider.snapshots.read_table_head import read_head

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeIncrementalOperator(LakeJobOperator[IncrementalSpec]):
    """Read exactly what changed in ``source`` since ``target`` last read it, and upsert the transformed changes.

    The position is a property of the target, set in the same commit as the rows: a retry, a cleared task or a second
    event for one commit applies nothing twice. Where nothing is new, Spark is not started. Give the DAG
    ``max_active_runs=1``: two runs at once would only race for the same range.

    :param source: ``namespace.table`` whose changes are read (templated); format version 3.
    :param target: ``namespace.table`` that is written (templated).
    :param consumer: name of this cursor; letters, digits, ``_`` and ``-``, at most 27.
    :param keys: key columns of the target (templated).
    :param transform: ``module:function`` taking the changes DataFrame, or it and the whole source, and returning the
        target's rows; its module is shipped when the worker can import it. Or ``query``.
    :param query: SQL over the views ``changes`` and ``source``, or the path of a ``.sql`` file with it (templated).
    :param source_keys: keys of the source; default its identifier fields.
    :param from_snapshot: start after this snapshot instead of the position (templated).
    :param full_refresh: rebuild the target from the whole source (templated).
    :param on_gap: ``"fail"`` or ``"full"`` when the start of the range was expired.
    :param on_transform_change: ``"fail"``, ``"full"`` or ``"continue"`` when another transform filled the target.
    :param protect_source: tag the source so that expiry keeps what this consumer needs; False for read-only consumers.
    :param allow_sql: take a ``query`` that runs shell commands. It is code in any case: never interpolate user input.
    :param create: ``TableLayout`` of a missing target, as of :class:`.LakeUpsertOperator` (templated).
    :param schema_contract: ``"evolve"``, ``"freeze"`` or a ``SchemaContract``: new columns and wider types (templated).
    :param max_attempts: commits tried before a conflict fails the task.
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises RangeUnavailableError: the start of the range was expired, and ``on_gap`` is ``"fail"``.
    :raises BadInputError: another transform filled the target, or the rows of this one cannot be applied.
    :raises RolledBackError: the target was rolled back behind its position of the source.
    :raises ForgottenRunError: a retry with ``full_refresh`` or ``from_snapshot`` of a run older than the run keys that
        the target remembers.
    """

    template_fields: Sequence[str] = (
        *LakeJobOperator.template_fields,
        "source",
        "keys",
        "query",
        "from_snapshot",
        "full_refresh",
        "create",
        "schema_contract",
    )
    sql_arguments = ("query",)
    table_argument = "target"
    stand_ins: ClassVar[Mapping[str, Any]] = {
        **LakeJobOperator.stand_ins,
        "source": "namespace.source",
        "keys": ("key",),
        "query": "SELECT * FROM changes",
        "from_snapshot": None,
        "full_refresh": False,
        "create": True,
        "schema_contract": "evolve",
    }
    object_readers: ClassVar[Mapping[str, Reader]] = {"create": table_layout, "schema_contract": schema_contract}

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
        from_snapshot: str | None = None,
        full_refresh: bool | str = False,
        on_gap: str = "fail",
        on_transform_change: str = "fail",
        protect_source: bool = True,
        allow_sql: bool = False,
        create: bool | TableLayout | Mapping[str, Any] = True,
        schema_contract: str | SchemaContract | Mapping[str, Any] = "evolve",
        max_attempts: int = 5,
        **job: Any,
    ) -> None:
        super().__init__(table=target, **job)
        self.source = source
        self.consumer = untemplated_arguments.text(consumer, "consumer")
        self.keys = keys
        self.transform = untemplated_arguments.optional_text(transform, "transform")
        self.query = query
        self.source_keys = untemplated_arguments.names(source_keys, "source_keys")
        self.from_snapshot = from_snapshot
        self.full_refresh = full_refresh
        self.on_gap = untemplated_arguments.text(on_gap, "on_gap")
        self.on_transform_change = untemplated_arguments.text(on_transform_change, "on_transform_change")
        self.protect_source = flag(protect_source, "protect_source")
        self.allow_sql = flag(allow_sql, "allow_sql")
        self.create = create
        self.schema_contract = schema_contract
        self.max_attempts = number(max_attempts, "max_attempts")
        self.refuse_wrong_arguments()

    def make_spec(self, frame: SpecFrame, context: Context | None) -> IncrementalSpec:
        """Translate the arguments; the end of the range is the head of the source as this worker sees it.

        :raises MissingTableError: the source does not exist or has no snapshot yet.
        """
        source = text(self.source, "source")
        return IncrementalSpec(
            **frame,
            source=source,
            consumer=self.consumer,
            keys=names(self.keys, "keys"),
            to_snapshot="0" if context is None else self._head(source),
            transform=self.transform,
            transform_code=_code_of(self.transform),
            query=optional(text)(self.query, "query"),
            source_keys=self.source_keys,
            from_snapshot=optional(text)(self.from_snapshot, "from_snapshot"),
            full_refresh=flag(self.full_refresh, "full_refresh"),
            on_gap=self.on_gap,
            on_transform_change=self.on_transform_change,
            protect_source=self.protect_source,
            allow_sql=self.allow_sql,
            create=table_layout(self.create),
            schema_contract=schema_contract(self.schema_contract),
            max_attempts=self.max_attempts,
        )

    def _head(self, source: str) -> str:
        head = read_head(self.load_existing(source)).head
        if head is None:
            raise MissingTableError(
                f"{source}: the source has no snapshot: nothing was written yet, or since it was replaced"
            )
        return str(head)

    def report_without_spark(self, spec: JobSpec) -> JobReport | None:
        """Compare positions: where nothing is new there is nothing to start."""
        if not isinstance(spec, IncrementalSpec) or spec.full_refresh or spec.from_snapshot:
            return None
        target = self.find_table(self.table)
        source = self.load_existing(self.source)
        unread = nothing_new(source, target, self.consumer)
        replaced = target is not None and spec.replaces_transform(target.properties)
        if not unread.nothing_new or replaced:
            return None
        if spec.protect_source and is_guard_left(source, self.consumer, unread.from_snapshot):
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
        refuse_incremental(spec, self.find_table(spec.table), self.lake.load_table(spec.source))


def _code_of(transform: str | None) -> str | None:
    """Return the text of the transform's module when this worker has it; None leaves it to the cluster."""
    if transform is None or ":" not in transform:
        return None
    try:
        module = importlib.util.find_spec(transform.partition(":")[0])
    except ModuleNotFoundError:
        return None
    if module is None or module.origin is None or not module.origin.endswith(".py"):
        return None
    return Path(module.origin).read_text(encoding="utf-8")

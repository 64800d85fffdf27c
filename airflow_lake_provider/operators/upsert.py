"""LakeUpsertOperator: a batch of rows or change events into a lake table, by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import Reader, choice, flag, names, number, optional, text
from airflow_lake_provider.contracts.audits import Audits, audits
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.job_spec import SpecFrame
from airflow_lake_provider.contracts.merge_engines import Deduplicate, MergeEngine, merge_engine
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.schema_contract import SchemaContract, schema_contract
from airflow_lake_provider.contracts.source_name import default_source_name
from airflow_lake_provider.contracts.sources import Files, LakeTable, Source, source
from airflow_lake_provider.contracts.table_layout import TableLayout, table_layout
from airflow_lake_provider.contracts.upsert_spec import OnRepeat, UpsertSpec
from airflow_lake_provider.contracts.upsert_strategy import upsert_strategy
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.untemplated_arguments import optional_text
from airflow_lake_provider.planning.early_refusals import refuse_upsert

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


class LakeUpsertOperator(LakeJobOperator[UpsertSpec]):
    """Apply the last change of every key of a batch, in one atomic commit, once.

    A retry or a cleared task is recognised by its run key, a new run over the same input by the position that the table
    keeps of the source; a corrected file under the same name is applied.

    Every argument but ``delete_when``, ``allow_sql`` and ``max_attempts`` is templated, with the texts in its object.
    Where an argument takes an object it takes a mapping of its fields too, so that XCom and forms can give it.

    :param table: ``namespace.table`` to write.
    :param source: a path or glob of files, or ``Files``, ``LakeTable``, ``Query``, ``Debezium`` of
        ``airflow_lake_provider``; a mapping says which by ``type``.
    :param keys: key columns; they become the identifier fields of a created table.
    :param order_by: columns that order the changes of a key, the last wins; files break ties by arrival.
    :param delete_when: SQL predicate over a row of the batch: where true, its key is deleted.
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
    :param audits: name -> SQL query of the rows that must not be, over the views ``audited``, the table as it is to be,
        and ``batch``, its rows to insert or update; or ``Audits``. The batch waits on a branch until they find none.
    :param allow_sql: take ``Query``, ``delete_when`` and ``audits`` that run shell commands. They are code in any case:
        never interpolate user input.
    :param max_attempts: commits tried before a conflict fails the task.
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises BadInputError: the batch cannot be applied as it is; nothing of it was.
    :raises AuditFailedError: an assertion of ``audits`` found rows; main is as it was.
    :raises RolledBackError: the table was rolled back behind its position of the source.
    :raises ForgottenRunError: the run is older than the run keys that the table remembers.
    """

    template_fields: Sequence[str] = (
        *LakeJobOperator.template_fields,
        "source",
        "keys",
        "order_by",
        "merge_engine",
        "create",
        "schema_contract",
        "branch",
        "batch_id",
        "on_repeat",
        "strategy",
        "audits",
    )
    stand_ins: ClassVar[Mapping[str, Any]] = {
        **LakeJobOperator.stand_ins,
        "source": Files("file.parquet"),
        "keys": ("key",),
        "order_by": (),
        "merge_engine": Deduplicate(),
        "create": True,
        "schema_contract": "evolve",
        "branch": None,
        "batch_id": None,
        "on_repeat": "skip",
        "strategy": "auto",
        "audits": None,
    }
    object_readers: ClassVar[Mapping[str, Reader]] = {
        "source": source,
        "merge_engine": merge_engine,
        "create": table_layout,
        "schema_contract": schema_contract,
        "audits": audits,
    }

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
        audits: Audits | Mapping[str, Any] | XComArg | None = None,
        allow_sql: bool = False,
        max_attempts: int = 5,
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.source = source
        self.keys = keys
        self.order_by = order_by
        self.delete_when = optional_text(delete_when, "delete_when")
        self.merge_engine = merge_engine
        self.create = create
        self.schema_contract = schema_contract
        self.branch = branch
        self.batch_id = batch_id
        self.on_repeat = on_repeat
        self.strategy = strategy
        self.audits = audits
        self.allow_sql = flag(allow_sql, "allow_sql")
        self.max_attempts = number(max_attempts, "max_attempts")
        self.refuse_wrong_arguments()

    def make_spec(self, frame: SpecFrame, context: Context | None) -> UpsertSpec:
        """Translate the arguments."""
        optional(text)(self.batch_id, "batch_id")
        return UpsertSpec(
            **frame,
            source=self._named_source(context),
            keys=names(self.keys, "keys"),
            order_by=names(self.order_by, "order_by"),
            delete_when=self.delete_when,
            create=table_layout(self.create),
            schema_contract=schema_contract(self.schema_contract),
            branch=optional(text)(self.branch, "branch"),
            on_repeat=choice(OnRepeat, self.on_repeat, "on_repeat"),
            merge_engine=merge_engine(self.merge_engine),
            strategy=upsert_strategy(self.strategy),
            audits=audits(self.audits),
            allow_sql=self.allow_sql,
            max_attempts=self.max_attempts,
        )

    def run_of(self, context: Context) -> RunIdentity:
        """Return the identity of the run, or of the author's batch."""
        # Two tasks may give one batch id to what they read for the same table.
        batch_id = optional(text)(self.batch_id, "batch_id")
        batch = ("batch", batch_id, self._named_source(context).checked().name or "") if batch_id else ()
        on_repeat = choice(OnRepeat, self.on_repeat, "on_repeat")
        return self.run_identity(context, batch, cleared_is_new=on_repeat is OnRepeat.APPLY)

    def refuse_from_metadata(self, spec: UpsertSpec) -> None:
        """Refuse a source table that is missing, and a target that cannot take the batch."""
        name = spec.source.lake_table
        source = None if name is None else self.load_source(name, "the source table")
        as_it_is = isinstance(spec.source, LakeTable)
        refuse_upsert(spec, self.find_table(spec.table), source if as_it_is else None)

    def _named_source(self, context: Context | None) -> Source:
        found = source(self.source)
        if found.name:
            return found
        return replace(found, name="parsed" if context is None else self._default_name(context))

    def _default_name(self, context: Context) -> str:
        instance = context["ti"]
        if instance.map_index is not None and instance.map_index >= 0:
            raise InvalidSpecError(
                f"{self.table}: task {instance.task_id} is mapped, so its sources cannot share the name of the task; "
                "give each source a name, for example Files(..., name='orders_{{ ti.map_index }}')"
            )
        return default_source_name(instance.dag_id, instance.task_id)

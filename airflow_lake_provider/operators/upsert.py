"""LakeUpsertOperator: a batch of rows or change events into a lake table, by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.assets.durations import days, duration
from airflow_lake_provider.contracts.audits import Audits
from airflow_lake_provider.contracts.batch_source import OnSourceChange, Source, format_of_path
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.event_marks import EventOrdering
from airflow_lake_provider.contracts.merge_engine import Deletes, MergeEngine, MergeRules
from airflow_lake_provider.contracts.row_position import THIRTY_DAYS
from airflow_lake_provider.contracts.source_name import default_source_name
from airflow_lake_provider.contracts.table_layout import MissingColumns, SchemaEvolution
from airflow_lake_provider.contracts.upsert_spec import OnRepeat, UpsertSpec
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.operators.arguments import (
    choice,
    file_format,
    flag,
    groups,
    names,
    number,
    optional_text,
    options,
    queries,
    table_layout,
    text,
    texts,
)
from airflow_lake_provider.operators.lake_job import LakeJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeUpsertOperator(LakeJobOperator):
    """Apply the last change of every key of a batch, in one atomic commit, once.

    A retry or a cleared task is recognised by its run key, a new run over the same input by the position that the table
    keeps of the source; a corrected file under the same name is applied.

    :param table: ``namespace.table`` to write (templated).
    :param source: path or glob of files (templated); or ``source_table``.
    :param source_table: ``namespace.table`` to read at its head (templated).
    :param source_query: SQL over the view ``source``, the files or the table (templated).
    :param source_format: ``parquet | orc | json | csv | avro``; default by the path's ending. JSON means JSON lines.
    :param source_options: options of Spark's reader (templated); texts, numbers and booleans.
    :param source_schema: DDL of the columns, ``"id BIGINT, total DECIMAL(12,2)"`` (templated).
    :param source_name: identity of the source, at most 64 letters, digits, ``_``, ``-`` and ``.``, longer ones become a
        prefix and a digest (templated): the table keeps under it what it has consumed, wherever ``source`` points.
        Default ``<dag id>.<task id>``, with a digest where an id has a dot; mapped tasks have to give it.
    :param on_source_change: ``"continue"``, ``"replay"`` or ``"fail"`` (templated) when format, options, schema, query
        or envelope of the source are not those of its last commit: read new files with the change, apply all files
        again once, or refuse the run.
    :param max_file_age: timedelta or ISO-8601 text (templated): how long a consumed file is remembered that is not in
        the source any more; with ``merge_engine="aggregation"`` for ever.
    :param envelope: ``"debezium"`` when each line is a change event, with or without its schema.
    :param envelope_table: source table, ``orders`` or ``public.orders``, whose events are taken (templated).
    :param ordering: what is known of the order of an envelope's events, so that none is applied over a newer one:
        ``"partition"``, each partition of the topic is in order; ``"stream"``, all events of the table are;
        ``"key"``, nothing is, so each row keeps its position. Default: ``"partition"`` where every event tells its
        partition and offset, else events older than what was applied are refused.
    :param tombstone_retention: how long ``ordering="key"`` remembers deleted keys; timedelta or ISO-8601 text.
    :param keys: key columns; they become the identifier fields of a created table.
    :param order_by: columns that order the changes of a key, the last wins; files break ties by arrival.
    :param delete_when: SQL predicate over a row of the batch: where true, its key is deleted.
    :param exclude_columns: columns of the batch that are not stored.
    :param create: layout of a missing table as a mapping of :class:`.TableLayout` fields (``partition_by``,
        ``sort_by``, ``file_format``, ``target_file_bytes``, ``bloom_filter_columns``, ``properties``); sizes take
        ``"128MB"`` too, properties numbers and booleans. False refuses a missing table.
    :param schema_evolution: ``"evolve"`` or ``"freeze"``.
    :param missing_columns: what a column that the batch lacks becomes in its rows: ``"fail"``, ``"null"``, ``"keep"``;
        default ``"fail"``; for an envelope ``"null"``, because its events carry whole rows; ``"keep"`` for
        ``"partial-update"`` and ``"aggregation"``.
    :param branch: write to this branch instead of main (templated).
    :param batch_id: with the source, the identity of the batch in place of dag, run, task and map index (templated).
    :param on_repeat: ``"skip"``, ``"apply"`` or ``"fail"`` when the table says that the batch was applied (templated).
        With ``"apply"`` a cleared task or a new run applies it once more, and Airflow's own retries of that do not.
    :param strategy: ``"auto"``, ``"positions"``, ``"copy-on-write"``, ``"merge"`` or ``"equality"`` (templated): how
        the rows to replace are reached. The last leaves equality deletes, a debt that readers pay until a compaction,
        and some cannot read.
    :param merge_engine: what becomes of the rows of a key: ``"deduplicate"``, ``"first-row"``, ``"partial-update"``,
        ``"aggregation"``.
    :param sequence_groups: with ``"partial-update"``: order column -> columns that change only together with it.
    :param aggregates: with ``"aggregation"``: column -> function, see :class:`.MergeRules`.
    :param ignore_stale: a row older by ``order_by`` than the table's row of its key changes nothing.
    :param deletes: ``"hard"``, ``"soft"`` (sets ``deleted_column``) or ``"ignore"``.
    :param deleted_column: boolean column of the table for soft deletes.
    :param audits: name -> SQL query of the rows that must not be (templated), over the views ``audited``, the table as
        it is to be, and ``batch``, its rows to insert or update. The batch waits on a branch until they find none.
    :param audits_local: whether they all read nothing but ``batch``; then another writer's commit does not repeat them.
    :param allow_sql: take ``source_query``, ``delete_when`` and ``audits`` that run shell commands. They are code in
        any case: never interpolate user input.
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
        "source_table",
        "source_query",
        "source_options",
        "source_schema",
        "source_name",
        "on_source_change",
        "max_file_age",
        "envelope_table",
        "branch",
        "batch_id",
        "on_repeat",
        "strategy",
        "audits",
    )

    def __init__(
        self,
        *,
        keys: Sequence[str],
        source: str | None = None,
        source_table: str | None = None,
        source_query: str | None = None,
        source_format: str | None = None,
        source_options: Mapping[str, Any] | None = None,
        source_schema: str | None = None,
        source_name: str | None = None,
        on_source_change: str = "continue",
        max_file_age: timedelta | str = "P365D",
        envelope: str | None = None,
        envelope_table: str | None = None,
        ordering: str | None = None,
        tombstone_retention: timedelta | str = timedelta(seconds=THIRTY_DAYS),
        order_by: Sequence[str] = (),
        delete_when: str | None = None,
        exclude_columns: Sequence[str] = (),
        create: Mapping[str, Any] | bool = True,
        schema_evolution: str = "evolve",
        missing_columns: str | None = None,
        branch: str | None = None,
        batch_id: str | None = None,
        on_repeat: str = "skip",
        strategy: str = "auto",
        merge_engine: str = "deduplicate",
        sequence_groups: Mapping[str, Sequence[str]] | None = None,
        aggregates: Mapping[str, str] | None = None,
        ignore_stale: bool = False,
        deletes: str = "hard",
        deleted_column: str = "is_deleted",
        audits: Mapping[str, str] | None = None,
        audits_local: bool = False,
        allow_sql: bool = False,
        max_attempts: int = 5,
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.keys = names(keys, "keys")
        self.source = source
        self.source_table = source_table
        self.source_query = source_query
        self.source_format = file_format(source_format, "source_format")
        self.source_options = source_options
        self.source_schema = source_schema
        self.source_name = source_name
        self.on_source_change = on_source_change
        self.max_file_age = max_file_age
        self.envelope = optional_text(envelope, "envelope")
        self.envelope_table = envelope_table
        self.ordering = None if ordering is None else choice(EventOrdering, ordering, "ordering")
        self.tombstone_retention = duration(tombstone_retention, "tombstone_retention")
        self.order_by = names(order_by, "order_by")
        self.delete_when = optional_text(delete_when, "delete_when")
        self.exclude_columns = names(exclude_columns, "exclude_columns")
        self.create = table_layout(create)
        self.schema_evolution = choice(SchemaEvolution, schema_evolution, "schema_evolution")
        self.missing_columns = (
            None if missing_columns is None else choice(MissingColumns, missing_columns, "missing_columns")
        )
        self.branch = branch
        self.batch_id = batch_id
        self.on_repeat = on_repeat
        self.strategy = strategy
        self.merge_engine = choice(MergeEngine, merge_engine, "merge_engine")
        self.sequence_groups = groups(sequence_groups, "sequence_groups")
        self.aggregates = texts(aggregates or {}, "aggregates", "a column to its function")
        self.ignore_stale = flag(ignore_stale, "ignore_stale")
        self.deletes = choice(Deletes, deletes, "deletes")
        self.deleted_column = text(deleted_column, "deleted_column")
        self.audits = audits
        self.audits_local = flag(audits_local, "audits_local")
        self.allow_sql = flag(allow_sql, "allow_sql")
        self.max_attempts = number(max_attempts, "max_attempts")

    def build_spec(self, context: Context) -> UpsertSpec:
        """Translate the arguments."""
        merge_rules = self._merge_rules()
        on_repeat = choice(OnRepeat, self.on_repeat, "on_repeat")
        source = self._source(context)
        # Two tasks may give one batch id to what they read for the same table.
        batch_id = optional_text(self.batch_id, "batch_id", templated=True)
        batch = ("batch", batch_id, source.name or "") if batch_id else ()
        return UpsertSpec(
            catalog=self.lake.connection.catalog_name,
            table_format=self.lake.connection.table_format,
            table=self.table,
            run=self.run_identity(context, batch, cleared_is_new=on_repeat is OnRepeat.APPLY),
            source=source,
            keys=self.keys,
            order_by=self.order_by,
            delete_when=self.delete_when,
            exclude_columns=self.exclude_columns,
            create=self.create,
            schema_evolution=self.schema_evolution,
            missing_columns=self._missing(merge_rules),
            branch=optional_text(self.branch, "branch", templated=True),
            on_repeat=on_repeat,
            merge_rules=merge_rules,
            strategy=choice(UpsertStrategy, self.strategy, "strategy"),
            audits=self._audits(),
            allow_sql=self.allow_sql,
            max_attempts=self.max_attempts,
        )

    def _missing(self, merge_rules: MergeRules) -> MissingColumns:
        if self.missing_columns is not None:
            return self.missing_columns
        # Absent and NULL columns are one to these two.
        keeps = merge_rules.engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
        return MissingColumns.NULL if self.envelope else MissingColumns.KEEP if keeps else MissingColumns.FAIL

    def _audits(self) -> Audits | None:
        found = queries(self.audits or {}, "audits")
        return Audits(queries=found, local=self.audits_local) if found else None

    def _merge_rules(self) -> MergeRules:
        return MergeRules(
            engine=self.merge_engine,
            sequence_groups=self.sequence_groups,
            aggregates=self.aggregates,
            ignore_stale=self.ignore_stale,
            deletes=self.deletes,
            deleted_column=self.deleted_column,
        )

    def _source(self, context: Context) -> Source:
        path = optional_text(self.source, "source", templated=True)
        path_format = "json" if self.envelope else format_of_path(path or "")
        return Source(
            path=path,
            format=(self.source_format or path_format) if path else None,
            options=options(self.source_options, "source_options", templated=True),
            schema=optional_text(self.source_schema, "source_schema", templated=True),
            table=optional_text(self.source_table, "source_table", templated=True),
            query=optional_text(self.source_query, "source_query", templated=True),
            envelope=self.envelope,
            envelope_table=optional_text(self.envelope_table, "envelope_table", templated=True),
            ordering=self.ordering,
            tombstone_retention=int(self.tombstone_retention.total_seconds()),
            name=optional_text(self.source_name, "source_name", templated=True) or self._default_name(context),
            on_source_change=choice(OnSourceChange, self.on_source_change, "on_source_change"),
            max_file_age_days=days(self.max_file_age, "max_file_age"),
        )

    def _default_name(self, context: Context) -> str:
        instance = context["ti"]
        if instance.map_index is not None and instance.map_index >= 0:
            raise InvalidSpecError(
                f"{self.table}: task {instance.task_id} is mapped, so its sources cannot share the name of the task; "
                "give source_name, for example source_name='orders_{{ ti.map_index }}', or one name per source with "
                "expand_kwargs"
            )
        return default_source_name(instance.dag_id, instance.task_id)

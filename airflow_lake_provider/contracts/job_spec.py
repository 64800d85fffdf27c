"""What a worker asks of a driver: one frozen dataclass per action, refused here when it makes no sense."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import ClassVar

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.json_codec import from_plain, to_json, to_plain
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.contracts.table_properties import TRANSFORM_PREFIX

_CONSUMER = re.compile(r"[A-Za-z0-9_-]{1,27}")


class OnRepeat(str, Enum):
    """What to do with a batch that the table says it has applied."""

    SKIP = "skip"
    APPLY = "apply"
    FAIL = "fail"


class SchemaEvolution(str, Enum):
    """What a batch may change in the table's schema."""

    NONE = "none"
    ADD_AND_WIDEN = "add-and-widen"


class MissingColumns(str, Enum):
    """What a column of the table that the batch lacks becomes in the rows of the batch."""

    FAIL = "fail"
    NULL = "null"
    KEEP = "keep"


class CompactionLevel(str, Enum):
    """How much a compaction rewrites."""

    AUTO = "auto"
    MINOR = "minor"
    MAJOR = "major"
    FULL = "full"


class CompactionStrategy(str, Enum):
    """How rewritten files are ordered."""

    BINPACK = "binpack"
    SORT = "sort"
    ZORDER = "zorder"


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """What all actions share.

    :param catalog: name of the Spark catalog, which is the connection id or its ``catalog_name``.
    :param table: ``namespace.table`` that the action commits to.
    :param table_format: which module of ``spark_jobs/formats`` serves it.
    :param run: who asks.
    """

    action: ClassVar[str] = ""
    catalog: str
    table: str
    run: RunIdentity
    table_format: str = "iceberg"

    def __post_init__(self) -> None:
        TableName.parse(self.table)

    @property
    def name(self) -> TableName:
        """The parsed table name."""
        return TableName.parse(self.table)

    def digest_text(self) -> str:
        """Return what is applied as canonical JSON: without who asks, how often to try and what to do on a repeat."""
        aside = {"run", "on_repeat", "max_attempts"}
        return to_json({"action": self.action, **{k: v for k, v in to_plain(self).items() if k not in aside}})


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a batch comes from: files, a lake table, or a query over either, in which it is the view ``source``.

    :param path: path or glob of files; None for a table.
    :param format: ``parquet | orc | json | csv | avro``; for an envelope always ``json``.
    :param options: options of Spark's reader, for example ``{"header": "true"}``.
    :param schema: DDL of the columns (``id BIGINT, total DECIMAL(12,2)``); None to take the files' or the table's.
    :param table: ``namespace.table`` to read instead of files.
    :param query: SQL over the view ``source``.
    :param envelope: ``debezium`` when each line is a change event; None for plain rows.
    :param envelope_table: the event's ``source.table``, or ``schema.table``, whose events are taken.
    """

    path: str | None = None
    format: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    schema: str | None = None
    table: str | None = None
    query: str | None = None
    envelope: str | None = None
    envelope_table: str | None = None

    FORMATS: ClassVar[tuple[str, ...]] = ("parquet", "orc", "json", "csv", "avro")

    def __post_init__(self) -> None:
        if (self.path is None) == (self.table is None):
            raise InvalidSpecError(f"give either files or a table as the source, got {self.path!r} and {self.table!r}")
        if self.table is not None:
            TableName.parse(self.table)
        if self.path is not None and self.format not in self.FORMATS:
            raise InvalidSpecError(
                f"source format {self.format!r} is not one of {', '.join(self.FORMATS)}; give source_format, the path "
                f"{self.path!r} does not tell it"
            )
        if self.envelope not in (None, "debezium"):
            raise InvalidSpecError(f"envelope {self.envelope!r} is not known; the known one is 'debezium'")
        if self.envelope and (self.table or self.query or self.format != "json" or not self.envelope_table):
            raise InvalidSpecError(
                "a debezium envelope is read from JSON files and needs envelope_table, the source table whose events "
                "are taken; it takes no query"
            )


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """How a missing table is created; an existing table keeps its own layout.

    :param partition_by: Spark partition transforms, for example ``("days(placed_at)", "bucket(16, id)")``.
    :param sort_by: Spark sort order, for example ``("placed_at DESC", "id")``.
    :param file_format: ``parquet | orc | avro``.
    :param target_file_bytes: ``write.target-file-size-bytes``; None keeps Iceberg's default of 512 MiB.
    :param bloom_filter_columns: columns that get a Parquet bloom filter.
    :param properties: further table properties.
    """

    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    file_format: str = "parquet"
    target_file_bytes: int | None = None
    bloom_filter_columns: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file_format not in ("parquet", "orc", "avro"):
            raise InvalidSpecError(f"file format {self.file_format!r} is not one of parquet, orc, avro")
        if self.bloom_filter_columns and self.file_format != "parquet":
            raise InvalidSpecError(f"bloom filters are written to parquet files only, not {self.file_format}")
        ours = sorted(name for name in self.properties if name.startswith("lake."))
        if ours:
            raise InvalidSpecError(f"table properties {ours} belong to this package and cannot be set by hand")


@dataclass(frozen=True, kw_only=True)
class UpsertSpec(JobSpec):
    """Apply the last change of every key of a batch.

    :param source: where the batch comes from.
    :param keys: key columns.
    :param order_by: columns that order the changes of a key, most significant first; files break ties by arrival.
    :param delete_when: SQL predicate over a row of the batch; where true the key is deleted.
    :param exclude_columns: columns of the batch that are not stored, such as an operation flag.
    :param create: layout of a table that does not exist; None refuses a missing table.
    :param schema_evolution: what the batch may change in the schema.
    :param missing_columns: what happens to columns of the table that the batch lacks.
    :param branch: write to this branch instead of main; positions and run keys then stay in the summary.
    :param on_repeat: what to do with a batch that was applied.
    :param max_attempts: commits tried before a conflict is reported.
    """

    action: ClassVar[str] = "upsert"
    source: Source
    keys: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    delete_when: str | None = None
    exclude_columns: tuple[str, ...] = ()
    create: TableLayout | None = field(default_factory=TableLayout)
    schema_evolution: SchemaEvolution = SchemaEvolution.ADD_AND_WIDEN
    missing_columns: MissingColumns = MissingColumns.FAIL
    branch: str | None = None
    on_repeat: OnRepeat = OnRepeat.SKIP
    max_attempts: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.keys or len(set(self.keys)) != len(self.keys):
            raise InvalidSpecError(f"{self.table}: keys must be one or more different columns, got {list(self.keys)}")
        lost = sorted(set(self.keys) & set(self.exclude_columns))
        if lost:
            raise InvalidSpecError(f"{self.table}: key columns {lost} cannot be excluded")
        if self.source.envelope and (self.order_by or self.delete_when):
            raise InvalidSpecError(
                f"{self.table}: a debezium envelope brings its own order and deletes; leave out order_by, delete_when"
            )
        if self.branch is not None and (self.branch == "main" or self.branch.startswith("lake_")):
            raise InvalidSpecError(f"{self.table}: branch {self.branch!r} is reserved; leave it out to write to main")
        if self.max_attempts < 1:
            raise InvalidSpecError(f"{self.table}: max_attempts must be at least 1, got {self.max_attempts}")


@dataclass(frozen=True, kw_only=True)
class CompactionSpec(JobSpec):
    """Rewrite data files, and the deletes on them, into fewer and cleaner files.

    :param level: ``minor`` merges small files and files with many deletes, ``major`` every file with deletes too,
        ``full`` everything, ``auto`` what the metadata says is due.
    :param strategy: order of the rewritten rows.
    :param sort_by: sort order for ``sort`` (empty takes the table's), columns for ``zorder``.
    :param where: predicate that converts to an Iceberg expression; only files that may match are rewritten.
    :param target_file_bytes: None takes the table's ``write.target-file-size-bytes``.
    :param partial_progress: commit groups as they finish.
    :param max_commits: with partial progress.
    :param delete_file_threshold: rewrite a file with at least this many delete files; 0 turns it off.
    :param delete_ratio_threshold: rewrite a file when this share of its rows is deleted.
    :param min_input_files: fewest files of a group worth rewriting for their size.
    :param rewrite_manifests: also merge manifests.
    :param max_attempts: tries when a writer gets in between.
    """

    action: ClassVar[str] = "compaction"
    level: CompactionLevel = CompactionLevel.AUTO
    strategy: CompactionStrategy = CompactionStrategy.BINPACK
    sort_by: tuple[str, ...] = ()
    where: str | None = None
    target_file_bytes: int | None = None
    partial_progress: bool = True
    max_commits: int = 10
    delete_file_threshold: int = 1
    delete_ratio_threshold: float = 0.1
    min_input_files: int = 5
    rewrite_manifests: bool = True
    max_attempts: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy is CompactionStrategy.ZORDER and not self.sort_by:
            raise InvalidSpecError(f"{self.table}: strategy 'zorder' needs the columns in sort_by")
        if self.strategy is CompactionStrategy.BINPACK and self.sort_by:
            raise InvalidSpecError(f"{self.table}: sort_by needs strategy 'sort' or 'zorder', not 'binpack'")
        if not 0 < self.delete_ratio_threshold <= 1:
            raise InvalidSpecError(
                f"{self.table}: delete_ratio_threshold is a share in (0, 1], not {self.delete_ratio_threshold}"
            )
        counts = {"max_commits": 1, "min_input_files": 1, "max_attempts": 1, "delete_file_threshold": 0}
        for name, least in counts.items():
            if getattr(self, name) < least:
                raise InvalidSpecError(f"{self.table}: {name} must be at least {least}, got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class ExpirySpec(JobSpec):
    """Forget snapshots and delete the files that only they reach.

    :param older_than: snapshots committed before this moment may go; fixed in the worker, so a queue cannot move it.
    :param keep_last: newest ancestors of each branch that stay in any case.
    :param stage_branches_older_than: left-over stage branches whose head was committed before this moment go too.
    """

    action: ClassVar[str] = "snapshot-expiry"
    older_than: datetime
    stage_branches_older_than: datetime
    keep_last: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep_last < 1:
            raise InvalidSpecError(f"{self.table}: keep_last must be at least 1, got {self.keep_last}")
        for moment in (self.older_than, self.stage_branches_older_than):
            if moment.tzinfo is None:
                raise InvalidSpecError(f"{self.table}: {moment!r} must carry a time zone")


@dataclass(frozen=True, kw_only=True)
class IncrementalSpec(JobSpec):
    """Apply what changed in a source table to a target table (``table``).

    :param source: ``namespace.table`` that is read.
    :param consumer: name of the cursor; letters, digits, ``_`` and ``-``, at most 27.
    :param keys: key columns of the target.
    :param transform: ``module:function`` taking the changes, or None with ``query``.
    :param transform_code: text of that module, when it is to be shipped; None when the cluster has it.
    :param query: SQL over the views ``changes`` and ``source``.
    :param source_keys: keys of the source; empty takes its identifier fields.
    :param from_snapshot: start after this snapshot instead of the consumer's position.
    :param to_snapshot: head of the source that the worker saw; the range ends there.
    :param full_refresh: rebuild the target from the whole source.
    :param on_gap: ``fail`` or ``full`` when the start of the range is gone.
    :param on_transform_change: ``fail``, ``full`` or ``continue`` when another transform filled the target.
    :param protect_source: tag the source so that expiry keeps what this consumer still needs.
    """

    action: ClassVar[str] = "incremental"
    source: str
    consumer: str
    keys: tuple[str, ...]
    to_snapshot: str
    transform: str | None = None
    transform_code: str | None = None
    query: str | None = None
    source_keys: tuple[str, ...] = ()
    from_snapshot: str | None = None
    full_refresh: bool = False
    on_gap: str = "fail"
    on_transform_change: str = "fail"
    protect_source: bool = True
    create: TableLayout | None = field(default_factory=TableLayout)
    schema_evolution: SchemaEvolution = SchemaEvolution.ADD_AND_WIDEN
    max_attempts: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        TableName.parse(self.source)
        if self.source == self.table:
            raise InvalidSpecError(f"{self.table}: source and target are the same table")
        if not _CONSUMER.fullmatch(self.consumer):
            raise InvalidSpecError(
                f"consumer {self.consumer!r} must have 1 to 27 letters, digits, '_' or '-': it becomes part of a tag"
            )
        if not self.keys:
            raise InvalidSpecError(f"{self.table}: keys of the target are needed")
        if (self.transform is None) == (self.query is None):
            raise InvalidSpecError(f"{self.table}: give either transform='module:function' or query, not both or none")
        if self.transform is not None and not re.fullmatch(r"[\w.]+:\w+", self.transform):
            raise InvalidSpecError(f"{self.table}: transform {self.transform!r} is not of the form module:function")
        for name, known in {"on_gap": ("fail", "full"), "on_transform_change": ("fail", "full", "continue")}.items():
            if getattr(self, name) not in known:
                raise InvalidSpecError(f"{self.table}: {name} must be one of {known}, got {getattr(self, name)!r}")

    @property
    def transform_digest(self) -> str:
        """32 hexadecimal digits that change when the query or the shipped code changes.

        A function whose code is not shipped counts by its name only: what the cluster has cannot be seen from here.
        """
        text = "\x1f".join((self.query or "", self.transform or "", self.transform_code or ""))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def replaces_transform(self, properties: Mapping[str, str]) -> bool:
        """Whether another transform filled the target, and ``on_transform_change`` does not go on over it.

        :param properties: of the target.
        """
        filled_by = properties.get(TRANSFORM_PREFIX + self.consumer)
        return filled_by not in (None, self.transform_digest) and self.on_transform_change != "continue"


SPECS: dict[str, type[JobSpec]] = {
    spec.action: spec for spec in (UpsertSpec, CompactionSpec, ExpirySpec, IncrementalSpec)
}


def spec_to_json(spec: JobSpec) -> str:
    """Write a spec with its action, for the driver."""
    return to_json({"action": spec.action, "spec": to_plain(spec)})


def spec_from_plain(plain: dict[str, object]) -> JobSpec:
    """Read what :func:`spec_to_json` wrote.

    :raises InvalidSpecError: for an action or a field that this version does not know.
    """
    action = str(plain.get("action"))
    if action not in SPECS:
        raise InvalidSpecError(f"action {action!r} is not known; known are {', '.join(SPECS)}")
    spec: JobSpec = from_plain(SPECS[action], plain["spec"])
    return spec

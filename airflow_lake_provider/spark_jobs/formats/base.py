"""The seam between actions and table formats: what an action may ask of a table, whatever its format.

An action reads a :class:`AppliedState`, decides, and hands a :class:`KeyedCommit` to :meth:`KeyedTable.apply`. How rows
are merged (``MERGE INTO`` on a stage branch, resolved positions, a Paimon write) is the format's own affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.audits import Audits
from airflow_lake_provider.contracts.compaction_spec import CompactionSpec
from airflow_lake_provider.contracts.job_report import CompactionReport, ExpiryReport, TableState
from airflow_lake_provider.contracts.merge_engines import Deduplicate, MergeEngine
from airflow_lake_provider.contracts.metadata_change import MetadataChange
from airflow_lake_provider.contracts.open_key_changes import OpenKeyChanges
from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.schema_contract import MissingColumns, SchemaContract
from airflow_lake_provider.contracts.snapshot_expiry_spec import SnapshotExpirySpec
from airflow_lake_provider.contracts.source_position import SourcePosition
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.contracts.table_layout import TableLayout
from airflow_lake_provider.contracts.table_properties import RUN_KEY
from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.batch.key_ranges import KeyRanges
from airflow_lake_provider.spark_jobs.progress import Progress


@dataclass(frozen=True, kw_only=True)
class KeyHistory:
    """Memory of a table about keys, for the change events to come; this one is empty, a format brings its own.

    :param open_changes: key changes of which only the delete was applied; none for a branch other than main.
    :param epoch: of the source's positions in rows, see ``contracts.position_column``.
    """

    open_changes: OpenKeyChanges = field(default_factory=OpenKeyChanges)
    epoch: int = 1

    def rows_then(self, snapshot: str) -> DataFrame | None:  # noqa: ARG002  # others ask it
        """Live rows at a snapshot of any age, in columns named as they are now; None where it has expired."""
        return None

    def deleted_keys(self) -> DataFrame | None:
        """Keys that were deleted, read now; None where none was."""
        return None

    def keep_deleted_keys(self, rows: DataFrame, retention: timedelta) -> None:
        """Add deleted keys of a table that exists, and forget those that are older.

        :param rows: the key columns, ``_deleted_position``, ``_moved_to``, ``_values_position``.
        """

    def keep_rows(self, commit: KeyedCommit, progress: Progress) -> str:
        """Apply a commit to a snapshot that no branch leads to, and return its id; an expiry removes it by its age."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class AppliedState:
    """State that a table says it has applied, all read from one version of its metadata.

    :param base: head of the branch, as text; None for a table without snapshots.
    :param run_keys: recent run keys of main; for another branch those in the summaries of its snapshots.
    :param position: of one source; the empty position for a branch other than main.
    :param newest: generation that the newest snapshot of main says which names the source.
    :param keys: of the source.
    :param is_replaced: the table was replaced since the source's last commit; it counts as never applied.
    :param commits: snapshots of the branch, newest first, as far back as they are known.
    """

    base: str | None = None
    run_keys: RecentRunKeys = field(default_factory=RecentRunKeys)
    position: SourcePosition = field(default_factory=SourcePosition)
    newest: int | None = None
    keys: KeyHistory = field(default_factory=KeyHistory)
    is_replaced: bool = False
    commits: tuple[Snapshot, ...] = ()

    def commit_of(self, run_key: str) -> Snapshot | None:
        """Return the commit of a run; None where its snapshot has expired."""
        return next((commit for commit in self.commits if commit.summary.get(RUN_KEY) == run_key), None)


@dataclass(frozen=True, kw_only=True)
class DataCommit:
    """Fields of every commit that changes rows, whichever rows.

    :param base: head that the decision was taken on; the commit is refused when the branch has moved.
    :param positions: that move with the rows, by the names of their sources.
    :param branch: None for main, which also sets positions, run keys and ``properties``.
    :param properties: table properties to set in the same commit.
    :param summary: entries of the snapshot's summary beside those that identify it.
    """

    action: str
    run_key: str
    base: str | None
    positions: Mapping[str, SourcePosition] = field(default_factory=dict)
    branch: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    summary: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KeyedCommit(DataCommit):
    """One atomic commit of one change per key.

    :param rows: columns of the table and the ``MARKERS`` of a batch; one row per key, no NULL in a key.
    :param order_by: columns that tell which of two rows of a key is older, for ``merge_engine`` that ask.
    :param key_ranges: of ``rows``, where they are known already.
    :param candidates: data files that may hold one of the keys, as the format has planned them; None where it has not.
    :param upserts: rows that do not delete, where their number is known already.
    :param missing_columns: what columns of the table become that ``rows`` lacks.
    :param partial_structs: type of each struct that lacks fields of the table's, as the batch has it, by its column in
        lower case.
    :param schema_id: of the table's schema that ``rows`` were made to fit; None where nobody asked.
    :param reads_table: whether ``rows`` were made of what the table held at ``base``.
    :param audits: what has to hold on a branch before main gets the rows.
    """

    rows: DataFrame
    keys: tuple[str, ...]
    key_ranges: KeyRanges | None = None
    candidates: Any = field(default=None, compare=False)
    upserts: int | None = None
    missing_columns: MissingColumns = MissingColumns.NULL
    partial_structs: Mapping[str, StructType] = field(default_factory=dict)
    schema_id: int | None = None
    order_by: tuple[str, ...] = ()
    merge_engine: MergeEngine = field(default_factory=Deduplicate)
    reads_table: bool = False
    strategy: UpsertStrategy = UpsertStrategy.AUTO
    audits: Audits | None = None


@dataclass(frozen=True, kw_only=True)
class RowMatch:
    """Rows to match: those where a predicate is true, or those whose key is among some.

    :param where: SQL predicate; None when keys are given.
    :param keys: the key columns and nothing else, no NULL in them.
    :param allow_sql: whether ``where`` may be more than the format's own predicates can say.
    :param is_secret: the text of ``where`` and the keys may appear in no message.
    """

    where: str | None = None
    keys: DataFrame | None = None
    allow_sql: bool = False
    is_secret: bool = False


@dataclass(frozen=True, kw_only=True)
class MatchedCommit(DataCommit):
    """One atomic change of the rows that match at ``base``.

    :param assignments: column to SQL expression over the old row; None deletes the rows.
    """

    match: RowMatch
    assignments: Mapping[str, str] | None = None


class HolderKind(Enum):
    """Kinds of what keeps a snapshot from expiring."""

    BRANCH = "branch"
    TAG = "tag"
    CONSUMER_TAG = "consumer tag"
    HISTORY = "history"


@dataclass(frozen=True)
class SnapshotHolder:
    """A branch, a tag, or the history of a table, and the snapshots that it keeps.

    :param name: of the branch or tag; empty for the history.
    :param snapshots: ids.
    """

    kind: HolderKind
    name: str
    snapshots: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}".rstrip()

    @property
    def is_main(self) -> bool:
        """Tell whether it is the table's own branch."""
        return (self.kind, self.name) == (HolderKind.BRANCH, "main")


@dataclass(frozen=True, kw_only=True)
class RetainedRows:
    """Snapshots that still have the rows that match, whether deleted or not.

    :param holders: of the snapshots that reach a file with such rows.
    :param live: whether rows of main match that no delete hides.
    :param bounds_in: snapshots whose manifests list column bounds of files that had, or may have had, such rows.
    :param equality_holders: of the snapshots that reach equality deletes, which hold keys as values.
    """

    holders: tuple[SnapshotHolder, ...] = ()
    live: bool = False
    bounds_in: tuple[str, ...] = ()
    equality_holders: tuple[SnapshotHolder, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AppliedCommit:
    """Result of a commit.

    :param counted: whether rows inserted, updated and deleted were told apart; where not, their counts mean nothing.
    :param equality_delete_files: of the table after it; None where nobody counted.
    :param held: whose settings hold, as the end of a sentence.
    """

    snapshot: str
    strategy: str
    strategy_reason: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    counted: bool = True
    equality_delete_files: int | None = None
    warnings: tuple[str, ...] = ()
    audits_passed: tuple[str, ...] = ()
    audit_runs: int = 0
    held: str = ""

    def row_counts(self) -> dict[str, Any]:
        """Return the counts by their names in a report; None where they mean nothing."""
        names = ("rows_inserted", "rows_updated", "rows_deleted")
        return {name: getattr(self, name) if self.counted else None for name in names}


class KeyedTable(Protocol):
    """A table that rows are applied to by key."""

    def exists(self) -> bool:
        """Tell whether the catalog has it now."""

    def is_created(self) -> bool:
        """Tell whether it exists with all that its creation sets; the next run finishes one that was cut off."""

    def state(self, branch: str | None = None) -> TableState:
        """Counts of the newest metadata."""

    def applied_state(self, source_name: str, branch: str | None = None) -> AppliedState:
        """Read the newest metadata and what it remembers of a source.

        :raises UnsupportedError: Spark cannot read the table's columns.
        """

    def other_positions(self, source_name: str) -> Mapping[str, SourcePosition]:
        """Positions of all sources but one, by their names; empty for a missing table."""

    def properties(self) -> dict[str, str]:
        """Table properties; empty for a missing table."""

    def schema(self) -> StructType | None:
        """Columns and types; None for a missing table."""

    def rows(self, base: str | None) -> DataFrame | None:
        """Live rows at a snapshot; None where there are none."""

    def create(self, columns: StructType, keys: tuple[str, ...], layout: TableLayout, strategy: UpsertStrategy) -> None:
        """Create the table unless another job has just done so.

        :param strategy: of the batches to come.
        :raises UnsupportedError: it could not change a table with this layout; nothing was made.
        """

    def fit_schema(self, columns: StructType, contract: SchemaContract, missing: MissingColumns) -> tuple[str, ...]:
        """Add and widen columns so that ``columns`` fit.

        :return: sentences on what was changed.
        :raises BadInputError: a column does not fit and evolution may not or cannot make it.
        """

    def apply(self, commit: KeyedCommit, progress: Progress) -> AppliedCommit:
        """Commit once.

        :raises AuditFailedError: rows offend an assertion of ``commit.audits``; main is as it was.
        :raises CommitConflictError: the branch moved past ``commit.base``; nothing changed.
        :raises UnknownOutcomeError: the catalog's answer was lost and the run key could not be looked up.
        """


class MatchedTable(Protocol):
    """A table whose rows are changed where they match; main only."""

    def state(self) -> TableState:
        """Counts of the newest metadata."""

    def applied_state(self) -> AppliedState:
        """Read the newest metadata: head and run keys.

        :raises MissingTableError: there is no such table.
        :raises UnsupportedError: rows of this table cannot be changed so.
        """

    def schema(self) -> StructType:
        """Columns and types."""

    def change(self, commit: MatchedCommit, progress: Progress) -> AppliedCommit | None:
        """Commit once; None when no row matches.

        :raises CommitConflictError: main moved past ``commit.base``; nothing changed.
        :raises UnknownOutcomeError: the catalog's answer was lost and the run key could not be looked up.
        :raises InvalidSpecError: the predicate cannot be taken.
        """

    def retained(self, match: RowMatch, without: str | None) -> RetainedRows:
        """Look for the rows in every file that a snapshot of the table reaches.

        :param without: a snapshot in which no row matches; None where none is known.
        """


class SourceTable(Protocol):
    """A table whose changes are read."""

    def exists(self) -> bool:
        """Tell whether the catalog has it now."""

    def identity(self) -> str:
        """Something that a table dropped and made again under the same name does not share."""

    def rows(self, snapshot: str) -> DataFrame:
        """Live rows at a snapshot."""

    def has_passed(self, position: str, snapshot: str) -> bool:
        """Tell whether ``snapshot`` is an ancestor of ``position``, and that one of the head: not rolled back."""

    def changes(self, start: str | None, end: str | None, wanted: ChangeFilter) -> DataFrame:
        """Rows that differ between two snapshots, with ``_change_type``; from the beginning when ``start`` is None.

        :param end: None for the head of main.
        :raises RangeUnavailableError: a snapshot is gone.
        """

    def pin(self, consumer: str, snapshot: str) -> None:
        """Keep a snapshot from expiry while it is read."""

    def advance(self, consumer: str, snapshot: str, *, owner: str, target: str, mode: str) -> None:
        """Note that a consumer has reached a snapshot, and keep that one from expiry."""


class MaintainedTable(Protocol):
    """A table that is kept small; none of this changes its rows."""

    def exists(self) -> bool:
        """Tell whether the catalog has it now."""

    def compact(self, spec: CompactionSpec, progress: Progress) -> CompactionReport:
        """Rewrite small files and files with deletes; a conflict with a writer is an outcome of the report."""

    def expire(self, spec: SnapshotExpirySpec, progress: Progress) -> ExpiryReport:
        """Forget old snapshots and delete the files that only they reach."""


class VersionedTable(Protocol):
    """A table with branches, tags, properties and a format version."""

    def state(self) -> TableState:
        """Counts of the newest metadata."""

    def change_metadata(self, change: MetadataChange) -> None:
        """Make a change in one commit.

        :raises CommitConflictError: the table is not any more what it was decided on; nothing changed.
        :raises UnknownOutcomeError: the catalog's answer was lost.
        """


@dataclass(frozen=True, kw_only=True)
class ChangeFilter:
    """Part of the changes that is wanted.

    :param deletes: False leaves deletes out, and needs no keys.
    :param keys: key columns; empty takes the table's identifier fields.
    :param columns: columns to return beside the keys; None for all.
    :param where: SQL predicate; the answer is then the changes of the rows that satisfy it: a row that no longer does
        is a delete.
    :param allow_sql: take a ``where`` that is more than comparisons of columns with constants.
    """

    deletes: bool = True
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    where: str | None = None
    allow_sql: bool = False

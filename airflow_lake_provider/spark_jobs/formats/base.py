"""The seam between actions and table formats: what an action may ask of a table, whatever its format.

An action reads an :class:`AppliedState`, decides, and hands a :class:`.KeyedCommit` to :meth:`FormatTable.apply`. How
rows are reached is the format's own affair: an author's words on it go unread to :meth:`TableFormat.table`. What a
format can do it declares in ``contracts/capabilities.py``.
"""

# A method that a format has not written refuses whatever it is given.
# ruff: noqa: ARG002

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.open_key_changes import OpenKeyChanges
from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.capabilities import FormatCapabilities
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.batch_plan import SchemaChange
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    ExpiryReport,
    JobReport,
    OrphanFilesReport,
    StatisticsReport,
)
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    OrphanFilesSpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
from airflow_lake_provider.contracts.table_facts import Snapshot, TableState
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.contracts.table_properties import RUN_KEY
from airflow_lake_provider.spark_jobs.batch.arrow_comparison.sides import ArrowRows, ParquetBatch
from airflow_lake_provider.spark_jobs.batch.key_ranges import KeyRanges
from airflow_lake_provider.spark_jobs.formats.changelog import net_of_changelog
from airflow_lake_provider.spark_jobs.formats.commits import (
    AppendCommit,
    AppliedCommit,
    ChangeFilter,
    KeyedCommit,
    MatchedCommit,
    OverwriteCommit,
    RetainedRows,
    RowMatch,
)
from airflow_lake_provider.spark_jobs.progress import Progress


@dataclass(frozen=True, kw_only=True)
class KeyHistory:
    """Memory of a table about keys, for the change events to come; this one is empty, a format brings its own.

    :param open_changes: key changes of which only the delete was applied; none for a branch other than main.
    :param epoch: of the source's positions in rows, see ``contracts.applied.position_column``.
    """

    open_changes: OpenKeyChanges = field(default_factory=OpenKeyChanges)
    epoch: int = 1

    def rows_then(self, snapshot: str) -> DataFrame | None:
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
        raise UnsupportedError("this table's format lacks 'change-events': it keeps no rows beside its branches")


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
    :param newest_time: of the batches of a history that have one, which the branch has applied.
    """

    base: str | None = None
    run_keys: RecentRunKeys = field(default_factory=RecentRunKeys)
    position: SourcePosition = field(default_factory=SourcePosition)
    newest: int | None = None
    keys: KeyHistory = field(default_factory=KeyHistory)
    is_replaced: bool = False
    commits: tuple[Snapshot, ...] = ()
    newest_time: datetime | None = None

    def commit_of(self, run_key: str) -> Snapshot | None:
        """Return the commit of a run; None where its snapshot has expired."""
        return next((commit for commit in self.commits if commit.summary.get(RUN_KEY) == run_key), None)


class FormatTable(ABC):
    """A table of a format. A method that no declared capability of the format asks for may stay as it is here."""

    # Those of its format.
    capabilities: ClassVar[FormatCapabilities]

    @abstractmethod
    def exists(self) -> bool:
        """Tell whether the catalog has it now."""

    @abstractmethod
    def state(self, branch: str | None = None) -> TableState:
        """Counts of the newest metadata.

        :raises MissingTableError: there is no such table.
        """

    @abstractmethod
    def applied_state(self, source_name: str, branch: str | None = None) -> AppliedState:
        """Read the newest metadata and what it remembers of a source.

        :raises UnsupportedError: Spark cannot read the table's columns.
        """

    @abstractmethod
    def schema(self) -> StructType | None:
        """Columns and types; None for a missing table."""

    @abstractmethod
    def current_rows(self, base: str | None) -> DataFrame | None:
        """Live rows at a branch's head, in columns named as they are now; None where there are none.

        :raises CommitConflictError: the branch has moved on, and its columns are others.
        """

    def compared_rows(self, base: str, batch: ParquetBatch) -> ArrowRows:
        """Return how Python workers read a batch, and the live rows at a branch's head.

        :raises UnsupportedError: with the reason why Spark has to read them.
        """
        raise UnsupportedError("workers do not read this table's format")

    def as_stored(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:  # formats ask it
        """Rows with values as the table gives them back, so that they can be compared; all but the keys."""
        return rows

    def rows_of_keys(self, base: str | None, keys: DataFrame, ranges: KeyRanges | None) -> DataFrame | None:
        """Live rows at a branch's head with one of some keys; with others too, where a format reads them anyway.

        It may add columns by which it finds the rows again, see ``KeyedCommit.located``.

        :param keys: the key columns, and nothing else.
        :param ranges: of ``keys``; a format counts them where nobody has.
        """
        return self.current_rows(base)

    def is_created(self) -> bool:
        """Tell whether it exists with all that its creation sets; the next run finishes one that was cut off."""
        return self.exists()

    def properties(self) -> dict[str, str]:
        """Table properties; empty for a missing table."""
        return {}

    def other_positions(self, source_name: str) -> Mapping[str, SourcePosition]:
        """Positions of all sources but one, by their names; empty for a missing table."""
        return {}

    def create(self, columns: StructType, keys: tuple[str, ...], layout: TableLayout) -> None:
        """Create the table unless another job has just done so.

        :raises UnsupportedError: a table with this layout could not be written as asked; nothing was made.
        """
        raise self._lacking("create-table")

    def fit_schema(self, columns: StructType, contract: SchemaContract, missing: MissingColumns) -> tuple[str, ...]:
        """Add and widen columns so that ``columns`` fit.

        :return: sentences on what was changed.
        :raises BadInputError: a column does not fit and evolution may not or cannot make it.
        """
        raise self._lacking("upsert")

    def schema_changes(
        self, columns: StructType, contract: SchemaContract, missing: MissingColumns
    ) -> tuple[SchemaChange, ...]:
        """Changes that ``columns`` ask for, with what :meth:`fit_schema` would make of each; nothing is changed."""
        raise self._lacking("upsert")

    def apply(self, commit: KeyedCommit, progress: Progress) -> AppliedCommit:
        """Commit once.

        :raises AuditFailedError: rows offend an assertion of ``commit.audits``; main is as it was.
        :raises CommitConflictError: the branch moved past ``commit.base``; nothing changed.
        :raises UnknownOutcomeError: the catalog's answer was lost and the run key could not be looked up.
        """
        raise self._lacking("upsert")

    def append(self, commit: AppendCommit, progress: Progress) -> AppliedCommit | None:
        """Add rows in one commit; None where ``commit.counts`` says that there is nothing to commit.

        :raises AuditFailedError: rows offend an assertion of ``commit.audits``; main is as it was.
        :raises CommitConflictError: the branch moved past ``commit.base``; nothing changed.
        :raises UnknownOutcomeError: the catalog's answer was lost and the run key could not be looked up.
        """
        raise self._lacking("append")

    def overwrite_partitions(self, commit: OverwriteCommit, progress: Progress) -> AppliedCommit | None:
        """Put rows in place of partitions in one commit; None where there is nothing to commit.

        :raises InvalidSpecError: ``commit.where`` does not select whole partitions, or the table has none.
        :raises BadInputError: rows are outside of ``commit.where``.
        :raises AuditFailedError: rows offend an assertion of ``commit.audits``; main is as it was.
        :raises CommitConflictError: the branch moved past ``commit.base``; nothing changed.
        :raises UnknownOutcomeError: the catalog's answer was lost and the run key could not be looked up.
        """
        raise self._lacking("overwrite-partitions")

    def changeable_state(self) -> AppliedState:
        """Read the newest metadata of main, of which rows are to be changed: head and run keys.

        :raises MissingTableError: there is no such table.
        :raises UnsupportedError: rows of this table cannot be changed so.
        """
        raise self._lacking("update-rows")

    def change(self, commit: MatchedCommit, progress: Progress) -> AppliedCommit | None:
        """Change the rows of main that match, in one commit; None when no row does.

        :raises CommitConflictError: main moved past ``commit.base``; nothing changed.
        :raises UnknownOutcomeError: the catalog's answer was lost and the run key could not be looked up.
        :raises InvalidSpecError: the predicate cannot be taken.
        """
        raise self._lacking("update-rows")

    def retained(self, match: RowMatch, without: str | None) -> RetainedRows:
        """Look for the rows in every file that a snapshot of the table reaches.

        :param without: a snapshot in which no row matches; None where none is known.
        """
        raise self._lacking("erasure-proof")

    def identity(self) -> str:
        """Something that a table dropped and made again under the same name does not share."""
        raise self._lacking("read-changes")

    def snapshot_as_of(self, moment: str) -> str:
        """Snapshot of a moment: an id, a tag or branch, or a time, as ``contracts.as_of`` reads it.

        :raises BadInputError: the table does not have it.
        """
        raise self._lacking("lake-table-source")

    def rows_at(
        self, snapshot: str | None, where: str | None = None, *, is_head: bool = False, allow_sql: bool = False
    ) -> DataFrame:
        """Live rows at a snapshot, in the columns of its time, of which a query finds what its predicates ask for.

        :param snapshot: None where the table had none, which is no rows.
        :param where: SQL predicate that rows have to satisfy, judged before.
        :param is_head: whether the snapshot was taken as the head, so that columns are wanted as they are now.
        :param allow_sql: the predicate is code of its author.
        :raises InvalidSpecError: it names a value in a spelling that no row has.
        :raises UnsupportedError: Spark cannot read the table's columns.
        """
        raise self._lacking("read-changes")

    def has_passed(self, position: str, snapshot: str) -> bool:
        """Tell whether ``snapshot`` is an ancestor of ``position``, and that one of the head: not rolled back."""
        raise self._lacking("read-changes")

    def changes(self, start: str | None, end: str | None, wanted: ChangeFilter) -> DataFrame:
        """Rows that differ between two snapshots, with ``_change_type``; from the beginning when ``start`` is None.

        A format with a changelog of its own gets the net of it; another one brings its own.

        :param end: None for the head of main.
        :raises RangeUnavailableError: a snapshot is gone.
        """
        if self.capabilities.gap("changelog") is None:
            return net_of_changelog(self.changelog(start, end), wanted)
        raise self._lacking("read-changes")

    def changelog(self, start: str | None, end: str | None) -> DataFrame:
        """Every step between two snapshots: all columns, ``_change_type`` and ``_change_ordinal``.

        The type is ``insert``, ``update`` or ``delete``, with the values after the step, or before a delete. A changed
        key is a delete and an insert. The ordinal grows from step to step of a key, and no two of them share one.

        :param start: None for the beginning; ``end``: None for the head of main.
        :raises RangeUnavailableError: a snapshot is gone.
        """
        raise self._lacking("changelog")

    def pin(self, consumer: str, snapshot: str) -> None:
        """Keep a snapshot from expiry while it is read."""
        raise self._lacking("consumer-tags")

    def advance(self, consumer: str, snapshot: str, *, owner: str, target: str, mode: str) -> None:
        """Note that a consumer has reached a snapshot, and keep that one from expiry."""
        raise self._lacking("consumer-tags")

    def compact(self, spec: CompactionSpec, progress: Progress) -> CompactionReport:
        """Rewrite small files and files with deletes; a conflict with a writer is an outcome of the report."""
        raise self._lacking("compaction")

    def rewrite_file_lists(self, spec: JobSpec, progress: Progress) -> JobReport:
        """Merge the lists that name the table's files; a conflict with a writer is an outcome of the report.

        :param spec: of the format's own action.
        """
        raise self._lacking("file-lists")

    def compute_statistics(self, spec: StatisticsSpec, progress: Progress) -> StatisticsReport:
        """Compute statistics that main's head lacks; a conflict with a writer is an outcome of the report."""
        raise self._lacking("statistics")

    def expire(self, spec: SnapshotExpirySpec, progress: Progress) -> ExpiryReport:
        """Forget old snapshots and delete the files that only they reach."""
        raise self._lacking("snapshot-expiry")

    def remove_orphans(self, spec: OrphanFilesSpec, progress: Progress) -> OrphanFilesReport:
        """Find the files that nothing of the table names; count, remove or restore them."""
        raise self._lacking("remove-orphans")

    def change_metadata(self, change: MetadataChange) -> None:
        """Change branches, tags, properties or the format version in one commit.

        :raises CommitConflictError: the table is not any more what it was decided on; nothing changed.
        :raises UnknownOutcomeError: the catalog's answer was lost.
        """
        raise self._lacking("metadata-changes")

    def _lacking(self, name: str) -> UnsupportedError:
        """Return the refusal of what the format has not written, whatever it declares."""
        return UnsupportedError(
            f"table format {self.capabilities.name!r} lacks {name!r}: {type(self).__name__} has no method for it"
        )


class TableFormat(Protocol):
    """A table format on the driver: it opens catalogs and gives tables of them."""

    capabilities: FormatCapabilities

    def open_catalog(self, spark: SparkSession, catalog: str) -> Any:
        """Open a catalog in a session, and return what ``close()`` ends its connections of."""

    def table(
        self, spark: SparkSession, catalog: str, name: TableName, write_options: Mapping[str, str]
    ) -> FormatTable:
        """Return a table of a catalog, whether it exists or not; nothing is read yet.

        :param write_options: an author's words on how batches are written, by argument, which nobody else reads.
        """

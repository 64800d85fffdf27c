"""Commits that actions hand to a table of any format, the rows that they match, their results, and what they left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, MergeEngine
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.spark_jobs.batch.key_ranges import KeyRanges

# Column of changes beside those of the table.
CHANGE_ORDINAL = "_change_ordinal"


@dataclass(frozen=True, kw_only=True)
class DataCommit:
    """Fields of every commit that changes rows, whichever rows.

    :param base: head that the decision was taken on; the commit is refused when the branch has moved.
    :param positions: that move with the rows, by the names of their sources.
    :param branch: None for main, which also sets positions, run keys and ``properties``.
    :param properties: table properties to set in the same commit.
    :param summary: entries of the snapshot's summary beside those that identify it.
    :param made_for: the table and the schema that the rows were made to fit. A format sets it for itself, and no job
        reads it; None where nobody asks.
    """

    action: str
    run_key: str
    base: str | None
    positions: Mapping[str, SourcePosition] = field(default_factory=dict)
    branch: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    summary: dict[str, str] = field(default_factory=dict)
    made_for: str | None = None


@dataclass(frozen=True, kw_only=True)
class LoadCommit(DataCommit):
    """One atomic commit of the rows of a batch.

    :param rows: columns of the table, in the batch's types.
    :param missing_columns: what columns of the table become that ``rows`` lacks.
    :param reads_table: whether ``rows`` were made of what the table held at ``base``.
    :param audits: what has to hold on a branch before main gets the rows.
    """

    rows: DataFrame
    missing_columns: MissingColumns = MissingColumns.NULL
    reads_table: bool = False
    audits: Audits | None = None

    @property
    def counts_rows(self) -> bool:
        """Tell whether rows that are committed twice count twice."""
        return True


@dataclass(frozen=True, kw_only=True)
class RowsCommit(LoadCommit):
    """One atomic commit of rows as they are. They are read once, while they are written.

    :param reading: to be entered while they are; it names the input of the batch in an error over it.
    :param counts: from the number of rows written to the counts of the snapshot's summary; None where there is nothing
        to commit.
    :param input_bytes: of the files that are read; None where nobody knows.
    :param keys: columns by which rows are compared with each other, or with the table's.
    """

    keys: tuple[str, ...] = ()
    reading: Callable[[], AbstractContextManager[None]] = nullcontext
    counts: Callable[[int], dict[str, str] | None] = lambda _: {}
    input_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecentRows:
    """Rows that were committed lately, by either of two measures.

    :param within: time since their commit; None for the other measure.
    :param files: number of data files that were added last.
    """

    within: timedelta | None = None
    files: int = 0


@dataclass(frozen=True, kw_only=True)
class AppendCommit(RowsCommit):
    """One atomic commit that adds rows.

    :param unless_among: rows that are there already, by the values of ``keys``, are not added.
    """

    unless_among: RecentRows | None = None


@dataclass(frozen=True, kw_only=True)
class OverwriteCommit(RowsCommit):
    """One atomic commit that puts rows in place of partitions.

    :param where: SQL predicate of the rows that go; None for those of the partitions that ``rows`` are in.
    :param allow_rows: take a predicate that selects some rows of a partition.
    :param keys: columns of a key; a row that the table has already under its key is no change of it. Only with
        ``where``.
    """

    where: str | None = None
    allow_rows: bool = False

    @property
    def counts_rows(self) -> bool:
        """False: rows that are put in place twice are there once."""
        return False


@dataclass(frozen=True, kw_only=True)
class KeyedCommit(LoadCommit):
    """One atomic commit of one change per key.

    :param rows: with the ``MARKERS`` of a batch; one row per key, no NULL in a key.
    :param order_by: columns that tell which of two rows of a key is older, for ``merge_engine`` that ask.
    :param key_ranges: of ``rows``, where the source has counted them; a format counts them where not.
    :param upserts: rows that do not delete, where their number is known already.
    :param located: rows of the table at ``base`` that :meth:`.FormatTable.rows_of_keys` found, those with a key of
        ``rows`` among them; None where nobody has looked.
    """

    keys: tuple[str, ...]
    key_ranges: KeyRanges | None = None
    upserts: int | None = None
    order_by: tuple[str, ...] = ()
    merge_engine: MergeEngine = field(default_factory=Deduplicate)
    located: DataFrame | None = None

    @property
    def counts_rows(self) -> bool:
        """Tell whether rows that are committed twice count twice."""
        return self.merge_engine.counts_rows


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
    :param whole_files_by: column by whose values files go unread whose rows all match, as far as the format can tell.
    :param most_rows: the change is refused where more match; None for no limit.
    """

    match: RowMatch
    whole_files_by: str | None = None
    most_rows: int | None = None
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
    :param bounds_in: snapshots whose metadata lists column bounds of files that had, or may have had, such rows.
    :param key_holders: of the snapshots whose deletes hold keys as values.
    :param key_files: what these deletes are called.
    :param before_expiry: sentences on what the format needs between compaction and expiry.
    """

    holders: tuple[SnapshotHolder, ...] = ()
    live: bool = False
    bounds_in: tuple[str, ...] = ()
    key_holders: tuple[SnapshotHolder, ...] = ()
    key_files: str = "deletes"
    before_expiry: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AppliedCommit:
    """Result of a commit.

    :param counted: whether rows inserted, updated and deleted were told apart; where not, their counts mean nothing.
    :param settings_clause: whose settings hold, as the end of a sentence.
    :param files_removed: data files that went unread.
    :param files_changed: others with rows that were deleted.
    :param rows_replaced: rows of files that were removed, and rows deleted in others; None where nobody knows.
    :param partitions_replaced: partitions that the commit changed, likewise.
    """

    snapshot: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    counted: bool = True
    warnings: tuple[str, ...] = ()
    audits_passed: tuple[str, ...] = ()
    audit_runs: int = 0
    settings_clause: str = ""
    files_removed: int = 0
    files_changed: int = 0
    rows_replaced: int | None = 0
    partitions_replaced: int | None = 0

    @property
    def details(self) -> dict[str, Any]:
        """Fields of an upsert's report that only the format knows, by their names; none here."""
        return {}

    def row_counts(self) -> dict[str, Any]:
        """Return the counts by their names in a report; None where they mean nothing."""
        names = ("rows_inserted", "rows_updated", "rows_deleted")
        return {name: getattr(self, name) if self.counted else None for name in names}


@dataclass(frozen=True, kw_only=True)
class ChangeFilter:
    """Part of the changes that is wanted.

    :param deletes: False leaves deletes out, and needs no keys.
    :param keys: key columns; empty takes the table's identifier fields.
    :param columns: columns to return beside the keys; None for all.
    :param where: SQL predicate; the answer is then the changes of the rows that satisfy it: a row that no longer does
        is a delete.
    :param allow_sql: take a ``where`` that is more than comparisons of columns with constants.
    :param is_head: whether the end was taken as the head, so that columns are wanted as they are now.
    """

    deletes: bool = True
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    where: str | None = None
    allow_sql: bool = False
    is_head: bool = False


T = TypeVar("T")


def seen_after_commit(what: str, look: Callable[[], T]) -> tuple[T | None, tuple[str, ...]]:
    """Return what is seen; None and a warning where looking fails.

    :param what: a noun phrase, the subject of the warning.
    """
    try:
        return look(), ()
    # A task that failed here would be told by its retry that it is done. Not the message: it may name erased values.
    except Exception as error:  # noqa: BLE001
        return None, (f"{what} is not known: the commit was made, and looking failed with {type(error).__name__}",)


def state_after_commit(look: Callable[[], T]) -> tuple[T | None, tuple[str, ...]]:
    """Return the table's state for a report's ``after``."""
    return seen_after_commit("the table after the commit", look)

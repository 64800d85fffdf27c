"""Facts of a table's history: ages of snapshots, rate of commits, maintenance and consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile

from airflow_lake_provider.contracts.curve_order import CURVE_ORDER, CurveOrder
from airflow_lake_provider.contracts.durations import epoch_millis, span_millis
from airflow_lake_provider.contracts.property_values import count_of, whole_number
from airflow_lake_provider.contracts.row_age import newest_arrival
from airflow_lake_provider.contracts.table_facts import Snapshot, TableFacts
from airflow_lake_provider.contracts.table_properties import (
    ACTION,
    CONSUMER_PREFIX,
    EXPIRED_BEFORE,
    UNFINISHED_EXPIRY,
    tag_of,
)
from airflow_lake_provider.tables.head_files import HeadFiles, is_small

_DAY, _WEEK = timedelta(days=1), timedelta(days=7)
_SHORTEST_SPAN = timedelta(hours=1)
# How names of tags begin that a policy makes.
CALENDAR_TAGS = ("daily-", "weekly-", "monthly-")


@dataclass(frozen=True, kw_only=True)
class SnapshotAges:
    """Snapshots of all branches.

    :param snapshots: how many.
    :param oldest: moment of its commit.
    :param newest: moment of its commit.
    :param expirable: those that an expiry by the table's own settings, or by Iceberg's, would remove.
    :param is_unfinished: an expiry was cut off before it had deleted its files.
    """

    snapshots: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    expirable: int = 0
    is_unfinished: bool = False


@dataclass(frozen=True, kw_only=True)
class CommitRate:
    """Commits to main.

    :param last_day: those of the last 24 hours that the metadata still knows.
    :param per_day: over the last week, or since the oldest commit that the metadata knows.
    """

    last_day: int = 0
    per_day: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Commits of rows, small files and deletes that came since the last compaction, as far as the metadata knows.

    :param commits: that changed rows, since data files were rewritten.
    :param commits_of_deletes: that changed rows, since delete files were removed.
    :param small_files: data files of commits whose files are small on average; all small ones where commits do not say
        what they added.
    :param delete_files: delete files and deletion vectors of the head: a compaction that paid them has left none.
    """

    commits: int = 0
    commits_of_deletes: int = 0
    small_files: int = 0
    delete_files: int = 0


@dataclass(frozen=True, kw_only=True)
class MaintenanceRun:
    """Newest run of an action of maintenance.

    :param snapshot: id of its commit; None where only the maintenance history knows of it.
    :param at: moment of the commit, or when the run ended.
    """

    snapshot: str | None
    at: datetime


@dataclass(frozen=True, kw_only=True)
class ConsumerLag:
    """Distance of a consumer behind main, by its tag.

    :param consumer: its name.
    :param snapshot: up to which it has read.
    :param commits: that changed rows and are not consumed; None where main does not have the tag's snapshot any more.
    :param behind: age of the oldest of these.
    :param owner: DAG and task that read.
    :param target: table that they fill.
    """

    consumer: str
    snapshot: str
    commits: int | None = None
    behind: timedelta | None = None
    owner: str | None = None
    target: str | None = None


def snapshot_ages(facts: TableFacts, expirable: int) -> SnapshotAges:
    """Return how many snapshots there are, and how old.

    :param expirable: those that an expiry would remove.
    """
    by_age = sorted(facts.snapshots.values(), key=lambda each: each.at)
    return SnapshotAges(
        snapshots=len(by_age),
        oldest=by_age[0].committed_at if by_age else None,
        newest=by_age[-1].committed_at if by_age else None,
        expirable=expirable,
        is_unfinished=UNFINISHED_EXPIRY in facts.properties,
    )


def commit_rate(facts: TableFacts, history: Sequence[Snapshot], now: datetime) -> CommitRate:
    """Return how often main is committed to."""
    moments = {each.id: each.at for each in history} | {snapshot: at for at, snapshot in facts.main_log}
    if not moments:
        return CommitRate()
    moment = epoch_millis(now)
    week = [at for at in moments.values() if moment - span_millis(_WEEK) <= at <= moment]
    span = min(span_millis(_WEEK), max(span_millis(_SHORTEST_SPAN), moment - min(moments.values())))
    return CommitRate(
        last_day=sum(1 for at in week if at >= moment - span_millis(_DAY)),
        per_day=round(len(week) * span_millis(_DAY) / span, 2),
    )


def growth(history: Sequence[Snapshot], target: int) -> Growth:
    """Return what commits have added since the last compaction.

    :param history: of main, newest first.
    :param target: bytes that a data file should have.
    """
    since = changes_since(history, "deleted-data-files")
    return Growth(
        commits=len(since),
        commits_of_deletes=len(changes_since(history, "removed-delete-files")),
        small_files=sum(small_files(summary, target) for summary in since),
        delete_files=count_of(history[0].summary, "total-delete-files") if history else 0,
    )


def counted_growth(grown: Growth, history: Sequence[Snapshot], head: HeadFiles | None) -> Growth:
    """Return the growth by manifests, where commits since the last compaction do not say what they added.

    Small files from before count again then, until a compaction merges them.

    :param grown: by summaries.
    :param history: of main, newest first.
    :param head: its files; None where nobody has read manifests.
    """
    if head is None or not head.are_counted or not history:
        return grown
    says_deletes = whole_number(history[0].summary.get("total-delete-files")) is not None
    return replace(
        grown,
        small_files=max(grown.small_files, head.small_files) if has_uncounted_files(history) else grown.small_files,
        delete_files=grown.delete_files if says_deletes else head.delete_files,
    )


def has_uncounted_files(history: Sequence[Snapshot]) -> bool:
    """Tell whether a change of rows since the last compaction does not say how many files it added.

    :param history: of main, newest first.
    """
    return not all(map(counts_files, changes_since(history, "deleted-data-files")))


def counts_files(summary: Mapping[str, str]) -> bool:
    """Tell whether a commit says how many files it added; the spec asks for no count.

    A writer that counts says a total, also where it added none.
    """
    return any(name in summary for name in ("added-data-files", "total-data-files", "changed-partition-count"))


def changes_since(history: Sequence[Snapshot], rewritten: str) -> list[Mapping[str, str]]:
    """Return the summaries of changes of rows since a compaction; a rewrite of manifests leaves all that was added.

    :param rewritten: count of the summary that such a compaction has.
    """

    def is_before(snapshot: Snapshot) -> bool:
        return snapshot.operation != "replace" or not count_of(snapshot.summary, rewritten)

    return [each.summary for each in takewhile(is_before, history) if each.changes_rows]


def small_files(summary: Mapping[str, str], target: int) -> int:
    """Return the data files that a commit added; none where they are not small on average."""
    files = count_of(summary, "added-data-files")
    return files if files and is_small(count_of(summary, "added-files-size") / files, target) else 0


def curve_order(facts: TableFacts, history: Sequence[Snapshot]) -> CurveOrder | None:
    """Return the rows that a compaction has put in order along a curve; None where none has."""
    order = CurveOrder.of_property(facts.properties.get(CURVE_ORDER))
    if order is None:
        return None
    since = takewhile(lambda each: each.id != order.snapshot, history)
    return replace(order, added_since=sum(_new_rows(each.summary) for each in since if each.changes_rows))


def _new_rows(summary: Mapping[str, str]) -> int:
    """Return the rows that a commit brought; those of files that it wrote anew are no new ones.

    All are new where it has put them in place of whole partitions, or of all rows that there were.
    """
    added, total = count_of(summary, "added-records"), whole_number(summary.get("total-records"))
    is_overwrite = summary.get(ACTION) == "overwrite-partitions" or summary.get("replace-partitions") == "true"
    if is_overwrite or (total is not None and total <= added):
        return added
    return max(0, added - count_of(summary, "deleted-records"))


def calendar_refs(facts: TableFacts, *, of_branches: bool = False) -> tuple[str, ...]:
    """Return the tags, or the branches, with such names as a policy gives tags by the calendar, sorted."""
    refs = (name for name, ref in facts.references.items() if ref.is_branch is of_branches)
    return tuple(sorted(name for name in refs if name.startswith(CALENDAR_TAGS)))


def has_identifiers(facts: TableFacts) -> bool:
    """Tell whether the schema names identifier fields; one that strangers broke names none."""
    try:
        return bool(facts.shape.identifiers)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def recent_changes(history: Sequence[Snapshot], now: datetime) -> list[Snapshot]:
    """Return the snapshots of the last day that changed rows."""
    since = epoch_millis(now - _DAY)
    return [each for each in history if each.at >= since and each.changes_rows]


def last_data_commit(history: Sequence[Snapshot]) -> datetime | None:
    """Return when rows were changed last, as far as the history goes."""
    return next((each.committed_at for each in history if each.changes_rows), None)


def last_arrival(history: Sequence[Snapshot]) -> datetime | None:
    """Return when rows arrived last, by which an expiry of rows counts their age."""
    arrived = newest_arrival(history)
    return None if arrived is None else arrived.committed_at


def last_row_expiry(history: Sequence[Snapshot]) -> tuple[datetime | None, str | None]:
    """Return when rows were removed last by their age, and by which limit, as the summary says it."""
    newest = next((each for each in history if each.summary.get(ACTION) == "expire-rows"), None)
    return (None, None) if newest is None else (newest.committed_at, newest.summary.get(EXPIRED_BEFORE))


def last_maintenance(history: Sequence[Snapshot]) -> dict[str, MaintenanceRun]:
    """Return the newest run of each action: ours by its name, those of other tools as ``replace``."""
    runs: dict[str, MaintenanceRun] = {}
    for snapshot in history:
        action = snapshot.summary.get(ACTION) or ("replace" if snapshot.operation == "replace" else None)
        if action and action not in runs and not snapshot.changes_rows:
            runs[action] = MaintenanceRun(snapshot=snapshot.id, at=snapshot.committed_at)
    return runs


def consumer_lags(facts: TableFacts, history: Sequence[Snapshot], now: datetime) -> tuple[ConsumerLag, ...]:
    """Return the consumers that have a tag on the table, by name."""
    tags = {
        name.removeprefix(CONSUMER_PREFIX): ref.snapshot
        for name, ref in facts.references.items()
        if name.startswith(CONSUMER_PREFIX) and not ref.is_branch and "." not in name.removeprefix(CONSUMER_PREFIX)
    }
    unread = _unread_by_place(history) if tags else {}
    return tuple(_lag(facts, name, at, unread.get(at), now) for name, at in sorted(tags.items()))


def _unread_by_place(history: Sequence[Snapshot]) -> dict[str, tuple[int, datetime | None]]:
    """Return how many commits that changed rows are newer than each snapshot, and the moment of the oldest of them."""
    newer, oldest = 0, None
    unread: dict[str, tuple[int, datetime | None]] = {}
    for snapshot in history:
        unread[snapshot.id] = newer, oldest
        if snapshot.changes_rows:
            newer, oldest = newer + 1, snapshot.committed_at
    return unread


def _lag(
    facts: TableFacts, name: str, snapshot: str, unread: tuple[int, datetime | None] | None, now: datetime
) -> ConsumerLag:
    """Return the lag of one consumer.

    :param unread: commits that it has not read, and the moment of the oldest; None where main has not got its snapshot.
    """
    texts = {key: facts.properties.get(f"{tag_of(name)}.{key}") for key in ("owner", "target")}
    commits, oldest = (None, None) if unread is None else unread
    behind = timedelta(0) if oldest is None else max(timedelta(0), now - oldest)
    return ConsumerLag(
        consumer=name,
        snapshot=snapshot,
        commits=commits,
        behind=None if unread is None else behind,
        owner=texts["owner"],
        target=texts["target"],
    )

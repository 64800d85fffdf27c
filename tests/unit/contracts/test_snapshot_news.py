"""The decision whether a head is news, case by case and over random histories."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.snapshot_news import (
    Ancestry,
    News,
    NoNews,
    Patience,
    Quiet,
    Since,
    Watermark,
    decide,
)
from airflow_lake_provider.contracts.table_head import SnapshotRecord, TableHead

START = datetime(2026, 11, 20, 8, tzinfo=UTC)
TOTALS = {"total-records": "100", "total-data-files": "3"}
SUMMARIES = {
    "append": {"operation": "append", "added-records": "10", "added-data-files": "1"},
    "delete": {"operation": "delete", "deleted-records": "4"},
    "upsert": {
        "operation": "overwrite",
        "added-records": "5",
        "added-position-deletes": "2",
        "added-delete-files": "1",
    },
    "vectors": {"operation": "delete", "added-position-deletes": "2"},
    "compaction": {"operation": "replace", "added-data-files": "1", "deleted-data-files": "9", "added-records": "90"},
    "our-compaction": {"operation": "overwrite", "lake.action": "compaction", "added-records": "90"},
    "empty-delta": {"operation": "overwrite", "changed-partition-count": "0"},
    "empty-append": {"operation": "append"},
}
QUIET_KINDS = ("compaction", "our-compaction", "empty-delta", "empty-append")
DATA_KINDS = ("append", "delete", "upsert", "vectors")


def record(snapshot_id: int, parent: int | None, kind: str) -> SnapshotRecord:
    """Snapshot ``n`` is the n-th commit and was made n minutes after the start."""
    at = START + timedelta(minutes=snapshot_id)
    return SnapshotRecord.from_summary(snapshot_id, parent, at, snapshot_id, {**TOTALS, **SUMMARIES[kind]})


def chain(*kinds: str) -> TableHead:
    """A main branch whose commits are of these kinds, with ids 1, 2, 3, ..."""
    records = [record(n, n - 1 or None, kind) for n, kind in enumerate(kinds, start=1)]
    return TableHead(
        head=len(kinds) or None,
        snapshots={r.snapshot_id: r for r in records},
        log=tuple((r.committed_at, r.snapshot_id) for r in records),
    )


def expire(table: TableHead, *gone: int) -> TableHead:
    """As Iceberg does it: children keep the id of a parent that is gone."""
    return replace(
        table,
        snapshots={k: v for k, v in table.snapshots.items() if k not in gone},
        log=tuple(entry for entry in table.log if entry[1] not in gone),
    )


def expire_like_pyiceberg(table: TableHead, *gone: int) -> TableHead:
    """As PyIceberg does it: children of what is gone lose their parent id."""
    left = expire(table, *gone)
    orphaned = {k: replace(v, parent_id=None) if v.parent_id in gone else v for k, v in left.snapshots.items()}
    return replace(left, snapshots=orphaned)


def summary_of(answer: News | NoNews) -> tuple[object, ...]:
    if isinstance(answer, News):
        return answer.ancestry.value, answer.previous_id, answer.snapshot_id, answer.commits, answer.operation
    return answer.reason.value, answer.seen


def rolled_back(*kinds: str, to: int, then: str | None = None) -> TableHead:
    table = chain(*kinds)
    if then is None:
        return replace(table, head=to)
    new = record(len(kinds) + 1, to, then)
    return replace(table, head=new.snapshot_id, snapshots={**table.snapshots, new.snapshot_id: new})


def minutes(count: float) -> Since:
    return Since(time=START + timedelta(minutes=count))


CASES = {
    "no-table-yet": (TableHead(head=None), Since(), ("no-snapshots", None)),
    "table-dropped": (TableHead(head=None), Since(snapshot_id=3), ("no-snapshots", None)),
    "first-look": (chain("append", "append"), Since(), ("first-look", None, 2, 2, "append")),
    "first-look-at-a-table-without-rows": (chain("empty-append"), Since(), ("only-maintenance", 1)),
    "first-look-at-an-expired-history": (
        expire(chain("append", "compaction"), 1),
        Since(),
        ("first-look", None, 2, 0, None),
    ),
    "first-look-at-a-history-expired-by-pyiceberg": (
        expire_like_pyiceberg(chain("append", "compaction"), 1),
        Since(),
        ("first-look", None, 2, 0, None),
    ),
    "nothing-committed": (chain("append"), Since(snapshot_id=1), ("nothing-committed", 1)),
    "one-commit": (chain("append", "upsert"), Since(snapshot_id=1), ("linear", 1, 2, 1, "overwrite")),
    "several-commits": (
        chain("append", "delete", "upsert", "append"),
        Since(snapshot_id=2),
        ("linear", 2, 4, 2, "append"),
    ),
    "operation-is-of-the-newest-data-commit": (
        chain("append", "delete", "compaction"),
        Since(snapshot_id=1),
        ("linear", 1, 3, 1, "delete"),
    ),
    "deletion-vectors-only": (chain("append", "vectors"), Since(snapshot_id=1), ("linear", 1, 2, 1, "delete")),
    "compaction": (chain("append", "compaction"), Since(snapshot_id=1), ("only-maintenance", 2)),
    "our-compaction-under-another-operation": (
        chain("append", "our-compaction"),
        Since(snapshot_id=1),
        ("only-maintenance", 2),
    ),
    "empty-row-delta": (chain("append", "empty-delta"), Since(snapshot_id=1), ("only-maintenance", 2)),
    "rolled-back": (rolled_back("append", "append", to=1), Since(snapshot_id=2), ("rolled-back", 2, 1, 0, None)),
    "rolled-back-and-written-since": (
        rolled_back("append", "append", to=1, then="delete"),
        Since(snapshot_id=2),
        ("rolled-back", 2, 3, 1, "delete"),
    ),
    "only-a-compaction-rolled-back": (
        rolled_back("append", "compaction", to=1),
        Since(snapshot_id=2),
        ("only-maintenance", 1),
    ),
    "rolled-back-behind-an-expired-fork": (
        expire(rolled_back("append", "append", "append", to=1, then="append"), 1, 2),
        Since(snapshot_id=3),
        ("history-expired", 3, 4, 1, "append"),
    ),
    "table-replaced": (
        TableHead(head=3, snapshots={1: record(1, None, "append"), 3: record(3, None, "append")}),
        Since(snapshot_id=1),
        ("history-expired", 1, 3, 1, "append"),
    ),
    "rolled-back-to-what-is-older-than-the-start-though-the-root-is-gone": (
        expire(replace(chain("append", "append", "append"), head=2), 1),
        Since(snapshot_id=3),
        ("rolled-back", 3, 2, 0, None),
    ),
    "start-expired": (
        expire(chain("append", "append", "append", "append"), 1, 2),
        Since(snapshot_id=1),
        ("start-expired", 1, 4, 2, "append"),
    ),
    "start-expired-only-compactions-left": (
        expire(chain("append", "append", "compaction"), 1, 2),
        Since(snapshot_id=1),
        ("start-expired", 1, 3, 0, None),
    ),
    "start-expired-but-it-is-the-parent-of-a-compaction": (
        expire(chain("append", "compaction"), 1),
        Since(snapshot_id=1),
        ("only-maintenance", 2),
    ),
    "start-expired-and-its-child-wrote": (
        expire(chain("append", "append"), 1),
        Since(snapshot_id=1),
        ("start-expired", 1, 2, 1, "append"),
    ),
    "tagged-start-behind-an-expired-history": (
        expire(chain("append", "append", "compaction"), 2),
        Since(snapshot_id=1),
        ("history-expired", 1, 3, 0, None),
    ),
    "tagged-start-behind-a-history-expired-by-pyiceberg": (
        expire_like_pyiceberg(chain("append", "append", "append"), 2),
        Since(snapshot_id=1),
        ("history-expired", 1, 3, 1, "append"),
    ),
    "since-a-time": (chain("append", "append", "delete"), minutes(1.5), ("linear", 1, 3, 2, "delete")),
    "since-the-moment-of-a-commit": (chain("append", "append"), minutes(2), ("linear", 1, 2, 1, "append")),
    "since-a-time-after-the-head": (chain("append"), minutes(9), ("nothing-committed", 1)),
    "since-a-time-before-the-table": (chain("append"), minutes(0), ("first-look", None, 1, 1, "append")),
    "since-a-time-whose-snapshots-expired": (
        expire(chain("append", "append", "compaction"), 1, 2),
        minutes(1.5),
        ("start-expired", None, 3, 0, None),
    ),
    "since-a-time-after-which-it-was-rolled-back": (
        rolled_back("append", "append", to=1),
        minutes(2.5),
        ("rolled-back", 2, 1, 0, None),
    ),
    "made-before-the-time-but-published-after-it": (
        replace(chain("append", "append"), log=((START + timedelta(minutes=1), 1), (START + timedelta(minutes=9), 2))),
        minutes(5),
        ("linear", 1, 2, 1, "append"),
    ),
    "since-a-time-on-a-branch-which-has-no-log": (
        replace(chain("append", "append"), log=()),
        minutes(1.5),
        ("linear", 1, 2, 1, "append"),
    ),
    "consumer": (
        replace(chain("append", "append"), consumers={"revenue": 1}),
        Since(consumer="revenue"),
        ("linear", 1, 2, 1, "append"),
    ),
    "consumer-that-has-read-nothing": (
        chain("append"),
        Since(consumer="revenue"),
        ("first-look", None, 1, 1, "append"),
    ),
}


@pytest.mark.parametrize(("table", "since", "expected"), CASES.values(), ids=CASES.keys())
def test_a_head_is_news_or_not(table: TableHead, since: Since, expected: tuple[object, ...]) -> None:
    assert summary_of(decide(table, since)) == expected


def test_a_snapshot_without_a_summary_counts_as_a_change() -> None:
    bare = SnapshotRecord.from_summary(2, 1, START, 2, None)
    table = TableHead(head=2, snapshots={1: record(1, None, "append"), 2: bare})
    assert summary_of(decide(table, Since(snapshot_id=1))) == ("linear", 1, 2, 1, None)


def test_counts_are_summed_over_the_commits_that_changed_rows() -> None:
    answer = decide(chain("append", "append", "compaction", "upsert"), Since(snapshot_id=1))
    assert isinstance(answer, News)
    assert answer.counts == {
        "added-records": 15,
        "added-data-files": 1,
        "added-position-deletes": 2,
        "added-delete-files": 1,
    }


def test_rows_are_collected_until_enough_were_added() -> None:
    enough = Patience(min_added_rows=25)
    waiting = decide(chain("append", "append", "append"), Since(snapshot_id=1), patience=enough)
    assert waiting == NoNews(reason=Quiet.TOO_FEW_ROWS, seen=None)
    assert summary_of(decide(chain("append", "append", "append", "append"), Since(snapshot_id=1), patience=enough)) == (
        "linear",
        1,
        4,
        3,
        "append",
    )


@pytest.mark.parametrize("case", ["rolled-back", "start-expired", "tagged-start-behind-an-expired-history"])
def test_what_added_rows_cannot_measure_does_not_wait_for_them(case: str) -> None:
    table, since, expected = CASES[case]
    assert summary_of(decide(table, since, patience=Patience(min_added_rows=10_000))) == expected


def test_events_keep_their_distance() -> None:
    table, patience = chain("append", "append"), Patience(min_interval=timedelta(minutes=10))
    soon, later = START + timedelta(minutes=9, seconds=59), START + timedelta(minutes=10)
    early = decide(table, Since(snapshot_id=1), patience=patience, last_event_at=START, now=soon)
    assert early == NoNews(reason=Quiet.TOO_SOON, seen=None)
    assert isinstance(decide(table, Since(snapshot_id=1), patience=patience, last_event_at=START, now=later), News)


def test_the_payload_is_json_with_ids_as_text_and_the_keys_of_airflows_own_trigger() -> None:
    big = 2**62 + 1
    table = TableHead(head=big, snapshots={big: replace(record(2, 1, "append"), snapshot_id=big)})
    answer = decide(table, Since(snapshot_id=1))
    assert isinstance(answer, News)
    payload = answer.to_payload("shop.orders", "main")
    assert json.loads(json.dumps(payload)) == {
        "table": "shop.orders",
        "branch": "main",
        "snapshot_id": "4611686018427387905",
        "previous_snapshot_id": "1",
        "ancestry": "start-expired",
        "operation": "append",
        "commits": 1,
        "counts": {"added-records": 10, "added-data-files": 1},
        "committed_at": "2026-11-20T08:02:00+00:00",
    }


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (5, Since(snapshot_id=5)),
        ("4611686018427387905", Since(snapshot_id=2**62 + 1)),
        ("2026-11-20T09:00:00+01:00", Since(time=START)),
        ("2026-11-20T08:00:00Z", Since(time=START)),
        (START, Since(time=START)),
    ],
)
def test_since_is_a_snapshot_id_or_a_time(given_: str | int | datetime, expected: Since) -> None:
    assert Since.parse(given_) == expected
    text = expected.to_text()
    assert text is not None
    assert Since.parse(text) == expected


@pytest.mark.parametrize("given_", ["", "None", "yesterday", "2026-11-20T08:00:00", True, datetime(2026, 11, 20)])  # noqa: DTZ001  the naive time is the point
def test_any_other_since_is_refused_by_its_value(given_: str | datetime) -> None:
    with pytest.raises(InvalidSpecError, match="since="):
        Since.parse(given_)


@given(st.integers(1, 2**63 - 1), st.none() | st.integers(0, 2**33))
def test_a_watermark_survives_being_stored(snapshot_id: int, event_second: int | None) -> None:
    event_at = None if event_second is None else datetime.fromtimestamp(event_second, UTC)
    mark = Watermark(snapshot_id, event_at)
    assert Watermark.parse(mark.to_text()) == mark


@pytest.mark.parametrize("text", ["", "abc", "12@", "{'snapshot_id': 1}"])
def test_a_watermark_of_somebody_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpecError, match="watermark"):
        Watermark.parse(text)


@dataclass
class World:
    """A table with all its commits, and a watcher that may be killed between an event and its watermark."""

    records: dict[int, SnapshotRecord] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    expired: set[int] = field(default_factory=set)
    head: int | None = None
    stored: Watermark = field(default_factory=Watermark)
    events: list[News] = field(default_factory=list)
    shown: tuple[int, ...] = ()
    """Data commits below the head when the watcher last made an event: what its readers have."""

    def commit(self, kind: str) -> None:
        new = len(self.records) + 1
        self.records[new] = record(new, self.head, kind)
        self.kinds[new] = kind
        self.head = new

    def line(self) -> list[int]:
        """Every commit below the head, oldest first, expired or not: the truth."""
        ids: list[int] = []
        current = self.head
        while current is not None:
            ids.append(current)
            current = self.records[current].parent_id
        return ids[::-1]

    def data_line(self) -> tuple[int, ...]:
        return tuple(i for i in self.line() if self.kinds[i] in DATA_KINDS)

    def roll_back(self, steps: int) -> None:
        left = [i for i in self.line() if i not in self.expired]
        self.head = left[max(0, len(left) - 1 - steps)] if left else None

    def expire_all_but(self, keep: int) -> None:
        self.expired |= set(self.records) - set(self.line()[-keep:])

    def table(self) -> TableHead:
        return TableHead(head=self.head, snapshots={k: v for k, v in self.records.items() if k not in self.expired})

    def watch(self, *, killed: bool) -> News | NoNews:
        answer = decide(self.table(), Since(snapshot_id=self.stored.snapshot_id))
        if isinstance(answer, News):
            self.events.append(answer)
            self.shown = self.data_line()
            if not killed:
                self.stored = Watermark(answer.snapshot_id)
        elif answer.seen is not None and not killed:
            self.stored = Watermark(answer.seen)
        return answer


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from(DATA_KINDS + QUIET_KINDS)),
        st.tuples(st.just("roll-back"), st.integers(1, 3)),
        st.tuples(st.just("expire"), st.integers(1, 3)),
        st.tuples(st.just("watch"), st.booleans()),
    ),
    max_size=25,
)


def play(world: World, step: tuple[str, object]) -> None:
    what, argument = step
    if what == "commit":
        world.commit(str(argument))
    elif what == "roll-back":
        world.roll_back(int(str(argument)))
    elif what == "expire":
        world.expire_all_but(int(str(argument)))
    else:
        world.watch(killed=bool(argument))


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_readers_woken_by_events_never_miss_a_commit(steps: list[tuple[str, object]]) -> None:
    world = World()
    for step in steps:
        play(world, step)
    world.watch(killed=False)
    assert set(world.data_line()) <= set(world.shown)
    if ("watch", True) not in steps:
        # A killed watcher may have shown a commit that a rollback then undid, and knows nothing of it.
        assert world.shown == world.data_line()


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_commits_that_change_no_rows_never_wake_anybody(steps: list[tuple[str, object]]) -> None:
    world = World()
    for step in steps:
        play(world, step)
    world.watch(killed=False)
    for kind in QUIET_KINDS * 2:
        if world.head is not None:
            world.commit(kind)
            assert isinstance(world.watch(killed=False), NoNews)
            world.expire_all_but(1)
            assert isinstance(world.watch(killed=False), NoNews)


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_without_kills_and_surgery_each_commit_is_in_one_event(steps: list[tuple[str, object]]) -> None:
    world = World()
    for what, argument in steps:
        if what in ("commit", "watch"):
            play(world, (what, argument if what == "commit" else False))
    world.watch(killed=False)
    reported: Counter[int] = Counter()
    for event in world.events:
        since = event.previous_id or 0
        covered = [i for i in world.data_line() if since < i <= event.snapshot_id]
        reported.update(covered)
        assert event.commits == len(covered)
        assert event.ancestry in (Ancestry.LINEAR, Ancestry.FIRST_LOOK)
    assert reported == Counter(world.data_line())

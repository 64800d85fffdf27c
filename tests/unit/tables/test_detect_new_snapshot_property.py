"""The decision whether a head is a new snapshot, over random histories with kills, roll-backs and expiry."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.tables.detect_new_snapshot import Ancestry, NewSnapshot, NoNewSnapshot, TableHead, decide
from airflow_lake_provider.tables.watermark import Since, Watermark
from tests.unit.tables.snapshot_histories import DATA_KINDS, SKIPPED_KINDS, record


@dataclass
class World:
    """A table with all its commits, and a watcher that may be killed between an event and its watermark."""

    records: dict[int, Snapshot] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    expired: set[int] = field(default_factory=set)
    head: int | None = None
    stored: Watermark = field(default_factory=Watermark)
    events: list[NewSnapshot] = field(default_factory=list)
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
            parent = self.records[current].parent
            current = None if parent is None else int(parent)
        return ids[::-1]

    def data_line(self) -> tuple[int, ...]:
        return tuple(i for i in self.line() if self.kinds[i] in DATA_KINDS)

    def roll_back(self, steps: int) -> None:
        left = [i for i in self.line() if i not in self.expired]
        self.head = left[max(0, len(left) - 1 - steps)] if left else None

    def expire_all_but(self, keep: int) -> None:
        self.expired |= set(self.records) - set(self.line()[-keep:])

    def table(self) -> TableHead:
        known = {record.id: record for id_, record in self.records.items() if id_ not in self.expired}
        return TableHead(head=None if self.head is None else str(self.head), snapshots=known)

    def watch(self, *, killed: bool) -> NewSnapshot | NoNewSnapshot:
        answer = decide(self.table(), Since(snapshot_id=self.stored.snapshot_id))
        if isinstance(answer, NewSnapshot):
            self.events.append(answer)
            self.shown = self.data_line()
            if not killed:
                self.stored = Watermark(answer.snapshot_id)
        elif answer.seen is not None and not killed:
            self.stored = Watermark(answer.seen)
        return answer


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from(DATA_KINDS + SKIPPED_KINDS)),
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
    for kind in SKIPPED_KINDS * 2:
        if world.head is not None:
            world.commit(kind)
            assert isinstance(world.watch(killed=False), NoNewSnapshot)
            world.expire_all_but(1)
            assert isinstance(world.watch(killed=False), NoNewSnapshot)


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
        since = int(event.previous_id or 0)
        covered = [i for i in world.data_line() if since < i <= int(event.snapshot_id)]
        reported.update(covered)
        assert event.commits == len(covered)
        assert event.ancestry in (Ancestry.LINEAR, Ancestry.FIRST_LOOK)
    assert reported == Counter(world.data_line())

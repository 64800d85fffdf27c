"""Count positions and run keys by the history of main, whatever expiry has left of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.applied_history import AppliedOfSource, MainHistory
from airflow_lake_provider.contracts.applied.positions import FilesPosition, SnapshotPosition
from airflow_lake_provider.contracts.applied.published_position import PublishedPosition
from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.contracts.table_properties import EPOCH_PREFIX, HISTORY_AT, RUN_KEY, SOURCE_POSITION

KEY = "0123456789abcdef"
STEPS = ("ours", "theirs", "empty", "replace", "replace with rows", "roll back", "expire", "pyiceberg expires")


@dataclass
class World:
    """A table with its true history beside what its metadata still tells.

    :param truth: the true parents and numbers of rows of all snapshots ever made.
    :param known: what the metadata has.
    :param applied: snapshot of the newest commit of our source, whose generation the property has.
    """

    head: int | None = None
    known: dict[int, Snapshot] = field(default_factory=dict)
    truth: dict[int, int | None] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    replacements: list[int] = field(default_factory=list)
    applied: int | None = None
    generation: int = 0

    def commit(self, added: int, *, ours: bool = False, keeps: bool = True) -> None:
        id_ = len(self.truth) + 1
        held = self.rows[self.head] if self.head is not None and keeps else 0
        summary = {f"total-{kind}": str(held + added) for kind in ("records", "data-files")}
        summary |= {"total-delete-files": "0"} | ({f"added-{k}": str(added) for k in ("records", "data-files")})
        if ours:
            self.generation, self.applied = self.generation + 1, id_
            summary[SOURCE_POSITION] = f"src={self.generation}"
        parent = None if self.head is None else str(self.head)
        self.known[id_] = Snapshot(id=str(id_), parent=parent, sequence_number=id_, at=id_ * 1000, summary=summary)
        self.truth[id_], self.rows[id_], self.head = self.head, held + added, id_

    def step(self, name: str) -> None:
        line = [int(commit.id) for commit in self.history().ancestors]
        if name in ("ours", "theirs"):
            self.commit(2, ours=name == "ours")
        elif name == "empty" and self.head is not None:
            self.commit(0, keeps=False)
        elif name.startswith("replace"):
            self.replacements.append(len(self.truth))
            self.head = None
            if "rows" in name:
                self.commit(5)
        elif name == "roll back" and len(line) > 1:
            self.head = line[1]
        elif "expire" in name:
            self.expire(erase=name.startswith("py"))

    def expire(self, *, erase: bool) -> None:
        left = {} if self.head is None else {self.head: self.known[self.head]}
        if erase:
            left = {id_: replace(commit, parent=None) for id_, commit in left.items()}
        self.known = left

    def history(self) -> MainHistory:
        head = None if self.head is None else str(self.head)
        return MainHistory.of(head, {each.id: each for each in self.known.values()})

    def has_applied(self) -> bool:
        current = self.head
        while current is not None and current != self.applied:
            current = self.truth[current]
        return current is not None

    def told(self) -> AppliedOfSource:
        return AppliedOfSource.of(SourcePosition(generation=self.generation), {}, self.history(), "src")


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=12))
def test_a_position_whose_commit_main_has_counts_and_one_that_it_surely_lacks_never_does(steps: list[str]) -> None:
    world = World()
    for step in steps:
        world.step(step)
    if world.generation == 0:
        return
    told, history = world.told(), world.history()
    goes_on = not told.is_replaced and not told.position.is_rolled_back(told.newest)
    if told.is_replaced:
        assert not world.has_applied()
        assert world.replacements, "a table that nobody replaced was taken for a replaced one"
    if history.first is not None or not history.ancestors:
        erased_when_empty = "pyiceberg expires" in steps
        assert goes_on == world.has_applied() or (erased_when_empty and not goes_on)
    if world.has_applied() and "pyiceberg expires" not in steps:
        assert goes_on


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["ours"], "counts"),
        (["ours", "theirs", "theirs"], "counts"),
        (["ours", "empty"], "counts"),
        (["ours", "theirs", "expire"], "counts"),
        (["ours", "theirs", "pyiceberg expires"], "counts"),
        (["ours", "theirs", "expire", "theirs"], "counts"),
        (["ours", "replace"], "replaced"),
        (["ours", "replace", "expire"], "replaced"),
        (["ours", "replace with rows"], "replaced"),
        (["ours", "replace with rows", "theirs"], "replaced"),
        (["ours", "replace", "theirs", "empty"], "replaced"),
        (["ours", "expire", "theirs", "replace with rows"], "replaced"),
        (["ours", "replace", "ours"], "counts"),
        (["ours", "replace with rows", "expire"], "refused"),
        (["theirs", "ours", "roll back"], "refused"),
        (["theirs", "ours", "roll back", "theirs"], "refused"),
        (["theirs", "ours", "roll back", "theirs", "expire"], "counts"),
    ],
)
def test_each_way_to_lose_rows_is_told_as_far_as_the_metadata_goes(steps: list[str], expected: str) -> None:
    world = World()
    for step in steps:
        world.step(step)
    told = world.told()
    refused = told.position.is_rolled_back(told.newest)
    assert (told.is_replaced, refused) == (expected == "replaced", expected == "refused")


def test_what_a_replaced_table_remembered_is_given_up_and_the_count_goes_on() -> None:
    world = World()
    for step in ("ours", "ours", "replace with rows"):
        world.step(step)
    kinds = {"snapshot": SnapshotPosition("7"), "files": FilesPosition(forgotten_until=9)}
    position = SourcePosition(generation=2, positions=kinds, shape={"query": "x"})
    properties = {EPOCH_PREFIX + "src": "1", EPOCH_PREFIX + "older": "4"}
    told = AppliedOfSource.of(position, properties, world.history(), "src")
    assert told.position == SourcePosition(generation=2, positions={"files": FilesPosition()})
    assert told.epoch == 5, "keys that were deleted before the replacement would be newer than new events"


@pytest.mark.parametrize(
    ("generations", "generation", "until"),
    [
        ([1, 2, 3], 3, None),
        # A rollback took the position back, and another tool gave the commits to main again.
        ([1, 2, 3], 1, 3),
        ([1, 3], 1, 2),
        ([1], 0, 1),
        # A later commit of the source was decided on beside these.
        ([1, 3, 2], 2, None),
        ([1, 2, None, None], 1, 2),
        # A commit that was rolled back is told by its position.
        ([1, 2], 3, None),
    ],
)
def test_commits_that_main_has_beyond_a_position_are_told_with_the_moment_of_the_newest(
    generations: list[int | None], generation: int, until: int | None
) -> None:
    summaries = [{} if each is None else {SOURCE_POSITION: f"other=9,src={each}"} for each in generations]
    commits = [
        Snapshot(id=str(place), parent=str(place - 1) if place > 1 else None, at=place * 1000 - 1, summary=summary)
        for place, summary in enumerate(summaries, 1)
    ]
    history = MainHistory.of(str(len(commits)), {each.id: each for each in commits})
    position = AppliedOfSource.of(SourcePosition(generation=generation), {}, history, "src").position
    assert position.of(PublishedPosition) == (None if until is None else PublishedPosition(until))
    assert SourcePosition.read(position.to_properties("src"), "src") == position


def test_run_keys_of_a_replaced_table_do_not_count_and_those_without_a_snapshot_do() -> None:
    world = World()
    world.step("ours")
    before = RecentRunKeys(((KEY, 1),), dropped_before=1)
    assert world.history().run_keys(RecentRunKeys(((KEY, 5),))) == RecentRunKeys(((KEY, 5),))
    world.step("replace with rows")
    assert world.history().run_keys(before) == RecentRunKeys((), dropped_before=1)
    later = RecentRunKeys(((KEY, 9),))
    assert world.history().run_keys(later) == later
    world.step("replace")
    assert world.history().run_keys(later) == RecentRunKeys()


def test_a_run_key_counts_until_main_has_surely_lost_its_commit() -> None:
    kept, lost, gone = (f"{digit}" * 16 for digit in "abc")
    recent = RecentRunKeys(((lost, 9), (kept, 9), (gone, 9)))

    def commit(id_: int, parent: int, key: str) -> Snapshot:
        return Snapshot(id=str(id_), parent=str(parent), sequence_number=id_, at=id_, summary={RUN_KEY: key})

    # A driver that was killed left 2, and a later try made 3. The parent of 3 has expired.
    commits = {each.id: each for each in (commit(2, 1, kept), commit(3, 1, kept), commit(4, 3, lost))}
    assert MainHistory.of("4", commits).run_keys(recent) == recent
    assert MainHistory.of("3", commits).run_keys(recent) == RecentRunKeys(((kept, 9), (gone, 9)))
    # Main's own commit of it may be among those that expired.
    newer = {"5": commit(5, 3, "d" * 16), "2": commits["2"]}
    assert MainHistory.of("5", newer).run_keys(recent) == recent


def test_a_snapshot_that_is_its_own_ancestor_ends_the_walk() -> None:
    commits = {str(n): Snapshot(id=str(n), parent=str(3 - n), sequence_number=n, at=n, summary={}) for n in (1, 2)}
    with pytest.raises(BrokenMetadataError, match="is its own ancestor"):
        MainHistory.of("2", commits)


@pytest.mark.parametrize(
    ("steps", "day"),
    [
        (["ours"], 1),
        (["ours", "theirs", "expire"], 1),
        (["ours", "theirs", "expire", "theirs"], 1),
        (["ours", "theirs", "pyiceberg expires"], 1),
        (["ours", "ours", "theirs", "expire"], 2),
        (["ours", "expire", "theirs", "replace with rows"], None),
        (["ours", "replace with rows", "expire"], None),
        (["ours", "replace"], None),
        (["ours", "theirs", "expire", "ours", "roll back"], None),
        (["ours", "ours", "roll back"], 1),
        (["ours", "theirs", "expire", "branch"], 1),
        (["ours", "ours", "theirs", "expire", "theirs", "branch"], 2),
    ],
)
def test_the_time_of_a_batch_counts_until_main_has_surely_lost_its_commit(steps: list[str], day: int | None) -> None:
    world, properties, recent = World(), dict[str, str](), RecentRunKeys()
    for step in steps:
        main = world.head
        world.step("theirs" if step == "branch" else step)
        if step in ("ours", "branch"):
            key = f"{len(world.truth):016x}"
            at = {HISTORY_AT: f"2026-01-0{world.generation}T00:00:00+00:00"}
            newest = world.known[len(world.truth)]
            world.known[len(world.truth)] = replace(newest, summary={**newest.summary, **at, RUN_KEY: key})
            if step == "branch":
                world.head = main
            else:
                recent = recent.add(key, datetime.now(UTC))
                properties = {**at, **recent.to_properties()}
    newest_time = world.history().newest_time(properties)
    assert newest_time == (None if day is None else datetime(2026, 1, day, tzinfo=UTC))


@pytest.mark.parametrize("broken", ["soon", "2026-01-01T00:00:00"])
def test_a_time_that_is_none_is_refused_with_its_property(broken: str) -> None:
    world = World()
    world.step("theirs")
    world.step("theirs")
    world.step("expire")
    with pytest.raises(BrokenMetadataError, match=f"lake.history-at.*{broken}"):
        world.history().newest_time({HISTORY_AT: broken})

"""Positions compare by the rule of their kind, and marks of change events need no more of a log than its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pytest

from airflow_lake_provider.contracts.applied.event_marks import EventMarks, EventOrdering, Mark
from airflow_lake_provider.contracts.applied.log_positions import LogPosition, PostgresLogPosition, TuplePosition
from airflow_lake_provider.contracts.applied.positions import (
    POSITIONS,
    Comparison,
    FilesPosition,
    OffsetsPosition,
    Position,
    SnapshotPosition,
    WatermarkPosition,
    WholePosition,
)
from airflow_lake_provider.contracts.applied.redelivery import CommitTimes
from airflow_lake_provider.contracts.input_file import ConsumedFiles


# [START gtid_set]
@dataclass(frozen=True)
class GtidSet(LogPosition):
    """Transactions of several servers, as MySQL counts them: by server, how many were applied."""

    kind: ClassVar[str] = "gtid-set"
    code: ClassVar[int] = 200
    applied: tuple[tuple[int, int], ...]

    def compare(self, other: Self) -> Comparison:
        mine, others = dict(self.applied), dict(other.applied)
        both = [(mine.get(server, 0), others.get(server, 0)) for server in mine.keys() | others.keys()]
        return Comparison.of(below=all(a <= b for a, b in both), above=all(a >= b for a, b in both))

    def joined(self, other: Self) -> Self:
        mine, others = dict(self.applied), dict(other.applied)
        servers = sorted(mine.keys() | others.keys())
        return type(self)(tuple((server, max(mine.get(server, 0), others.get(server, 0))) for server in servers))

    def numbers(self) -> list[int]:
        return [len(self.applied), *(number for pair in self.applied for number in pair)]

    @classmethod
    def of_numbers(cls, numbers: Iterator[int]) -> Self:
        return cls(tuple((next(numbers), next(numbers)) for _ in range(next(numbers))))

    @classmethod
    def before_all(cls) -> Self:
        return cls(())

    def to_plain(self) -> Any:
        return self.applied

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        return cls(tuple(map(tuple, plain)))


# [END gtid_set]


@dataclass(frozen=True)
class TransactionLogPosition(TuplePosition):
    """Commit, change and number of the change, as SQL Server orders its changes."""

    kind: ClassVar[str] = "transaction-log"
    code: ClassVar[int] = 202
    number_type: ClassVar[str] = "DECIMAL(38, 0)"
    commit_lsn: int
    change_lsn: int
    serial: int


LSN = 0x90000027 << 48


def files(*names: str) -> FilesPosition:
    return FilesPosition(files=ConsumedFiles({name.encode().ljust(10): 1 for name in names}))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (files("a"), files("a", "b"), Comparison.BEFORE),
        (files("a", "b"), files("b"), Comparison.AFTER),
        (files("a"), files("b"), Comparison.INCOMPARABLE),
        (files("a"), FilesPosition(files=None), Comparison.INCOMPARABLE),
        (SnapshotPosition("7"), SnapshotPosition("7"), Comparison.EQUAL),
        (SnapshotPosition("7"), SnapshotPosition("8"), Comparison.INCOMPARABLE),
        (OffsetsPosition({"t-0": 5}), OffsetsPosition({"t-0": 5, "t-1": 1}), Comparison.BEFORE),
        (OffsetsPosition({"t-0": 5}), OffsetsPosition({"t-1": 1}), Comparison.INCOMPARABLE),
        (OffsetsPosition({"t-0": 5}), OffsetsPosition({"t-0": 5, "t-1": 0}), Comparison.EQUAL),
        (OffsetsPosition({"0": 5}, "a"), OffsetsPosition({"0": 9}, "b"), Comparison.INCOMPARABLE),
        # A broker of before that told no id says nothing of another topic.
        (OffsetsPosition({"0": 5}), OffsetsPosition({"0": 9}, "b"), Comparison.BEFORE),
        (OffsetsPosition({"0": 5}, "a"), OffsetsPosition({"0": 5}), Comparison.EQUAL),
        (WatermarkPosition("id", 9), WatermarkPosition("id", 10), Comparison.BEFORE),
        (WatermarkPosition("at", "2026-10"), WatermarkPosition("at", "2026-09"), Comparison.AFTER),
        (WatermarkPosition("id", 9), WatermarkPosition("at", 9), Comparison.INCOMPARABLE),
        (WatermarkPosition("id", 9), WatermarkPosition("id", "9"), Comparison.INCOMPARABLE),
        (WatermarkPosition("at", "2026-10-01T00:00Z"), WatermarkPosition("at", "2026-10-01T00:00Z"), Comparison.EQUAL),
        (WatermarkPosition("at", "2026-10-01T00:00Z"), WatermarkPosition("at", "2026-09-01"), Comparison.INCOMPARABLE),
        (PostgresLogPosition(9, 12), PostgresLogPosition(10, 11), Comparison.BEFORE),
        (PostgresLogPosition(10, 11), PostgresLogPosition(10, 11), Comparison.EQUAL),
        (TransactionLogPosition(LSN, 9, 2), TransactionLogPosition(LSN, 10, 1), Comparison.BEFORE),
        (TransactionLogPosition(LSN, 9, 2), TransactionLogPosition(LSN, 9, 1), Comparison.AFTER),
        (TransactionLogPosition(LSN, 9, 2), TransactionLogPosition(LSN, 9, 2), Comparison.EQUAL),
        (GtidSet(((1, 5),)), GtidSet(((1, 5), (2, 1))), Comparison.BEFORE),
        (GtidSet(((1, 5),)), GtidSet(((2, 1),)), Comparison.INCOMPARABLE),
    ],
)
def test_two_positions_of_a_kind_compare_by_its_own_rule(first: Any, second: Any, expected: Comparison) -> None:
    turned = {Comparison.BEFORE: Comparison.AFTER, Comparison.AFTER: Comparison.BEFORE}
    assert first.compare(second) is expected
    assert second.compare(first) is turned.get(expected, expected)


def test_the_id_of_brokers_that_have_none_is_none_and_one_that_is_there_is_kept() -> None:
    stored = OffsetsPosition.from_plain({"next": {"0": 5}, "topic": "AAAAAAAAAAAAAAAAAAAAAA"})
    assert stored == OffsetsPosition({"0": 5})
    now = OffsetsPosition({"0": 9}, "b")
    assert stored.joined(now) == now == now.joined(stored)
    with pytest.raises(ValueError, match="have no order"):
        now.joined(OffsetsPosition({"0": 9}, "c"))


@pytest.mark.parametrize(
    "position",
    [
        *(OffsetsPosition({"0": 5}, "a"), WatermarkPosition("id", 9), SnapshotPosition("7"), SnapshotPosition("v 1@é")),
        files("a", "b"),
    ],
)
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    assert POSITIONS[position.kind].from_plain(position.to_plain()) == position


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        ("offsets", {"next": {"0": -1}, "topic": "a"}),
        ("offsets", {"next": {"0": "1"}, "topic": "a"}),
        ("offsets", {"next": {"0": 1}, "topic": 1}),
        ("watermark", [1, 2]),
        ("watermark", ["id", None]),
    ],
)
def test_a_position_that_nobody_writes_so_is_refused(kind: str, plain: Any) -> None:
    with pytest.raises(ValueError, match="a"):
        POSITIONS[kind].from_plain(plain)


def test_marks_of_three_long_numbers_are_merged_kept_and_read() -> None:
    here, there = (Mark(position=TransactionLogPosition(LSN + 5, change, 1), ts_ms=7) for change in (LSN, LSN + 1))
    nothing = Mark(position=TransactionLogPosition.before_all())
    marks = EventMarks(ordering=EventOrdering.PARTITION).merged(EventOrdering.PARTITION, {"t-0": here, "t-1": nothing})
    marks = marks.merged(EventOrdering.PARTITION, {"t-0": there})
    assert EventMarks.read(marks.to_text()) == marks
    assert marks.floor("t-0") == there
    assert TransactionLogPosition.from_plain(here.position.to_plain()) == here.position


def test_marks_of_a_log_that_is_only_partly_ordered_are_merged_kept_and_read() -> None:
    here, there = Mark(position=GtidSet(((1, 5),)), ts_ms=7, moved=True), Mark(position=GtidSet(((2, 3),)), ts_ms=9)
    marks = EventMarks(ordering=EventOrdering.STREAM)
    for mark in (here, there):
        marks = marks.merged(EventOrdering.STREAM, {None: mark})
    assert marks.table == Mark(position=GtidSet(((1, 5), (2, 3))), ts_ms=9)
    assert EventMarks.read(marks.to_text()) == marks
    times: Mapping[str, CommitTimes] = {
        "here": CommitTimes(highest=here.position),
        "there": CommitTimes(highest=there.position),
    }
    assert (times["here"] + times["there"]).highest == here.position


def test_two_logs_do_not_share_a_code() -> None:
    with pytest.raises(TypeError, match="Another and GtidSet have the code 200"):
        type("Another", (TuplePosition,), {"kind": "another", "code": 200})


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (WholePosition(content="a", place="elsewhere", newest=1), Comparison.EQUAL),
        # The same place holds now what it holds, whatever the age of its files.
        (WholePosition(content="b", place="here", newest=9), Comparison.INCOMPARABLE),
        (WholePosition(content="b", place="elsewhere", newest=9), Comparison.BEFORE),
        (WholePosition(content="b", place="elsewhere", newest=1), Comparison.AFTER),
        (WholePosition(content="b", place="elsewhere", newest=5), Comparison.INCOMPARABLE),
        (WholePosition(content="b", place="elsewhere"), Comparison.INCOMPARABLE),
    ],
)
def test_deliveries_of_a_whole_compare_by_their_newest_files(other: WholePosition, expected: Comparison) -> None:
    assert WholePosition(content="a", place="here", newest=5).compare(other) is expected
    assert WholePosition.from_plain(other.to_plain()) == other


@pytest.mark.parametrize("plain", [["a", "b", -1], ["a", 1, None], [None, "b", None], ["a", "b"]])
def test_a_whole_position_of_somebody_else_is_refused(plain: list[Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # of several sentences
        WholePosition.from_plain(plain)

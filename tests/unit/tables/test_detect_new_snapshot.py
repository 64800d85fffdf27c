"""The decision whether a head is a new snapshot, case by case."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.tables.detect_new_snapshot import (
    EventThreshold,
    NewSnapshot,
    NoNewSnapshot,
    SkipReason,
    TableHead,
    decide,
)
from airflow_lake_provider.tables.watermark import Since, Watermark
from tests.unit.tables.snapshot_histories import (
    START,
    chain,
    expire,
    expire_like_pyiceberg,
    minutes,
    record,
    rolled_back,
)


def summary_of(answer: NewSnapshot | NoNewSnapshot) -> tuple[object, ...]:
    if isinstance(answer, NewSnapshot):
        ids = number(answer.previous_id), number(answer.snapshot_id)
        return answer.ancestry.value, *ids, answer.commits, answer.operation
    return answer.reason.value, number(answer.seen)


def number(snapshot_id: str | None) -> int | None:
    return None if snapshot_id is None else int(snapshot_id)


def logged(minute: int) -> int:
    """Return the epoch milliseconds of a minute after the start."""
    return int((START + timedelta(minutes=minute)).timestamp() * 1000)


# Its totals have no row and no file but those added.
FIRST = {"operation": "append"} | {
    f"{count}-{kind}": "1" for count in ("added", "total") for kind in ("records", "data-files", "delete-files")
}
CASES = {
    "no-table-yet": (TableHead(head=None), Since(), ("no-snapshots", None)),
    "table-dropped": (TableHead(head=None), Since(snapshot_id="3"), ("no-snapshots", None)),
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
    "nothing-committed": (chain("append"), Since(snapshot_id="1"), ("nothing-committed", 1)),
    "one-commit": (chain("append", "upsert"), Since(snapshot_id="1"), ("linear", 1, 2, 1, "overwrite")),
    "several-commits": (
        chain("append", "delete", "upsert", "append"),
        Since(snapshot_id="2"),
        ("linear", 2, 4, 2, "append"),
    ),
    "operation-is-of-the-newest-data-commit": (
        chain("append", "delete", "compaction"),
        Since(snapshot_id="1"),
        ("linear", 1, 3, 1, "delete"),
    ),
    "deletion-vectors-only": (chain("append", "vectors"), Since(snapshot_id="1"), ("linear", 1, 2, 1, "delete")),
    "compaction": (chain("append", "compaction"), Since(snapshot_id="1"), ("only-maintenance", 2)),
    "our-compaction-under-another-operation": (
        chain("append", "our-compaction"),
        Since(snapshot_id="1"),
        ("only-maintenance", 2),
    ),
    "empty-row-delta": (chain("append", "empty-delta"), Since(snapshot_id="1"), ("only-maintenance", 2)),
    "rolled-back": (rolled_back("append", "append", to=1), Since(snapshot_id="2"), ("rolled-back", 2, 1, 0, None)),
    "rolled-back-and-written-since": (
        rolled_back("append", "append", to=1, then="delete"),
        Since(snapshot_id="2"),
        ("rolled-back", 2, 3, 1, "delete"),
    ),
    "only-a-compaction-rolled-back": (
        rolled_back("append", "compaction", to=1),
        Since(snapshot_id="2"),
        ("only-maintenance", 1),
    ),
    "rolled-back-behind-an-expired-fork": (
        expire(rolled_back("append", "append", "append", to=1, then="append"), 1, 2),
        Since(snapshot_id="3"),
        ("history-expired", 3, 4, 1, "append"),
    ),
    "head-without-a-parent-that-is-not-known-to-be-the-first": (
        TableHead(head="3", snapshots={"1": record(1, None, "append"), "3": record(3, None, "append")}),
        Since(snapshot_id="1"),
        ("history-expired", 1, 3, 1, "append"),
    ),
    "version-1-head-without-a-parent-that-is-not-known-to-be-the-first": (
        TableHead(
            head="3",
            snapshots={
                "1": replace(record(1, None, "append"), sequence_number=0, summary=FIRST),
                "3": replace(record(3, None, "append"), sequence_number=0),
            },
        ),
        Since(snapshot_id="1"),
        ("history-expired", 1, 3, 1, "append"),
    ),
    "version-1-table-replaced": (
        TableHead(
            head="3",
            snapshots={
                "1": replace(record(1, None, "append"), sequence_number=0, summary=FIRST),
                "3": replace(record(3, None, "append"), sequence_number=0, summary=FIRST),
            },
        ),
        Since(snapshot_id="1"),
        ("replaced", 1, 3, 1, "append"),
    ),
    "table-replaced": (
        TableHead(
            head="3",
            snapshots={"1": record(1, None, "append"), "3": replace(record(3, None, "append"), summary=FIRST)},
        ),
        Since(snapshot_id="1"),
        ("replaced", 1, 3, 1, "append"),
    ),
    "table-replaced-and-written-since": (
        TableHead(
            head="4",
            snapshots={
                "1": record(1, None, "append"),
                "2": record(2, 1, "append"),
                "3": replace(record(3, None, "append"), summary=FIRST),
                "4": record(4, 3, "delete"),
            },
        ),
        Since(snapshot_id="2"),
        ("replaced", 2, 4, 2, "delete"),
    ),
    "replaced-table-whose-old-snapshots-are-gone": (
        TableHead(head="3", snapshots={"3": replace(record(3, None, "append"), summary=FIRST)}),
        Since(snapshot_id="1"),
        ("start-expired", 1, 3, 1, "append"),
    ),
    "rolled-back-to-what-is-older-than-the-start-though-the-root-is-gone": (
        expire(replace(chain("append", "append", "append"), head="2"), 1),
        Since(snapshot_id="3"),
        ("rolled-back", 3, 2, 0, None),
    ),
    "start-expired": (
        expire(chain("append", "append", "append", "append"), 1, 2),
        Since(snapshot_id="1"),
        ("start-expired", 1, 4, 2, "append"),
    ),
    "start-expired-only-compactions-left": (
        expire(chain("append", "append", "compaction"), 1, 2),
        Since(snapshot_id="1"),
        ("start-expired", 1, 3, 0, None),
    ),
    "start-expired-but-it-is-the-parent-of-a-compaction": (
        expire(chain("append", "compaction"), 1),
        Since(snapshot_id="1"),
        ("only-maintenance", 2),
    ),
    "start-expired-and-its-child-wrote": (
        expire(chain("append", "append"), 1),
        Since(snapshot_id="1"),
        ("start-expired", 1, 2, 1, "append"),
    ),
    "tagged-start-behind-an-expired-history": (
        expire(chain("append", "append", "compaction"), 2),
        Since(snapshot_id="1"),
        ("history-expired", 1, 3, 0, None),
    ),
    "tagged-start-behind-a-history-expired-by-pyiceberg": (
        expire_like_pyiceberg(chain("append", "append", "append"), 2),
        Since(snapshot_id="1"),
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
        replace(chain("append", "append"), log=((logged(1), "1"), (logged(9), "2"))),
        minutes(5),
        ("linear", 1, 2, 1, "append"),
    ),
    "since-a-time-on-a-branch-which-has-no-log": (
        replace(chain("append", "append"), log=()),
        minutes(1.5),
        ("linear", 1, 2, 1, "append"),
    ),
    "consumer": (
        replace(chain("append", "append"), consumers={"revenue": "1"}),
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
def test_a_head_is_a_new_snapshot_or_not(table: TableHead, since: Since, expected: tuple[object, ...]) -> None:
    assert summary_of(decide(table, since)) == expected


def test_a_snapshot_without_a_summary_counts_as_a_change() -> None:
    bare = Snapshot(id="2", parent="1", at=int(START.timestamp() * 1000), sequence_number=2)
    table = TableHead(head="2", snapshots={"1": record(1, None, "append"), "2": bare})
    assert summary_of(decide(table, Since(snapshot_id="1"))) == ("linear", 1, 2, 1, None)


def test_counts_are_summed_over_the_commits_that_changed_rows() -> None:
    answer = decide(chain("append", "append", "compaction", "upsert"), Since(snapshot_id="1"))
    assert isinstance(answer, NewSnapshot)
    assert answer.counts == {
        "added-records": 15,
        "added-data-files": 1,
        "added-position-deletes": 2,
        "added-delete-files": 1,
    }


def test_rows_are_collected_until_enough_were_added() -> None:
    enough = EventThreshold(min_added_rows=25)
    waiting = decide(chain("append", "append", "append"), Since(snapshot_id="1"), threshold=enough)
    assert waiting == NoNewSnapshot(reason=SkipReason.TOO_FEW_ROWS, seen=None)
    assert summary_of(
        decide(chain("append", "append", "append", "append"), Since(snapshot_id="1"), threshold=enough)
    ) == (
        "linear",
        1,
        4,
        3,
        "append",
    )


@pytest.mark.parametrize("case", ["rolled-back", "start-expired", "tagged-start-behind-an-expired-history"])
def test_what_added_rows_cannot_measure_does_not_wait_for_them(case: str) -> None:
    table, since, expected = CASES[case]
    assert summary_of(decide(table, since, threshold=EventThreshold(min_added_rows=10_000))) == expected


def test_events_keep_their_distance() -> None:
    table, threshold = chain("append", "append"), EventThreshold(min_interval=timedelta(minutes=10))
    soon, later = START + timedelta(minutes=9, seconds=59), START + timedelta(minutes=10)
    early = decide(table, Since(snapshot_id="1"), threshold=threshold, last_event_at=START, now=soon)
    assert early == NoNewSnapshot(reason=SkipReason.TOO_SOON, seen=None)
    assert isinstance(
        decide(table, Since(snapshot_id="1"), threshold=threshold, last_event_at=START, now=later), NewSnapshot
    )


def test_the_payload_is_json_with_ids_as_text_and_the_keys_of_airflows_own_trigger() -> None:
    big = str(2**62 + 1)
    table = TableHead(head=big, snapshots={big: replace(record(2, 1, "append"), id=big)})
    answer = decide(table, Since(snapshot_id="1"))
    assert isinstance(answer, NewSnapshot)
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
        (5, Since(snapshot_id="5")),
        ("05", Since(snapshot_id="5")),
        ("snapshot:v 2@é", Since(snapshot_id="v 2@é")),
        ("snapshot:05", Since(snapshot_id="05")),
        ("snapshot:snapshot:", Since(snapshot_id="snapshot:")),
        ("4611686018427387905", Since(snapshot_id="4611686018427387905")),
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


@pytest.mark.parametrize(
    "given_",
    ["", "None", "snapshot:", "yesterday", "2026-11-20T08:00:00", True, datetime(2026, 11, 20)],  # noqa: DTZ001  the naive time is the point
)
def test_any_other_since_is_refused_by_its_value(given_: str | datetime) -> None:
    with pytest.raises(InvalidSpecError, match="since="):
        Since.parse(given_)


IDS = (
    st.integers(0, 2**64).map(str)
    | st.text(min_size=1)
    | st.sampled_from(["None", "007", "v@7", "snapshot:7@9", "%40"])
)


@given(IDS, st.none() | st.integers(0, 2**33))
def test_a_watermark_survives_being_stored_whatever_an_id_is(snapshot_id: str, event_second: int | None) -> None:
    event_at = None if event_second is None else datetime.fromtimestamp(event_second, UTC)
    mark = Watermark(snapshot_id, event_at)
    assert Watermark.parse(mark.to_text()) == mark


@given(IDS)
def test_a_start_survives_being_sent_to_a_trigger_whatever_an_id_is(snapshot_id: str) -> None:
    since = Since(snapshot_id=snapshot_id)
    assert Since.parse(since.to_text() or "") == since


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (Watermark("4611686018427387905", START), "4611686018427387905@1795161600"),
        (Watermark("4611686018427387905"), "4611686018427387905"),
        (Watermark("v 2@é", START), "snapshot:v%202%40%C3%A9@1795161600"),
    ],
)
def test_a_watermark_of_a_number_is_kept_as_digits_as_it_has_always_been(mark: Watermark, text: str) -> None:
    assert mark.to_text() == text
    assert Watermark.parse(text) == mark


@pytest.mark.parametrize("text", ["", "abc", "12@", "snapshot:", "snapshot:a@b", "{'snapshot_id': 1}"])
def test_a_watermark_of_somebody_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpecError, match="watermark"):
        Watermark.parse(text)

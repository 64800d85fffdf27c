"""The model that the tests with Spark compare with keeps what a history promises, for any events in any order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.spark.history_model import CITIES, Event, Version, after, all_at_once, faults

EVENTS = st.builds(
    Event,
    key=st.integers(0, 1),
    at=st.integers(0, 5),
    seq=st.integers(1, 3),
    city=st.sampled_from(CITIES),
    note=st.sampled_from("xyz"),
    deletes=st.sampled_from((False, False, False, True)),
)


def once(events: list[Event]) -> list[Event]:
    """One event for each key, time and number: two rows that differ alone in values have no order."""
    return list({(each.key, each.at, each.seq): each for each in events}.values())


def batch_by_batch(batches: list[list[Event]]) -> list[Version]:
    table: list[Version] = []
    for batch in batches:
        table = after(table, batch)
    return table


def in_batches(events: list[Event], size: int) -> list[list[Event]]:
    return [events[start : start + size] for start in range(0, len(events), size)]


BATCHES = st.builds(in_batches, st.lists(EVENTS).map(once), st.integers(1, 4))


@given(BATCHES)
def test_versions_never_overlap_and_a_key_has_at_most_one_that_is_valid_now(batches: list[list[Event]]) -> None:
    assert not faults(batch_by_batch(batches))


@given(st.lists(EVENTS, unique_by=lambda event: (event.key, event.at)), st.integers(1, 4))
def test_the_last_batch_again_changes_nothing_where_a_key_has_one_event_of_a_time(
    events: list[Event], size: int
) -> None:
    batches = in_batches(events, size)
    table = batch_by_batch(batches)
    assert after(table, batches[-1] if batches else []) == table


@given(BATCHES)
def test_batches_in_the_order_of_time_give_the_table_of_all_events_at_once(batches: list[list[Event]]) -> None:
    events = [event for batch in batches for event in batch]
    in_time = [[event for event in events if event.at // 2 == two] for two in range(3)]
    assert batch_by_batch(in_time) == all_at_once(events)


@given(BATCHES)
def test_rows_that_all_differ_give_one_table_in_any_order(batches: list[list[Event]]) -> None:
    rows = [[replace(e, deletes=False, city=f"{e.at}.{e.seq}") for e in batch] for batch in batches]
    assert batch_by_batch(rows) == all_at_once(event for batch in rows for event in batch)


@given(BATCHES)
def test_the_newest_row_of_a_key_is_the_one_that_is_valid_now_in_any_order(batches: list[list[Event]]) -> None:
    rows = [[replace(event, deletes=False) for event in batch] for batch in batches]
    newest: dict[int, Event] = {}
    for event in sorted((event for batch in rows for event in batch), key=lambda event: (event.at, event.seq)):
        newest[event.key] = event
    now = {row.key: (row.city, row.note, row.at) for row in batch_by_batch(rows) if row.until is None}
    assert now == {key: (event.city, event.note, event.at) for key, event in newest.items()}

"""Consumers of a table with a long history: what each has not read, and what it costs to say so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.table_facts import Reference, Snapshot, TableFacts
from airflow_lake_provider.maintenance.history import consumer_lags

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def made(changes: list[bool], read: list[int]) -> tuple[TableFacts, list[Snapshot]]:
    """Return a table whose snapshots change rows or not, oldest first, and its history; consumers read up to places."""
    history = [
        Snapshot(
            id=str(place),
            parent=str(place - 1) if place else None,
            at=int((NOW - timedelta(minutes=len(changes) - place)).timestamp() * 1000),
            sequence_number=place + 1,
            summary={"operation": "append" if is_change else "replace", "added-records": "1"},
        )
        for place, is_change in enumerate(changes)
    ]
    tags = [(f"lake.consumer.c{number}", str(place)) for number, place in enumerate(read)]
    facts = TableFacts(
        name="shop.orders",
        uuid="u",
        location="l",
        format_version=2,
        properties={},
        snapshots={each.id: each for each in history},
        references={name: Reference(name=name, snapshot=at, is_branch=False) for name, at in tags},
        read_shape=lambda: None,  # type: ignore[arg-type,return-value]  # nobody asks
    )
    return facts, history[::-1]


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.lists(st.integers(0, 35), max_size=5))
def test_a_consumer_has_not_read_the_changes_behind_its_tag(changes: list[bool], read: list[int]) -> None:
    facts, history = made(changes, read)
    for number, lag in enumerate(sorted(consumer_lags(facts, history, NOW), key=lambda each: int(each.consumer[1:]))):
        unread = [place for place, is_change in enumerate(changes) if is_change and place > read[number]]
        is_there = read[number] < len(changes)
        assert lag.commits == (len(unread) if is_there else None)
        oldest = timedelta(minutes=len(changes) - unread[0]) if unread else timedelta(0)
        assert lag.behind == (oldest if is_there else None)


def test_each_snapshot_is_judged_once_however_many_consumers_there_are() -> None:
    facts, history = made([True] * 300, list(range(200)))
    judged: list[str] = []
    is_change = Snapshot.changes_rows.fget  # type: ignore[attr-defined]

    def noted(snapshot: Snapshot) -> bool:
        judged.append(snapshot.id)
        return bool(is_change(snapshot))

    with patch.object(Snapshot, "changes_rows", property(noted)):
        assert len(consumer_lags(facts, history, NOW)) == 200
    assert len(judged) <= 300

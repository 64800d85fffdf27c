"""Snapshots that nobody has to search for times of other units."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.iceberg.foreign_times import has_only_our_files_since
from tests.table_facts import table_of


def snapshot(id_: str, parent: str | None, *, ours: bool) -> Snapshot:
    return Snapshot(id=id_, parent=parent, at=int(id_), summary={"lake.action": "upsert"} if ours else {})


# Of another writer are 1, 3 and 6; the parent of 5 was expired.
FACTS = table_of(
    snapshot("1", None, ours=False),
    snapshot("2", "1", ours=True),
    snapshot("3", "2", ours=False),
    snapshot("4", "3", ours=True),
    snapshot("5", "0", ours=True),
    snapshot("6", "4", ours=False),
    snapshot("7", None, ours=True),
)


@pytest.mark.parametrize(
    ("id_", "seen", "is_sure"),
    [
        ("1", {"1"}, True),
        ("1", set(), False),
        ("2", {"1"}, True),
        # Another writer came in between.
        ("4", {"1"}, False),
        ("4", {"1", "3"}, True),
        ("3", {"2"}, False),
        ("6", {"4"}, False),
        # What came before is not known any more.
        ("5", {"1"}, False),
        ("7", {"1"}, False),
        # A roll-back to a snapshot that was not looked at.
        ("2", {"4"}, False),
        ("8", {"1"}, False),
    ],
)
def test_only_commits_of_ours_leave_a_snapshot_as_sure_as_the_one_they_began_at(
    id_: str, seen: set[str], is_sure: bool
) -> None:
    assert has_only_our_files_since(FACTS, id_, seen) is is_sure

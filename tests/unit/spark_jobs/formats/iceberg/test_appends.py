"""Each data file with a recent row is a recent file, whatever compactions and expiries did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.spark_jobs.formats.commits import RecentRows
from airflow_lake_provider.spark_jobs.formats.iceberg.appends import least_number

NOW = datetime(2026, 5, 5, tzinfo=UTC)


@dataclass
class File:
    """A data file.

    :param number: its data sequence number.
    :param ages: in hours, of its rows' commits.
    """

    number: int
    ages: list[int]


def snapshot(number: int, age: int) -> Snapshot:
    """Return a snapshot that was committed so many hours ago."""
    at = (NOW - timedelta(hours=age)).timestamp() * 1000
    return Snapshot(id=str(number), parent=None, at=int(at), sequence_number=number, summary={}, shares_commit=False)


def within(hours: int) -> RecentRows:
    """Return the rows of the last hours."""
    return RecentRows(within=timedelta(hours=hours))


@given(
    steps=st.lists(st.tuples(st.sampled_from(["append", "compact"]), st.integers(1, 5)), min_size=4, max_size=12),
    hours=st.integers(1, 25),
    expired=st.integers(0, 3),
    upgraded=st.integers(0, 12),
)
def test_a_file_with_a_row_of_the_time_is_recent(
    steps: list[tuple[str, int]], hours: int, expired: int, upgraded: int
) -> None:
    age, files, history = 2 + sum(pause for _, pause in steps), list[File](), list[Snapshot]()
    for place, (step, pause) in enumerate(steps):
        # Before an upgrade from format version 1 nothing has a number.
        number = 0 if place < upgraded else place + 1
        if step == "append":
            files.append(File(number, [age]))
        else:
            began_at = history[-1].sequence_number if history else 0
            files = [File(began_at, [each for file in files for each in file.ages])] if files else []
        history.append(snapshot(number, age))
        age -= pause
    left = history[expired:]
    least = least_number(within(hours), [file.number for file in files], reversed(left), NOW)
    for file in files:
        if min(file.ages) <= hours:
            assert file.number >= least
        if not expired and not upgraded and all(step == "append" for step, _ in steps):
            # No more of them than there have to be.
            assert (file.number >= least) == (file.ages[0] <= hours)


@pytest.mark.parametrize(
    ("files", "numbers", "least"),
    [(1, [3, 7, 5], 7), (2, [3, 7, 5], 5), (4, [3, 7, 5], 0), (2, [], 0), (2, [4, 4, 4], 4)],
)
def test_the_files_added_last_have_the_greatest_numbers(files: int, numbers: list[int], least: int) -> None:
    assert least_number(RecentRows(files=files), numbers, [], NOW) == least

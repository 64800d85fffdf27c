"""A load without a position is recognised exactly while its own input is what its run has put in place last."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys, RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.overwrite_partitions import OverwritePartitionsSpec
from airflow_lake_provider.spark_jobs.actions.already_applied import recognised
from airflow_lake_provider.spark_jobs.formats.base import AppliedState
from airflow_lake_provider.spark_jobs.sources.files import FilesListing

NOW = datetime(2026, 5, 5, tzinfo=UTC)
RUNS = ("monday", "tuesday", "monday, cleared")


@dataclass
class Days:
    """A table with one partition, which all runs replace.

    :param holds: the run and its input that were put in place last.
    :param last_of: the same by run.
    """

    keys: RecentRunKeys = field(default_factory=RecentRunKeys)
    holds: tuple[str, str] | None = None
    last_of: dict[str, str] = field(default_factory=dict)

    def load(self, run: str, given: str) -> bool:
        """Run a try, and return whether it has written."""
        identity = RunIdentity.of(run, try_number=5, run_after=datetime(2020, 1, 1, tzinfo=UTC))
        spec = OverwritePartitionsSpec(
            catalog="lake", table="shop.days", run=identity, source=Files(f"in/{given}.parquet", name="in")
        )
        key = identity.run_key(spec.digest_text(), (given,))
        listed: Any = FilesListing(source_name="in")
        if recognised(spec, AppliedState(run_keys=self.keys), listed, key) is not None:
            return False
        self.keys = self.keys.add(key, NOW)
        self.holds, self.last_of[run] = (run, given), given
        return True


@given(tries=st.lists(st.tuples(st.sampled_from(RUNS), st.sampled_from(("old", "corrected"))), max_size=12))
def test_a_try_is_left_out_only_where_its_run_has_put_the_same_input_in_place_last(
    tries: list[tuple[str, str]],
) -> None:
    days = Days()
    for run, given_input in tries:
        was_last = days.last_of.get(run) == given_input
        assert days.load(run, given_input) is not was_last
        assert days.last_of[run] == given_input


def test_a_run_that_the_table_has_forgotten_puts_its_rows_in_place_again() -> None:
    days = Days()
    days.load("monday", "old")
    for number in range(150):
        days.load(f"other {number}", "old")
    assert days.keys.dropped_before is not None
    assert days.load("monday", "old")

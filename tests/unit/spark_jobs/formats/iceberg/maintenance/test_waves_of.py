"""Waves of a rewrite's groups: as many commits as were allowed, and no cores left idle."""

from __future__ import annotations

import math

from hypothesis import example, given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.rewrite_data_files import Wave, waves_of


def waves(groups: int, **arguments: object) -> list[Wave]:
    run = RunIdentity.of("dag", "run", "task", "-1")
    return waves_of(groups, CompactionSpec(catalog="lake", table="shop.orders", run=run, **arguments))  # type: ignore[arg-type]  # as kwargs


def commits_of(wave: Wave) -> int:
    """Commits that Iceberg's RewriteDataFilesSparkAction makes of it."""
    assert wave.commits is not None
    return math.ceil(wave.groups / math.ceil(wave.groups / wave.commits))


@given(st.integers(1, 5_000), st.integers(1, 200))
@example(12, 10)
@example(1, 1)
def test_waves_hold_all_groups_in_no_more_commits_than_allowed(groups: int, max_commits: int) -> None:
    made = waves(groups, max_commits=max_commits)
    assert sum(each.groups for each in made) == groups
    assert sum(commits_of(each) for each in made) <= max_commits
    assert len(made) <= min(10, max_commits)
    assert all(each.groups >= min(5, groups) for each in made[:-1])
    assert {each.is_whole for each in made} == {len(made) == 1}


def test_a_few_groups_and_those_of_one_commit_are_one_wave() -> None:
    assert waves(5) == [Wave(groups=5, commits=5)]
    assert waves(300, max_commits=1) == [Wave(groups=300, commits=1)]
    assert waves(300, partial_progress=False) == [Wave(groups=300)]


def test_a_hundred_groups_are_ten_commits_in_ten_waves() -> None:
    assert waves(100) == [Wave(groups=10, commits=1, is_whole=False)] * 10

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionStrategy
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_facts import TableState
from airflow_lake_provider.iceberg.compaction_rules import (
    EQUALITY_DELETES,
    OFF,
    choose_level,
    counted_deletes,
    rules_for,
    surely_nothing_due,
    target_size_owner,
)
from airflow_lake_provider.iceberg.owner_settings import owner_policy
from airflow_lake_provider.tables.iceberg.head_files import target_bytes
from tests.table_facts import table_of


def spec(**arguments: object) -> CompactionSpec:
    run = RunIdentity.of("dag", "run", "task", "-1")
    return CompactionSpec(catalog="lake", table="shop.orders", run=run, **arguments)  # type: ignore[arg-type]  # as kwargs


@pytest.mark.parametrize(
    ("state", "equality_deletes", "level"),
    [
        (TableState(rows=100, data_files=10), 0, CompactionLevel.MINOR),
        (TableState(rows=91, deleted_rows=9, data_files=10, delete_files=9), 0, CompactionLevel.MINOR),
        (TableState(rows=90, deleted_rows=10, data_files=10, delete_files=1), 0, CompactionLevel.MAJOR),
        (TableState(rows=99, deleted_rows=1, data_files=10, delete_files=10), 0, CompactionLevel.MAJOR),
        (TableState(rows=100, data_files=10, delete_files=1), 5, CompactionLevel.MAJOR),
        (TableState(), 0, CompactionLevel.MINOR),
        (TableState(), None, CompactionLevel.MAJOR),
    ],
    ids=[
        *("no-deletes", "few-deletes", "past-the-ratio", "a-delete-file-per-file", "equality-deletes", "no-rows"),
        "uncounted",
    ],
)
def test_auto_is_major_when_deletes_weigh_on_reads(
    state: TableState, equality_deletes: int | None, level: CompactionLevel
) -> None:
    assert choose_level(spec(), state, equality_deletes)[0] is level


@pytest.mark.parametrize(
    ("listed", "files", "keys", "counted"),
    [
        (3, "3", "9", 9),
        (3, "3", None, None),
        (3, "0", "0", None),
        (3, "1", "4", None),
        (3, None, "9", None),
        (0, "0", "0", 0),
        (0, None, None, 0),
        (None, "0", None, 0),
        (None, "3", "9", 9),
        (None, None, None, None),
    ],
)
def test_a_total_of_deletes_is_taken_where_the_manifest_list_has_no_others(
    listed: int | None, files: str | None, keys: str | None, counted: int | None
) -> None:
    given = {"total-delete-files": files, EQUALITY_DELETES: keys}
    summary = {name: value for name, value in given.items() if value is not None}
    assert counted_deletes(summary, EQUALITY_DELETES, listed) == counted


def test_a_level_that_was_asked_for_is_taken() -> None:
    assert choose_level(spec(level=CompactionLevel.FULL), TableState(), 5)[0] is CompactionLevel.FULL


def test_only_major_asks_for_every_file_with_deletes() -> None:
    assert rules_for(spec(), CompactionLevel.MINOR, None).delete_file_threshold == OFF
    assert rules_for(spec(), CompactionLevel.MAJOR, None).delete_file_threshold == 1
    assert rules_for(spec(delete_file_threshold=0), CompactionLevel.MAJOR, None).delete_file_threshold == OFF
    assert rules_for(spec(), CompactionLevel.FULL, None).rewrite_all


def test_the_target_is_the_specs_then_the_tables_then_icebergs() -> None:
    assert rules_for(spec(target_file_size=7), CompactionLevel.MINOR, 9).target_bytes == 7
    assert rules_for(spec(), CompactionLevel.MINOR, 9 << 20).target_bytes == 9 << 20
    assert rules_for(spec(), CompactionLevel.MINOR, None).target_bytes == 512 * 1024 * 1024


@pytest.mark.parametrize("size", [1, 2**20 - 1, 2**40 + 1, 2**62])
def test_a_strangers_target_of_a_byte_or_of_all_bytes_is_not_followed_and_the_report_says_so(size: int) -> None:
    rules = rules_for(spec(), CompactionLevel.FULL, size)
    assert (rules.target_bytes, rules.max_bytes) == (512 * 1024**2, int(1.8 * 512 * 1024**2))
    assert f"{size:,}, is not followed" in target_size_owner(spec(), size)
    assert target_size_owner(spec(target_file_size=7), size).startswith("; target_file_size is the DAG's and not")
    assert list(owner_policy({"write.target-file-size-bytes": str(size)})) == []
    assert target_bytes(table_of(properties={"write.target-file-size-bytes": str(size)})) == 512 * 1024**2


def test_groups_are_small_only_where_their_commits_are_separate_and_their_order_does_not_matter() -> None:
    in_parts = rules_for(spec(), CompactionLevel.MINOR, None).group_bytes
    at_once = rules_for(spec(partial_progress=False), CompactionLevel.MINOR, None).group_bytes
    ordered = rules_for(spec(strategy=CompactionStrategy.SORT), CompactionLevel.MINOR, None).group_bytes

    assert in_parts == 8 * 1024**3
    assert at_once == ordered == 100 * 1024**3


@pytest.mark.parametrize(
    ("state", "proven"),
    [
        (TableState(), True),
        (TableState(data_files=4, data_bytes=100), True),
        (TableState(data_files=5, data_bytes=100), False),
        (TableState(data_files=4, data_bytes=10**12), False),
        (TableState(data_files=1, data_bytes=100, delete_files=1), False),
    ],
    ids=["empty", "too-few-to-merge", "enough-files", "too-many-bytes", "deletes"],
)
def test_the_summary_proves_that_nothing_is_due_only_where_it_can(state: TableState, proven: bool) -> None:
    assert surely_nothing_due(rules_for(spec(), CompactionLevel.MAJOR, None), state) is proven

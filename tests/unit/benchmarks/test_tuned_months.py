"""Simulated months: tuned defaults pay where they are said to, and what is simulated adds up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.benchmarks.simulated_table import MIB, Commit, SimulatedTable, initial, sizes_of
from tests.benchmarks.tuning import BEGIN, bursts, month, nightly_bulk

DAY = timedelta(days=1)


def test_a_month_of_nightly_partitions_costs_less_than_a_third_with_tuned_defaults() -> None:
    fixed, ours = (month(nightly_bulk, 3, DAY, is_tuned=is_tuned) for is_tuned in (False, True))
    assert ours.debt * ours.rewritten < 0.33 * fixed.debt * fixed.rewritten
    assert ours.tuned["compaction.small_file_share"] < 0.2


def test_a_month_of_a_table_that_is_rarely_written_to_stays_as_it_was() -> None:
    fixed, ours = (month(bursts, 4, DAY, is_tuned=is_tuned) for is_tuned in (False, True))
    assert (ours.debt, ours.rewritten) == (fixed.debt, fixed.rewritten)


def test_read_debt_counts_files_deletes_and_deleted_bytes() -> None:
    table = SimulatedTable("shop.orders", is_partitioned=True)
    initial(table, BEGIN, [("day=1", 400 * MIB), ("day=1", 200 * MIB), ("day=2", 100 * MIB), ("day=2", 100 * MIB)])
    # 600 MiB fill two files of 512, and 200 MiB one: one file of four is opened in vain.
    assert table.read_debt == 1
    path = next(iter(table.files))
    table.commit(Commit(at=BEGIN + DAY, deleted={path: 8 * MIB // 100}))
    assert table.read_debt == pytest.approx(1 + 1 + 2, abs=0.001)


def test_a_compaction_leaves_the_live_bytes_in_files_of_the_target_and_no_delete() -> None:
    table = SimulatedTable("shop.orders")
    initial(table, BEGIN, [("", 60 * MIB)] * 20)
    table.commit(Commit(at=BEGIN + DAY, deleted=dict.fromkeys(list(table.files)[:10], 30 * MIB // 100)))
    task = {"action": "compaction", "table": "shop.orders", "level": "major", "target_file_size": 300 * MIB}
    read = table.carry_out(task, BEGIN + 2 * DAY)
    assert read == 1_200 * MIB
    assert sum(each.bytes for each in table.files.values()) == pytest.approx(900 * MIB, rel=0.001)
    assert len(table.files) == 3
    assert table.deletes == {}


@pytest.mark.parametrize(
    ("megabytes", "files"),
    [
        (10, [10]),
        (512, [512]),
        (560, [560]),
        (600, [512, 88]),
        (950, [512, 438]),
        (1_050, [525, 525]),
        (1_250, [512, 512, 226]),
    ],
)
def test_a_rewrite_leaves_the_files_that_iceberg_would(megabytes: int, files: list[int]) -> None:
    # expectedOutputFiles and inputSplitSize of SizeBasedFileRewritePlanner, by hand.
    assert [size // MIB for size in sizes_of(megabytes * MIB, 512 * MIB)] == files


def test_a_month_comes_out_the_same_again() -> None:
    one, again = (month(bursts, 2, DAY, is_tuned=True) for _ in range(2))
    assert one == again

"""Writers who delete rows of the files that Arrow rewrites do not undo it: the rows go from the new files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files import deleted_positions
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow import rewrite_groups
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.commit_groups import GroupCommit
from tests.spark.equality_delete import delete_by_equality
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import compact, with_six_files_and_deletes

BY_ARROW: dict[str, Any] = {"runner": CompactionRunner.ARROW, "level": CompactionLevel.FULL}
BY_PARTITION = {"write.delete.granularity": "partition"}


def interrupted(monkeypatch: pytest.MonkeyPatch, *writers: Callable[[], Any]) -> None:
    """Let a writer commit before each try of a commit whose files are written, until all have."""
    left, replace = iter(writers), GroupCommit._replace

    def replace_later(self: GroupCommit, *given: Any) -> None:
        try:
            next(left, lambda: None)()
        except Exception as error:
            raise AssertionError("the writer failed") from error
        replace(self, *given)

    monkeypatch.setattr(GroupCommit, "_replace", replace_later)


def assert_rewritten(table: MaintainedTable, report: CompactionReport, moved: int) -> None:
    """All rows are there and no others, by two readers; the report says how many were deleted meanwhile."""
    assert (report.outcome, report.attempts) == (Outcome.DONE, 1)
    said = f"{moved:,} rows that writers deleted meanwhile are deleted in the new files"
    assert (said in report.reason) is (moved > 0), report.reason
    assert table.rows_read() == table.rows
    assert {row["id"]: (row["region"], row["amount"]) for row in table.records()} == table.rows


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partitioned", [False, True])
def test_rows_that_are_deleted_and_changed_meanwhile_are_so_in_new_files(
    spark: SparkSession, version: int, partitioned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, version=version, partitioned=partitioned))
    lineage = table.lineage() if version >= 3 else {}
    old = {*table.live_files()}

    def write() -> None:
        table.delete([0, 4, 99, 103, 599], table.other_session())
        table.append(900, 5, "north")

    interrupted(monkeypatch, write)
    report = compact(table, **BY_ARROW)

    assert_rewritten(table, report, 5)
    assert old.isdisjoint(table.live_files())
    if version >= 3:
        assert table.lineage().items() >= {id_: known for id_, known in lineage.items() if id_ in table.rows}.items()
    # The rows of before the writer are in one file of each partition; the appended ones and the merged are beside.
    assert set(table.rows_in_data_files()) == {*table.rows, 0, 4, 99, 103, 599}
    # And its own compaction is a plain one, with nothing left over.
    assert compact(table, **BY_ARROW).outcome is Outcome.DONE
    assert table.rows_in_data_files() == table.rows
    assert table.live_files(1) == []


@pytest.mark.parametrize("version", [2, 3])
def test_each_of_several_writers_in_a_row_is_followed(
    spark: SparkSession, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, version=version))

    def update() -> None:
        table.other_session().sql(f"UPDATE {table.name} SET amount = -4 WHERE id IN (10, 220)")
        table.rows.update({id_: (table.rows[id_][0], -4) for id_ in (10, 220)})

    interrupted(
        monkeypatch,
        lambda: table.delete([20, 120], table.other_session()),
        update,
        lambda: table.delete([220, 420, 421, 10], table.other_session()),
    )
    report = compact(table, **BY_ARROW)

    # An updated row is deleted in its old file. Its new one was not there when the rewrite began.
    assert_rewritten(table, report, 6)


def test_writers_who_never_pause_win_and_nothing_is_left_behind(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark))
    ids: Iterator[int] = iter(range(300, 400))
    interrupted(monkeypatch, *[lambda: table.delete([next(ids)], table.other_session())] * 11)
    before = table.files_on_disk()

    report = compact(table, max_attempts=1, **BY_ARROW)

    assert (report.outcome, table.rows_read()) == (Outcome.CONFLICT, table.rows)
    new = {path.name for path in table.files_on_disk() - before}
    assert {path for path in new if not path.startswith("0")} == set()
    assert sum(path.endswith(".parquet") for path in new) == 0
    assert sum(path.endswith(".puffin") for path in new) == 11


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_that_another_compaction_rewrote_is_a_conflict(
    spark: SparkSession, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, version=version))
    procedure = f"CALL system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))"
    interrupted(monkeypatch, lambda: table.other_session().sql(procedure))

    report = compact(table, max_attempts=1, **BY_ARROW)

    assert (report.outcome, table.rows_read()) == (Outcome.CONFLICT, table.rows)


def test_a_group_that_is_lost_keeps_back_no_other_of_partial_progress(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, partitioned=True))
    south = f"table => '{table.name}', where => \"region = 'south'\", options => map('rewrite-all', 'true')"

    def write() -> None:
        table.other_session().sql(f"CALL system.rewrite_data_files({south})")
        table.delete([100, 300, 500], table.other_session())

    interrupted(monkeypatch, write)
    report = compact(table, max_attempts=1, **BY_ARROW)

    assert (report.outcome, report.groups_rewritten, report.failed_groups) == (Outcome.CONFLICT, 1, 1)
    assert "3 rows that writers deleted meanwhile" in report.reason
    assert table.rows_read() == table.rows
    reached = {Path(path.removeprefix("file:")).name for path in table.live_files()}
    assert len(reached) == 2
    # What the lost group has written is gone.
    monkeypatch.undo()
    table.rewrite_metadata()
    assert compact(table, **BY_ARROW).outcome is Outcome.DONE
    assert table.rows_read() == table.rows


@pytest.mark.parametrize("by_key", [True, False], ids=["by key", "of a partition"])
def test_a_delete_file_that_is_on_several_data_files_is_a_conflict(
    spark: SparkSession, by_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MaintainedTable(spark, version=2, properties={} if by_key else BY_PARTITION)
    for place in range(3):
        table.append(place * 10, 10)

    def delete() -> None:
        if by_key:
            delete_by_equality(spark, table.handle.java, [5, 15])
            table.rows = {id_: row for id_, row in table.rows.items() if id_ not in (5, 15)}
        else:
            table.delete([5, 15], table.other_session())

    interrupted(monkeypatch, delete)
    report = compact(table, max_attempts=2, **BY_ARROW)

    assert (report.outcome, report.attempts, table.rows_read()) == (Outcome.DONE, 2, table.rows)


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_a_rollback_brought_back_stay(
    spark: SparkSession, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MaintainedTable(spark, version=version)
    for place in range(3):
        table.append(place * 10, 10)
    whole, rows = table.head(), dict(table.rows)
    table.delete([1, 2, 11])

    def roll_back_and_delete() -> None:
        table.other_session().sql(f"CALL system.rollback_to_snapshot('{table.name}', {whole})")
        table.rows = dict(rows)
        table.delete([2], table.other_session())

    interrupted(monkeypatch, roll_back_and_delete)
    report = compact(table, max_attempts=1, **BY_ARROW)

    assert report.outcome is not Outcome.DONE
    assert table.rows_read() == table.rows


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_by_key_that_a_branch_brings_after_a_rollback_is_no_older_than_new_files(
    spark: SparkSession, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MaintainedTable(spark, version=version)
    for place in range(3):
        table.append(place * 10, 10)
    first, rows = table.head(), dict(table.rows)
    delete_by_equality(spark, table.handle.java, [5, 15])
    table.create_branch("b")
    spark.sql(f"CALL system.rollback_to_snapshot('{table.name}', {first})")
    table.append(100, 10)
    table.append(200, 10)

    def call(procedure: str) -> None:
        table.other_session().sql(f"CALL system.{procedure}")

    interrupted(
        monkeypatch,
        lambda: call(f"rollback_to_snapshot('{table.name}', {first})"),
        lambda: call(f"fast_forward('{table.name}', 'main', 'b')"),
    )
    report = compact(table, where="id < 50", max_attempts=1, **BY_ARROW)

    assert report.outcome is not Outcome.DONE
    call(f"fast_forward('{table.name}', 'main', 'b')")
    assert table.rows_read() == {id_: row for id_, row in rows.items() if id_ not in (5, 15)}


def test_new_files_without_row_ids_do_not_serve_a_table_that_has_them_by_now(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, version=2))
    lineage: dict[int, tuple[int, int]] = {}

    def upgrade_and_delete() -> None:
        table.other_session().sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('format-version' = '3')")
        table.delete([300], table.other_session())
        lineage.update(table.lineage())

    interrupted(monkeypatch, upgrade_and_delete)
    report = compact(table, max_attempts=1, **BY_ARROW)

    assert (report.outcome, table.rows_read(), table.lineage()) == (Outcome.CONFLICT, table.rows, lineage)


def test_more_deletes_than_a_driver_takes_are_a_conflict(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark))
    monkeypatch.setattr(deleted_positions, "MOST_POSITIONS", 3)
    # Before the commit, workers read the deletes that there are, and those are more.
    monkeypatch.setattr(rewrite_groups, "MOST_BYTES_IN_DRIVER", 0)
    interrupted(monkeypatch, lambda: table.delete([300, 400, 500], table.other_session()))

    report = compact(table, max_attempts=1, **BY_ARROW)

    assert (report.outcome, table.rows_read()) == (Outcome.CONFLICT, table.rows)


def test_sorted_rows_are_in_another_order_so_that_a_delete_is_a_conflict(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark))
    interrupted(monkeypatch, lambda: table.delete([30], table.other_session()))

    report = compact(table, max_attempts=1, strategy="sort", sort_by=("amount",), **BY_ARROW)

    assert (report.outcome, table.rows_read()) == (Outcome.CONFLICT, table.rows)


@pytest.mark.parametrize("version", [2, 3])
@settings(
    max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_any_files_and_deletes_before_and_meanwhile_leave_the_rows_of_a_dict(
    spark: SparkSession, version: int, data: st.DataObject
) -> None:
    table = MaintainedTable(spark, version=version, partitioned=data.draw(st.booleans()))
    count = data.draw(st.integers(2, 5))
    sizes = [data.draw(st.sampled_from([1, 7, 3_000])) for _ in range(count)]
    for place, size in enumerate(sizes):
        table.append(place * 10_000, size, "north" if place % 2 else "south")

    def delete() -> int:
        ids = data.draw(st.lists(st.sampled_from(sorted(table.rows)), unique=True, min_size=1, max_size=40))
        if len(ids) < len(table.rows):
            table.delete(ids, table.other_session())
            return len(ids)
        return 0

    for _ in range(data.draw(st.integers(0, 2))):
        delete()
    moved: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, *[lambda: moved.append(delete())] * data.draw(st.integers(1, 3)))
        # Files of a few kilobytes, so that a group has several.
        report = compact(table, target_file_size=data.draw(st.sampled_from([4_000, 1 << 20])), **BY_ARROW)

    assert report.outcome is Outcome.DONE
    assert table.rows_read() == table.rows
    # A file whose rows were all deleted is gone, which is a conflict. Of several commits the first may come before.
    if (report.attempts, report.groups_rewritten) == (1, 1):
        assert_rewritten(table, report, sum(moved))

"""Orphan files are moved aside, come back, and go for good after their time; and none is lost on the way."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import JobFailedError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import RemovalMode
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import orphan_files
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.file_owners import file_owners
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.quarantined_files import QuarantinedFiles
from tests.spark import hostile_tables as hostile
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import remove_orphans as remove
from tests.spark.orphaned_files import ORPHANS, TEN_DAYS, files_of, folder_of, made_old, orphan, with_every_kind


class Killed(BaseException):
    """Ends a run as a killed driver does."""


# Files are copied, then deleted, one after another; a driver is killed before or after each of the two.
@pytest.mark.parametrize(("step", "call"), [("_copy", 1), ("_copy", 3), ("_length", 1), ("_length", 2), ("_length", 4)])
@pytest.mark.parametrize("does_it", [False, True], ids=["before", "after"])
def test_a_file_is_never_lost_whatever_moment_a_quarantine_or_a_restore_is_killed_at(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, step: str, call: int, does_it: bool
) -> None:
    table = MaintainedTable(spark)
    contents = {f"data/{place}.parquet": f"orphan {place}".encode() for place in range(3)}
    for name, content in contents.items():
        orphan(table, name).write_bytes(content)
        os.utime(folder_of(table) / name, (time.time() - TEN_DAYS,) * 2)
    places = [(str(folder_of(table) / name), len(content)) for name, content in contents.items()]

    def killed(run: Any) -> None:
        calls, given = iter(range(1, 99)), getattr(QuarantinedFiles, step)

        def stopped(*arguments: Any) -> Any:
            at = next(calls)
            if at == call and not does_it:
                raise Killed
            result = given(*arguments)
            if at == call:
                raise Killed
            return result

        with monkeypatch.context() as patch:
            patch.setattr(QuarantinedFiles, step, stopped)
            with pytest.raises(Killed):
                run()

    def whole() -> set[bytes]:
        return {path.read_bytes() for path in folder_of(table).rglob("*.parquet")} & set(contents.values())

    owners = file_owners(table.handle)[0]
    killed(lambda: QuarantinedFiles(table.handle).put(places))
    assert whole() == set(contents.values())
    QuarantinedFiles(table.handle).put(places)
    assert whole() == set(contents.values())
    killed(lambda: QuarantinedFiles(table.handle).restore(owners))
    assert whole() == set(contents.values())
    QuarantinedFiles(table.handle).restore(owners)
    assert {name: (folder_of(table) / name).read_bytes() for name in contents} == contents


def test_a_quarantine_gives_files_back_and_forgets_them_after_its_time(spark: SparkSession) -> None:
    table = with_every_kind(spark, version=2)
    orphans = {orphan(table, name) for name in ORPHANS}
    before = files_of(table)

    moved = remove(table, mode="quarantine")

    assert (moved.outcome, moved.files_removed, moved.files_purged) == (Outcome.DONE, len(orphans), 0)
    assert files_of(table) & before == before - orphans
    # Iceberg's own removal takes the folder for hidden, and so does the next run.
    assert remove(table).outcome is Outcome.NOTHING_DUE
    restored = remove(table, mode="restore", tables_checked=None)
    assert (restored.outcome, restored.files_restored) == (Outcome.DONE, len(orphans))
    assert files_of(table) == before
    assert {path.read_bytes() for path in orphans} == {b"orphan"}
    made_old(table)
    assert remove(table, mode="quarantine").files_removed == len(orphans)
    aside = files_of(table) - before
    assert len(aside) == len(orphans) + 1
    made_old(table)
    assert remove(table, quarantine_for=timedelta(days=11)).files_purged == 0
    # What no quarantine of ours has put there stays, and so does what has no time.
    strange = {orphan(table, f"_quarantine/{name}") for name in ("x.parquet", "day=1/000001-0000-x.parquet")}
    (journal,) = (path for path in aside if path.name.endswith(".moves.jsonl"))
    os.utime(journal, (0, 0))
    assert remove(table, quarantine_for=timedelta(days=9)).files_purged == len(orphans)
    assert files_of(table) == before - orphans | strange | {journal}
    assert table.rows_read() == table.rows


def test_a_journal_stays_as_long_as_files_that_come_back_by_it(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    home = orphan(table, "data/orphan.parquet")
    assert remove(table, mode="quarantine").files_removed == 1
    # A large file takes its time, so it is younger than the journal.
    (journal,) = folder_of(table).rglob("*.moves.jsonl")
    os.utime(journal, (time.time() - TEN_DAYS,) * 2)
    assert remove(table, quarantine_for=timedelta(days=9)).files_purged == 0
    assert remove(table, mode="restore").files_restored == 1
    assert home.read_bytes() == b"orphan"


def test_a_table_that_moved_gets_back_what_its_old_place_has_in_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    table, other = MaintainedTable(spark), MaintainedTable(spark)
    table.append(0, 3)
    other.append(0, 3)
    home, of_other = orphan(table, "data/orphan.parquet"), orphan(other, "data/orphan.parquet")
    assert remove(table, mode="quarantine").files_removed == remove(other, mode="quarantine").files_removed == 1
    spark.sql(f"ALTER TABLE {table.name} SET LOCATION 'file:{tmp_path}/moved'")
    # Its metadata goes to the new place, so that the log tells of the old one.
    table.append(3, 3)
    assert remove(table, mode="restore").files_restored == 1
    assert (home.exists(), of_other.exists()) == (True, False)
    assert remove(table, mode="restore").outcome is Outcome.NOTHING_DUE


def test_a_quarantine_where_the_table_lay_before_is_purged_after_its_time_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    orphan(table, "data/orphan.parquet")
    assert remove(table, mode="quarantine").files_removed == 1
    made_old(table)
    before = folder_of(table) / "_quarantine"
    spark.sql(f"ALTER TABLE {table.name} SET LOCATION 'file:{tmp_path}/moved'")
    table.append(3, 3)
    assert remove(table, quarantine_for=timedelta(days=11)).files_purged == 0
    assert remove(table, quarantine_for=timedelta(days=9)).files_purged == 1
    assert [path for path in before.rglob("*") if path.is_file()] == []
    assert set(table.outside().scan().to_arrow().column("id").to_pylist()) == set(range(6))


def test_a_restore_says_in_which_quarantines_files_stay(spark: SparkSession, tmp_path: Path) -> None:
    table, moved_to = MaintainedTable(spark), tmp_path / "moved"
    table.append(0, 3)
    lay_at = folder_of(table)
    homes = [orphan(table, "data/0.parquet")]
    assert remove(table, mode="quarantine").files_removed == 1
    spark.sql(f"ALTER TABLE {table.name} SET LOCATION 'file:{moved_to}'")
    table.append(3, 3)
    homes[0].write_bytes(b"newer!")
    with pytest.raises(UnsupportedError, match=rf"1 files could not .* stay in \S*{lay_at}/_quarantine: another"):
        remove(table, mode="restore")
    homes.append(moved_to / "data/1.parquet")
    homes[1].write_bytes(b"orphan")
    assert QuarantinedFiles(table.handle).put([(f"file:{homes[1]}", len(b"orphan"))]).moved == 1
    homes[1].write_bytes(b"newer!")
    both = rf"stay in \S*{moved_to}/_quarantine and \S*{lay_at}/_quarantine: another"
    with pytest.raises(UnsupportedError, match=f"2 files could not .* {both}"):
        remove(table, mode="restore")
    for home in homes:
        home.unlink()
    assert remove(table, mode="restore").files_restored == 2


def test_a_journal_that_names_what_is_not_the_tables_restores_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table, other = MaintainedTable(spark), MaintainedTable(spark)
    precious, aside = hostile.victim(tmp_path, "precious"), orphan(table, "_quarantine/run/x")
    of_other, around = orphan(other, "_quarantine/run/x"), f"{folder_of(table)}/_quarantine/../../{other.name[11:]}"
    home = f"file:{folder_of(table)}/data/x"
    moves = [
        {"from": f"file:{precious}", "to": f"file:{aside}", "size": len(b"orphan")},
        {"from": home, "to": f"file:{of_other}", "size": len(b"orphan")},
        {"from": home, "to": f"file:{around}/_quarantine/run/x", "size": len(b"orphan")},
    ]
    journal = folder_of(table) / "_quarantine/run/1.moves.jsonl"
    journal.write_text("".join(f"{json.dumps(move)}\n" for move in moves))
    (journal.parent / "0.moves.jsonl").write_text('{"from": "file:/cut o')
    with pytest.raises(UnsupportedError, match=r"3 files could not .* is not the table's own \(3\)"):
        remove(table, mode="restore")
    assert precious.read_text() == "precious precious"
    assert aside.exists()
    assert of_other.exists()


@pytest.mark.parametrize("text", [b"a newer one", b"newer!"], ids=["of another size", "of the same size"])
def test_a_file_that_came_since_is_not_overwritten_by_the_one_of_the_quarantine(
    spark: SparkSession, text: bytes
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    home = orphan(table, "metadata/v1.metadata.json")
    assert remove(table, mode="quarantine").files_removed == 1
    home.write_bytes(text)
    with pytest.raises(UnsupportedError, match=r"1 files could not be moved back, .* another file has come"):
        remove(table, mode="restore")
    assert home.read_bytes() == text
    home.unlink()
    assert remove(table, mode="restore").files_restored == 1
    assert home.read_bytes() == b"orphan"


def test_a_restore_or_a_removal_of_which_storage_takes_nothing_fails_with_its_cause(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    homes = [orphan(table, f"data/gone/{place}.parquet") for place in range(2)]
    sizes = [(f"file:{home}", home.stat().st_size) for home in homes]
    files = QuarantinedFiles(table.handle)
    assert files.put([*sizes, (f"file:{folder_of(table)}/data/is-gone.parquet", 1)]).moved == 2
    homes[0].parent.rmdir()
    homes[0].parent.write_bytes(b"a file in the way of a folder")
    with pytest.raises(JobFailedError, match=r"2 files could not .* stay in .*_quarantine: \w+Exception"):
        remove(table, mode="restore")
    homes[0].parent.unlink()
    assert remove(table, mode="restore").files_restored == 2
    made_old(table)
    # Hadoop tries each of them again for seconds.
    monkeypatch.setattr(orphan_files, "delete_files", lambda _, locations: len(locations))
    with pytest.raises(JobFailedError, match=r"2 orphan files could not be removed.*storage did not delete it"):
        remove(table)


def test_the_table_is_looked_at_before_each_batch_of_files(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphan_files, "_BATCHES", {RemovalMode.QUARANTINE: 1})
    table = MaintainedTable(spark)
    table.append(0, 3)
    orphans = [orphan(table, f"data/{place}.parquet") for place in range(3)]
    looks, names_since = [], orphan_files._Reached.names_since

    def commit_before_the_second(reached: Any) -> set[str]:
        looks.append(1)
        if len(looks) == 2:
            left = [path for path in orphans if path.exists()]
            assert len(left) == 2
            hostile.add_data_file(table, *(f"file:{path}" for path in left))
        return names_since(reached)

    monkeypatch.setattr(orphan_files._Reached, "names_since", commit_before_the_second)
    assert remove(table, mode="quarantine").files_removed == 1
    assert [path.exists() for path in orphans].count(True) == 2

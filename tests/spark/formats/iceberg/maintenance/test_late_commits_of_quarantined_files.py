"""A late writer commits files that a removal has moved to a quarantine: they come back, and no others do."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BrokenInvariantError, UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.quarantined_files import QuarantinedFiles
from tests.spark import hostile_tables as hostile
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import remove_orphans as remove
from tests.spark.orphaned_files import files_of, folder_of, made_old, orphan


def in_quarantine(spark: SparkSession, *names: str) -> tuple[MaintainedTable, list[Path], bytes]:
    """Move files of rows to a quarantine, as a removal does before their writer commits them.

    :param spark: the session.
    :param names: of the files, below ``data/`` and without ``.parquet``.
    :return: the table, with three rows; where the files were; and what is in each of them.
    """
    table = MaintainedTable(spark)
    table.append(0, 3)
    (written,) = (path for path in files_of(table) if path.suffix == ".parquet")
    homes = [folder_of(table) / f"data/{name}.parquet" for name in names]
    for home in homes:
        home.parent.mkdir(exist_ok=True)
        shutil.copy(written, home)
    made_old(table)
    assert remove(table, mode="quarantine", max_share=1.0).files_removed == len(homes)
    made_old(table)
    return table, homes, written.read_bytes()


@pytest.mark.parametrize("days", [9, 11], ids=["whose time is over", "that is young there"])
def test_a_file_of_the_quarantine_that_a_late_writer_commits_comes_back_at_the_next_removal(
    spark: SparkSession, days: int
) -> None:
    table, (late, back, _), content = in_quarantine(spark, "late", "back", "orphaned")
    hostile.add_data_file(table, f"file:{late}", f"file:{back}")
    # Somebody has brought one back by hand.
    back.write_bytes(content)
    orphan(table, "data/other.parquet")
    purged = 2 if days == 9 else 0
    with pytest.raises(
        BrokenInvariantError,
        match=rf"named 1 files .* such as \S*{late}\. 1 are back at their place\. {purged} others were deleted",
    ):
        remove(table, quarantine_for=timedelta(days=days))
    assert late.read_bytes() == content
    assert len(table.outside().scan().to_arrow()) == 9
    assert (folder_of(table) / "data/other.parquet").exists()
    again = remove(table, quarantine_for=timedelta(days=days))
    assert (again.files_removed, again.files_purged) == (1, 1 if days == 9 else 0)
    assert remove(table, mode="restore").files_restored == (0 if days == 9 else 3)
    assert late.read_bytes() == content


@pytest.mark.parametrize("days", [9, 11], ids=["whose time is over", "that is young there"])
def test_a_file_that_was_brought_back_in_part_is_not_lost(spark: SparkSession, days: int) -> None:
    table, (late,), content = in_quarantine(spark, "late")
    hostile.add_data_file(table, f"file:{late}")
    # A driver that was killed while it copied, or storage that failed, leaves the beginning.
    late.write_bytes(content[:99])
    with pytest.raises(BrokenInvariantError, match=r"named 1 files .* 1 are back at their place"):
        remove(table, quarantine_for=timedelta(days=days))
    assert late.read_bytes() == content


def test_a_file_that_comes_back_stays_in_the_quarantine_for_another_run_that_copies_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, (late,), content = in_quarantine(spark, "late")
    hostile.add_data_file(table, f"file:{late}")
    copy, runs = QuarantinedFiles._copy, iter(["first", "second"])

    def beside_another_run(files: QuarantinedFiles, source: str, target: str, size: int) -> str | None:
        if next(runs, None) == "first":
            with pytest.raises(BrokenInvariantError, match="1 are back at their place"):
                remove(table, quarantine_for=timedelta(days=9))
        return copy(files, source, target, size)

    monkeypatch.setattr(QuarantinedFiles, "_copy", beside_another_run)
    with pytest.raises(BrokenInvariantError, match="1 are back at their place"):
        remove(table, quarantine_for=timedelta(days=9))
    assert late.read_bytes() == content
    assert remove(table, quarantine_for=timedelta(days=9)).files_purged == 1
    assert late.read_bytes() == content


def test_a_file_of_the_quarantine_that_nothing_brings_back_fails_each_removal(spark: SparkSession) -> None:
    table, (late,), content = in_quarantine(spark, "late")
    hostile.add_data_file(table, f"file:{late}")
    (journal,) = folder_of(table).rglob("*.moves.jsonl")
    moves = journal.read_text()
    journal.write_text("")
    for _ in range(2):
        with pytest.raises(BrokenInvariantError, match=r"0 are back .*; 1 could not be copied \(no journal names"):
            remove(table, quarantine_for=timedelta(days=9))
    journal.write_text(moves)
    assert remove(table, mode="restore").files_restored == 1
    assert late.read_bytes() == content


@pytest.mark.parametrize("refusal", ["max_share", "foreign metadata"])
def test_a_removal_that_is_refused_brings_back_what_a_late_writer_committed_and_deletes_nothing(
    spark: SparkSession, refusal: str
) -> None:
    table, (late, _), content = in_quarantine(spark, "late", "old")
    hostile.add_data_file(table, f"file:{late}")
    left = orphan(table, "data/other.parquet" if refusal == "max_share" else "metadata/99999-x.metadata.json")
    aside = {path for path in files_of(table) if "_quarantine" in path.parts}
    asked: dict[str, Any] = {"quarantine_for": timedelta(days=9), "max_share": 0.01}
    with pytest.raises(BrokenInvariantError, match=r"named 1 files .* 1 are back at their place\. 0 others were"):
        remove(table, **asked)
    assert late.read_bytes() == content
    assert files_of(table) >= aside | {left}
    # The refusal itself is said once nothing is missing any more.
    with pytest.raises(UnsupportedError, match="max_share" if refusal == "max_share" else "version 99999"):
        remove(table, **asked)
    assert files_of(table) >= aside | {left}


def test_a_file_comes_back_without_its_journal_where_its_name_and_its_size_say_that_it_is_the_one(
    spark: SparkSession,
) -> None:
    names = (f"00000-9-{uuid4()}-0-00001" for _ in range(2))
    table, (late, other), content = in_quarantine(spark, *names)
    hostile.add_data_file(table, f"file:{late}", size=len(content))
    # Of another size than the metadata says.
    hostile.add_data_file(table, f"file:{other}", size=len(content) + 1)
    (journal,) = folder_of(table).rglob("*.moves.jsonl")
    journal.unlink()
    with pytest.raises(BrokenInvariantError, match=r"named 2 files .* 1 are back .*; 1 could not be copied \(no j"):
        remove(table, quarantine_for=timedelta(days=9))
    assert (late.read_bytes(), other.exists()) == (content, False)
    other.write_bytes(content)
    assert remove(table, quarantine_for=timedelta(days=9)).files_purged == 2


@pytest.mark.parametrize("has_journal", [True, False])
def test_a_file_never_comes_to_the_place_of_another_partition_where_spark_gave_both_one_name(
    spark: SparkSession, has_journal: bool
) -> None:
    table, name = MaintainedTable(spark), f"part-00000-{uuid4()}.c000.parquet"
    table.append(0, 3)
    # Its task wrote files of one size to two partitions, and the other is lost.
    orphan(table, f"data/day=1/{name}").write_bytes(b"day 1!")
    made_old(table)
    assert remove(table, mode="quarantine", max_share=1.0).files_removed == 1
    lost = folder_of(table) / f"data/day=2/{name}"
    hostile.add_data_file(table, f"file:{lost}", size=len(b"day 1!"))
    if not has_journal:
        (journal,) = folder_of(table).rglob("*.moves.jsonl")
        journal.unlink()
    with pytest.raises(BrokenInvariantError, match="a commit has named 1 files"):
        remove(table, quarantine_for=timedelta(days=9))
    assert not lost.exists()


def test_files_of_one_name_that_late_writers_commit_all_come_back(spark: SparkSession) -> None:
    table, homes, content = in_quarantine(spark, "day=1/000000_0", "day=2/000000_0")
    hostile.add_data_file(table, *(f"file:{home}" for home in homes))
    with pytest.raises(BrokenInvariantError, match=r"named 2 files .* 2 are back at their place"):
        remove(table, quarantine_for=timedelta(days=9))
    assert {home.read_bytes() for home in homes} == {content}
    assert remove(table, quarantine_for=timedelta(days=9)).files_purged == 2
    assert {home.read_bytes() for home in homes} == {content}

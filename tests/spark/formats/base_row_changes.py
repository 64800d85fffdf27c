"""Rows that are deleted and updated where they match: once, and without a trace of whom it was about."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import JobFailedError
from airflow_lake_provider.contracts.json_codec import to_json
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.formats.suite import FormatSuite, NewTable, needs
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.row_change_flow import (
    compact_away,
    delete,
    expire_all,
    expire_old_rows,
    ids_in_any_file,
    rows_outside,
    summary,
    update,
)

PLUS_ONE = {"amount": "amount + 1"}
# Long enough not to be part of a snapshot id.
SECRET = 47_114_711


def add_secret(table: MaintainedTable) -> str:
    """Add a row that a tag, a consumer and a branch hold, and whose update left a copy under a delete.

    :return: the snapshot of both tags.
    """
    table.append(SECRET - 3, 10)
    first = table.head()
    # The copy is in a file that the deletion does not touch.
    table.merge({SECRET: 1})
    table.append(9_000, 5)
    table.create_tag("audit", first)
    table.create_tag("lake.consumer.revenue", first)
    table.create_branch("trial")
    return first


class RowChangeSuite(FormatSuite):
    @needs("update-rows")
    def test_rows_get_their_new_values_once_and_keep_their_row_ids(self, new_table: NewTable) -> None:
        table = new_table(partitioned=True)
        table.append(0, 10)
        table.append(10, 10, "south")
        before = table.lineage() if self.has("row-lineage") else {}
        base = table.head()

        report = update(
            table, assignments={"AMOUNT": "amount + id", "region": "concat(region, '!')"}, where="id >= 8 AND id < 12"
        )

        table.rows |= {id_: (f"{table.rows[id_][0]}!", id_ * 11) for id_ in range(8, 12)}
        assert (report.outcome, report.rows_updated) == (Outcome.APPLIED, 4)
        assert rows_outside(table) == table.rows_read() == table.rows
        assert (summary(table)["lake.filter"], summary(table)["lake.base-snapshot"]) == ("id >= 8 AND id < 12", base)
        if self.has("row-lineage"):
            after = table.lineage()
            assert {id_: row[0] for id_, row in after.items()} == {id_: row[0] for id_, row in before.items()}
            assert {id_ for id_ in after if after[id_][1] != before[id_][1]} == set(range(8, 12))
        retry = update(
            table, assignments={"AMOUNT": "amount + id", "region": "concat(region, '!')"}, where="id >= 8 AND id < 12"
        )
        assert (retry.outcome, retry.run_key, retry.committed) == (
            Outcome.ALREADY_APPLIED,
            report.run_key,
            report.committed,
        )
        assert retry.rows_updated == 4
        assert rows_outside(table) == table.rows
        again = update(table, "run 2", assignments=PLUS_ONE, where="id = 8")
        assert again.outcome is Outcome.APPLIED
        assert rows_outside(table)[8] == ("north!", 89)
        assert update(table, "run 3", assignments=PLUS_ONE, where="id = 999").outcome is Outcome.NOTHING_NEW

    @needs("row-expiry")
    def test_old_rows_go_once_and_a_feed_that_stalled_keeps_its_rows(self, new_table: NewTable) -> None:
        table = new_table()
        table.append(0, 3)
        table.spark.sql(f"ALTER TABLE {table.name} ADD COLUMN day DATE")
        days = {10: 60, 11: 40, 12: 1}
        values = ", ".join(f"({id_}L, 'east', 1L, current_date() - {days_ago})" for id_, days_ago in days.items())
        table.spark.sql(f"INSERT INTO {table.name} VALUES {values}")

        report = expire_old_rows(table)

        # Those without a value stay.
        assert (report.outcome, report.rows_deleted) == (Outcome.APPLIED, 2)
        assert {row["id"] for row in table.records()} == {0, 1, 2, 12}
        assert expire_old_rows(table).outcome is Outcome.ALREADY_APPLIED
        # The expiry brought no rows, so nothing is older than before.
        assert expire_old_rows(table, "run 2").outcome is Outcome.NOTHING_NEW
        assert expire_old_rows(table, "run 2").expired_before == report.expired_before

    @needs("update-rows")
    def test_what_is_committed_in_between_is_matched_and_computed_again(self, new_table: NewTable) -> None:
        table = new_table()
        table.append(0, 10)

        def meanwhile() -> None:
            table.merge({1: 1_000})
            table.delete([2])
            table.append(100, 1)

        report = update(
            table, progress=ProgressThatRuns("commit", meanwhile), assignments=PLUS_ONE, where="id IN (1, 2, 3, 100)"
        )

        table.rows |= {id_: ("north", table.rows[id_][1] + 1) for id_ in (1, 3, 100)}
        assert (report.outcome, report.attempts, report.rows_updated) == (Outcome.APPLIED, 2, 3)
        assert rows_outside(table) == table.rows

    @needs("delete-rows", "erasure-proof")
    def test_after_compaction_and_expiry_no_file_holds_the_rows_and_until_then_the_report_says_who_does(
        self, new_table: NewTable
    ) -> None:
        table = new_table()
        first = add_secret(table)
        base = table.head()

        report = delete(table, where=f"id = {SECRET}")

        del table.rows[SECRET]
        assert (report.outcome, report.rows_deleted) == (Outcome.APPLIED, 1)
        assert rows_outside(table) == table.rows
        retained = dict(report.retained_by or {})
        assert retained.pop("history")
        assert retained == {
            "branch main": report.committed,
            "branch trial": (base,),
            "tag audit": (first,),
            "consumer tag lake.consumer.revenue": (first,),
        }
        assert any("compact the table" in sentence for sentence in report.still_to_do)
        # Less than a day is refused without it.
        assert "minimum_age=timedelta(0)" in report.still_to_do[-1]

        compact_away(table)
        table.drop_tag("audit")
        table.drop_tag("lake.consumer.revenue")
        expire_all(table)
        assert SECRET in ids_in_any_file(table)
        again = delete(table, "run 2", where=f"id = {SECRET}")
        assert again.outcome is Outcome.NOTHING_NEW
        assert again.retained_by == {"branch trial": (base,)}

        table.drop_branch("trial")
        expire_all(table)
        assert SECRET not in ids_in_any_file(table)
        last = delete(table, "run 3", where=f"id = {SECRET}")
        assert last.retained_by == {}
        assert len(last.bounds_in) == len(self.left_by_compaction)
        assert all(map(str.startswith, last.still_to_do, self.left_by_compaction))
        assert bool(last.still_to_do) is bool(self.left_by_compaction)
        table.rewrite_metadata()
        expire_all(table)
        clean = delete(table, "run 4", where=f"id = {SECRET}")
        assert (clean.retained_by, clean.bounds_in, clean.still_to_do) == ({}, (), ())
        assert rows_outside(table) == table.rows

    @needs("delete-rows")
    def test_keys_of_a_file_are_deleted_and_no_value_of_them_is_left_in_words(
        self, new_table: NewTable, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        table = new_table(partitioned=True)
        table.append(SECRET, 10)
        table.append(8_000, 10, "south")
        keys = tmp_path / "keys.csv"
        keys.write_text(f"id,region\n{SECRET},north\n8003,south\n8003,south\n8004,north\n")
        source = Files(path=str(keys), format="csv", options={"header": "true"})

        report = delete(table, keys_from=source, keys=("id", "region"))

        del table.rows[SECRET], table.rows[8003]
        assert (report.outcome, report.rows_deleted) == (Outcome.APPLIED, 2)
        assert rows_outside(table) == table.rows
        written = summary(table)
        assert (written["lake.rows-matched"], written["lake.base-snapshot"]) == (
            "2",
            str(report.before and report.before.snapshot),
        )
        assert written["lake.erased-digest"] == report.erased_digest
        assert report.digest_salt is not None
        assert report.digest_salt not in table.texts()[0]
        printed = capfd.readouterr()
        # For a driver that is killed before its report.
        told = printed.out.index(f"digest {report.erased_digest}, salt {report.digest_salt}")
        assert told < printed.out.index("[lake] commit ...")
        for text in (to_json(report), str(written), table.texts()[1], printed.out, printed.err):
            assert str(SECRET) not in text
        where = delete(table, "run 2", where="id = 8005")
        expected = hashlib.sha256(f"{where.digest_salt}\x1fid = 8005".encode()).hexdigest()
        assert summary(table)["lake.erased-digest"] == where.erased_digest == expected

    @needs("delete-rows")
    def test_what_is_committed_in_between_is_matched_too(self, new_table: NewTable) -> None:
        table = new_table()
        table.append(0, 10)

        def meanwhile() -> None:
            table.merge({1: -1, 5: 500})
            table.append(100, 2)

        report = delete(table, progress=ProgressThatRuns("commit", meanwhile), where="amount < 20 OR id = 100")

        for id_ in (0, 1, 100):
            del table.rows[id_]
        assert (report.outcome, report.attempts, report.rows_deleted) == (Outcome.APPLIED, 2, 3)
        assert rows_outside(table) == table.rows

    @needs("delete-rows")
    def test_a_store_that_takes_no_delete_file_fails_it_without_a_word_of_its_partition(
        self, new_table: NewTable, capfd: pytest.CaptureFixture[str]
    ) -> None:
        table = new_table(partitioned=True)
        table.append(0, 3, str(SECRET))
        table.take_no_files()
        with pytest.raises(JobFailedError, match="withheld") as failed:
            delete(table, where=f"region = '{SECRET}'")
        text = "".join(traceback.format_exception(failed.value))
        assert str(SECRET) not in text + capfd.readouterr().out
        assert rows_outside(table) == table.rows

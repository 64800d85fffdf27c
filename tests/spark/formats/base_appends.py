"""Appends, compared with a list of the rows that came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import AuditFailedError, BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.append_flow import COLUMNS, append, event, events_of
from tests.spark.formats.suite import FormatSuite, needs
from tests.spark.upsert_flow import Flow, InterruptedProgress, Killed, kill


def compact(flow: Flow) -> None:
    """Rewrite all files of the table into one."""
    options = "map('rewrite-all', 'true')"
    flow.spark.sql(f"CALL lake_default.system.rewrite_data_files(table => '{flow.table}', options => {options})")


class RowsOnceSuite(FormatSuite):
    """Rows that are added once."""

    @needs("append")
    def test_rows_are_added_once_however_drivers_end_and_meet(self, flow: Flow) -> None:
        expected: list[tuple[int, str]] = []
        retry: list[Outcome] = []

        def foreign() -> None:
            flow.spark.sql(f"INSERT INTO {flow.table} (id, name) VALUES (-1, 'foreign')")
            expected.append((-1, "foreign"))

        def retried() -> None:
            retry.append(append(flow, "run 4").outcome)

        between: list[tuple[str, Callable[[], Any] | None]] = [
            ("commit", None),
            ("commit", kill),
            ("write", kill),
            ("commit", foreign),
            ("commit", retried),
            ("commit", lambda: compact(flow)),
        ]
        for number, (phase, then) in enumerate(between):
            rows = [(number, "a"), (number, "a"), (number, "b")]
            flow.arrive(f"{number}.jsonl", *(event(*row) for row in rows))
            run = f"run {number}"
            try:
                report = append(flow, run, InterruptedProgress(at=phase, then=then))
            except Killed:
                assert events_of(flow) == sorted(expected)
                report = append(flow, run)
            expected += rows
            assert events_of(flow) == sorted(expected)
            if then is retried:
                # The driver that outlived its task finds what its retry has done.
                assert (retry, report.outcome) == ([Outcome.APPLIED], Outcome.ALREADY_APPLIED)
            else:
                assert (report.outcome, report.rows_appended, report.batch_files) == (Outcome.APPLIED, 3, 1)
            assert append(flow, run).outcome is Outcome.ALREADY_APPLIED
        assert append(flow, "run new").outcome is Outcome.NOTHING_NEW
        assert flow.on_worker().facts.newest().summary["operation"] in ("append", "replace")  # type: ignore[union-attr]
        report = append(flow, "run again", on_repeat="apply")
        assert events_of(flow) == sorted([*expected, *(row for row in expected if row[0] >= 0)])
        assert report.rows_appended == 3 * len(between)

    @needs("append", "compaction", "delete-rows")
    def test_rows_that_the_table_has_of_late_are_left_out_with_those_of_the_batch(self, flow: Flow) -> None:
        against: dict[str, Any] = {"deduplicate_by": ("id",), "deduplicate_against": "P1D"}
        flow.arrive("1.jsonl", event(1, "first"), event(1, "second"), event(2))
        first = append(flow, "run 1", **against)
        assert (first.batch_rows, first.rows_appended, first.duplicates_in_batch) == (3, 2, 1)
        flow.arrive("2.jsonl", event(3))
        append(flow, "run 2", **against)
        compact(flow)
        flow.spark.sql(f"DELETE FROM {flow.table} WHERE id = 2")
        flow.arrive("3.jsonl", event(1, "late"), event(2, "again"), event(4), event(4))
        third = append(flow, "run 3", **against)
        counted = (third.batch_rows, third.rows_appended, third.duplicates_in_batch, third.duplicates_in_table)
        assert counted == (4, 2, 1, 1)
        flow.arrive("4.jsonl", event(1, "late"))
        fourth = append(flow, "run 4", **against)
        # Remembered, as it would be added once the row is no recent one.
        assert (fourth.outcome, fourth.rows_appended, fourth.duplicates_in_table) == (Outcome.APPLIED, 0, 1)
        assert append(flow, "run 5").outcome is Outcome.NOTHING_NEW
        assert events_of(flow) == [(1, "first"), (2, "again"), (3, "a"), (4, "a")]
        flow.arrive("5.jsonl", event(3, "older"), event(4, "newest"))
        newest: dict[str, Any] = {"deduplicate_by": ("id",), "deduplicate_against": 1}
        fifth = append(flow, "run 6", **newest)
        assert (fifth.rows_appended, fifth.duplicates_in_table) == (1, 1)
        repeated = append(flow, "run 6", **newest)
        assert (repeated.rows_appended, repeated.batch_rows, repeated.duplicates_in_table) == (1, 2, 1)
        # So are rows that another writer adds before the commit.
        flow.arrive("6.jsonl", event(7), event(8))
        insert = f"INSERT INTO {flow.table} (id, name) VALUES (7, 'foreign')"
        progress = InterruptedProgress(at="commit", then=lambda: flow.spark.sql(insert))
        raced = append(flow, "run 7", progress, **against)
        assert (raced.attempts, raced.rows_appended, raced.duplicates_in_table) == (2, 1, 1)


class AppendSuite(RowsOnceSuite):
    """All of appends."""

    @needs("append")
    def test_what_cannot_be_added_is_named_and_leaves_nothing(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", event(1), at=1_700_000_000)
        append(flow, "run 1")
        before, files = flow.head(), flow.data_files()

        def refused(match: str, **changes: Any) -> None:
            with pytest.raises(BadInputError, match=match):
                append(flow, "run 2", **changes)
            assert (flow.head(), flow.data_files()) == (before, files)

        flow.arrive("2.jsonl", event(2), event(None), {"id": "x", "name": "bad"})
        refused(r"1 records cannot be read as .*2\.jsonl, the first is its record 3")
        # Of a column that is not stored, too.
        names_alone = {"exclude_columns": ["id"], "missing_columns": "null"}
        refused(r"1 records cannot be read", schema_contract=names_alone)
        flow.arrive("2.jsonl", event(2), event(None))
        refused(r"NULL in a column of deduplicate_by, of 2: id in 1", deduplicate_by=("id",))
        refused(r"deduplicate_by \['nr'\] name columns that the batch lacks", deduplicate_by=("nr",))
        flow.arrive("2.jsonl", event(2))
        flow.arrive("1.jsonl", event(1, "corrected"))
        refused(r"1 files have changed .*1\.jsonl\. .*LakeDeleteRowsOperator .*on_changed_input='append'")
        report = append(flow, "run 2", on_changed_input="skip")
        assert (report.rows_appended, len(report.warnings)) == (1, 1)
        # It is left out, and not taken for added.
        before, files = flow.head(), flow.data_files()
        refused(r"1 files have changed .*1\.jsonl")
        report = append(flow, "run 3", on_changed_input="skip")
        assert (report.outcome, len(report.warnings)) == (Outcome.NOTHING_NEW, 1)
        assert append(flow, "run 4", on_changed_input="append").rows_appended == 1
        assert append(flow, "run 5").outcome is Outcome.NOTHING_NEW
        assert events_of(flow) == [(1, "a"), (1, "corrected"), (2, "a")]

    @needs("append", "lake-table-source")
    def test_rows_of_a_query_and_of_a_table_are_added_once_and_a_changed_table_is_refused(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", event(1), event(2))
        files = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=COLUMNS)
        query: dict[str, Any] = {"source": Query("SELECT id, upper(name) AS name FROM source WHERE id > 1", over=files)}
        assert append(flow, "run 1", **query).rows_appended == 1
        flow.arrive("2.jsonl", event(3))
        assert append(flow, "run 2", **query).rows_appended == 1
        assert append(flow, "run 3", **query).outcome is Outcome.NOTHING_NEW
        assert events_of(flow) == [(2, "A"), (3, "A")]

        copy: dict[str, Any] = {"source": LakeTable(flow.table), "table": f"{flow.table}_copy"}
        assert append(flow, "run 4", **copy).rows_appended == 2
        assert append(flow, "run 5", **copy).outcome is Outcome.NOTHING_NEW
        flow.spark.sql(f"INSERT INTO {flow.table} (id, name) VALUES (4, 'A')")
        with pytest.raises(BadInputError, match=r"the source table has changed .* on_changed_input='append'"):
            append(flow, "run 6", **copy)
        assert append(flow, "run 6", **copy, on_changed_input="skip").outcome is Outcome.NOTHING_NEW
        assert append(flow, "run 6", **copy, on_changed_input="append").rows_appended == 3
        assert flow.spark.table(copy["table"]).count() == 5

    @needs("append", "audits")
    def test_rows_wait_on_a_branch_until_audits_pass(self, flow: Flow) -> None:
        audits = {"few": "SELECT * FROM batch WHERE id > 10", "known": "SELECT * FROM audited WHERE name IS NULL"}
        flow.arrive("1.jsonl", event(1))
        report = append(flow, "run 1", audits=audits)
        assert (report.audits_passed, report.audit_runs) == (("few", "known"), 1)
        flow.arrive("2.jsonl", event(2), event(11))
        with pytest.raises(AuditFailedError, match=r"1 of 2 audits failed: 'few' \(1 rows\)"):
            append(flow, "run 2", audits=audits)
        assert events_of(flow) == [(1, "a")]
        progress = InterruptedProgress(
            at="audit", then=lambda: flow.spark.sql(f"INSERT INTO {flow.table} (id, name) VALUES (3, 'foreign')")
        )
        report = append(flow, "run 3", progress, audits={"known": audits["known"]})
        assert (report.audit_runs, report.rows_appended) == (2, 2)
        assert events_of(flow) == [(1, "a"), (2, "a"), (3, "foreign"), (11, "a")]
        assert append(flow, "run 3").outcome is Outcome.ALREADY_APPLIED

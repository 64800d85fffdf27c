"""Loads of a source that is the whole table, compared with a dictionary of the rows that the source holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random, randrange
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import AuditFailedError, BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.formats.suite import ALL, FormatSuite, needs
from tests.spark.upsert_flow import SCHEMA, Flow, InterruptedProgress, Killed, kill, row

SOFT = Deduplicate(deletes="soft")
Rows = dict[int, tuple[Any, ...]]


def load(flow: Flow, run: str, progress: Progress | None = None, **changes: Any) -> UpsertReport:
    """Make the table what the inbox holds."""
    return flow.apply(run, progress, **{"is_complete": True, "delete_when": None, **changes})


def counts(report: UpsertReport) -> tuple[int | None, ...]:
    """Return the rows that were inserted, updated, deleted, and left as they were."""
    return (report.rows_inserted, report.rows_updated, report.rows_deleted, report.rows_unchanged)


def changes_between(before: Rows, after: Rows) -> set[tuple[Any, ...]]:
    """Return what a consumer has to see."""
    upserts = {("upsert", key, *values) for key, values in after.items() if before.get(key) != values}
    return upserts | {("delete", key, *before[key]) for key in before.keys() - after.keys()}


class WholeTableSuite(FormatSuite):
    """The table becomes what the source holds."""

    @needs("upsert", "kept-values")
    def test_the_table_becomes_what_each_delivery_holds_and_no_equal_row_is_written(self, flow: Flow) -> None:
        seed = randrange(10**9) if ALL else 1
        print(f"the deliveries of seed {seed}")
        random, held = Random(seed), dict[int, tuple[Any, ...]]()
        for delivery in range(3):
            # Files of before go, stay, are corrected or come back; a key may be in several files, the last one counts.
            for name in ("1.jsonl", "2.jsonl", "3.jsonl"):
                if not delivery or random.random() < 0.5:
                    rows = [row(number, random.choice("ab"), random.choice((None, 1))) for number in range(12)]
                    random.shuffle(rows)
                    flow.arrive(name, *rows[: 4 + random.randrange(8)], at=1_700_000_000 + delivery)
                elif random.random() < 0.5:
                    (flow.inbox / name).unlink(missing_ok=True)
            before, held = held, source_of(flow)
            head = flow.head() if delivery else None
            report = load(flow, f"run {delivery}", max_deleted_share=1)
            assert flow.rows() == held
            if report.outcome is Outcome.NOTHING_NEW:
                assert before == held
                continue
            new, gone = held.keys() - before.keys(), before.keys() - held.keys()
            changed = {key for key in held.keys() & before.keys() if held[key] != before[key]}
            assert counts(report)[:3] == (len(new), len(changed), len(gone))
            if delivery and self.has("read-changes"):
                seen = read_changes(flow.spark, flow.table, head, None, keys=["id"]).collect()
                assert {
                    (each["_change_type"], each["id"], each["name"], each["n"]) for each in seen
                } == changes_between(before, held)
            assert load(flow, f"run {delivery}", max_deleted_share=1).outcome is Outcome.ALREADY_APPLIED
            assert load(flow, "run again", max_deleted_share=1).outcome is Outcome.NOTHING_NEW


class CompleteSuite(WholeTableSuite):
    """All of loads of whole tables."""

    @needs("upsert", "kept-values")
    def test_an_older_delivery_is_left_out_and_a_batch_of_equal_rows_moves_the_position(self, flow: Flow) -> None:
        def of_day(day: int) -> dict[str, Any]:
            return {"source": Files(path=f"{flow.inbox}/{day}.jsonl", format="json", schema=SCHEMA)}

        for day in (1, 2, 3):
            flow.arrive(f"{day}.jsonl", row(day, "a"), row(7 if day < 3 else 2, "a"), at=1_700_000_000 + day)
        load(flow, "run 2", **of_day(2))
        late = load(flow, "run 1", **of_day(1))
        assert late.outcome is Outcome.NOTHING_NEW
        assert "older than the one that the table is now" in late.reason
        load(flow, "run 3", **of_day(3), max_deleted_share=0.5)
        assert flow.rows().keys() == {2, 3}
        flow.arrive("3.jsonl", row(3, "a"), row(2, "a"), at=1_700_000_009)
        equal = load(flow, "run 4", **of_day(3))
        assert (equal.outcome, counts(equal)) == (Outcome.APPLIED, (0, 0, 0, 2))
        assert load(flow, "run 5", **of_day(3)).outcome is Outcome.NOTHING_NEW
        load(flow, "run 1", **of_day(1), on_repeat="apply", max_deleted_share=1)
        assert flow.rows().keys() == {1, 7}

    @needs("upsert", "kept-values")
    def test_as_many_deletes_as_the_share_says_are_made(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", *(row(number, "a") for number in range(100)), at=1_700_000_000)
        load(flow, "run 1")
        flow.arrive("1.jsonl", *(row(number, "a") for number in range(71)), at=1_700_000_001)
        assert counts(load(flow, "run 2", max_deleted_share=0.29)) == (0, 0, 29, 71)

    @needs("upsert", "kept-values")
    def test_an_empty_source_empties_a_table_with_a_column_that_is_named_as_the_flag(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", row(1, "a"), row(2, "a"), at=1_700_000_000)
        load(flow, "run 1")
        flow.spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN is_deleted BOOLEAN")
        (flow.inbox / "1.jsonl").unlink()
        assert counts(load(flow, "run 2", max_deleted_share=1)) == (0, 0, 2, 0)
        assert flow.rows() == {}

    @needs("upsert", "kept-values")
    def test_a_table_of_nothing_but_keys_becomes_what_its_source_holds(self, flow: Flow) -> None:
        pairs: dict[str, Any] = {"keys": ("id", "name"), "exclude_columns": ("n", "op"), "max_deleted_share": 1}
        flow.arrive("1.jsonl", row(1, "a"), row(1, "b"), at=1_700_000_000)
        load(flow, "run 1", **pairs)
        flow.arrive("1.jsonl", row(1, "b"), row(2, "b"), at=1_700_000_001)
        assert counts(load(flow, "run 2", **pairs)) == (1, 0, 1, 1)
        assert sorted(tuple(each.values()) for each in flow.records()) == [(1, "b"), (2, "b")]

    @needs("upsert", "kept-values")
    def test_an_empty_source_needs_no_column_of_the_order(self, flow: Flow) -> None:
        ordered: dict[str, Any] = {"order_by": ("n",), "exclude_columns": ("n", "op"), "max_deleted_share": 1}
        flow.arrive("1.jsonl", row(1, "a"), row(2, "a"), at=1_700_000_000)
        load(flow, "run 1", **ordered)
        (flow.inbox / "1.jsonl").unlink()
        assert counts(load(flow, "run 2", **ordered)) == (0, 0, 2, 0)

    @needs("upsert", "kept-values", "soft-deletes")
    def test_more_deletes_than_are_allowed_leave_everything_as_it_was(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", *(row(number, "a") for number in range(10)), at=1_700_000_000)
        load(flow, "run 1", merge_engine=SOFT)
        before = (flow.head(), flow.data_files())
        flow.arrive("1.jsonl", *(row(number, "a") for number in range(2, 10)), at=1_700_000_001)
        report = load(flow, "run 2", merge_engine=SOFT)
        assert (report.rows_deleted, report.rows_unchanged) == (2, 8)
        before = (flow.head(), flow.data_files())
        flow.arrive("1.jsonl", *(row(number, "a") for number in range(4, 10)), at=1_700_000_002)
        # The two that are flagged are no live rows.
        with pytest.raises(BadInputError, match=r"lacks the keys of 2 of the table's 8 live rows, a share of 25\.0%"):
            load(flow, "run 3", merge_engine=SOFT)
        (flow.inbox / "1.jsonl").unlink()
        with pytest.raises(BadInputError, match=r"8 of the table's 8 live rows"):
            load(flow, "run 3", merge_engine=SOFT)
        flow.arrive("1.jsonl", *(row(number, "a") for number in range(9)), at=1_700_000_003)
        assert (flow.head(), flow.data_files()) == before
        # Two come back, and one goes.
        report = load(flow, "run 4", merge_engine=SOFT)
        assert (report.rows_inserted, report.rows_updated, report.rows_unchanged) == (0, 2, 7)
        assert flow.rows() == {number: ("a", 0, number == 9) for number in range(10)}
        (flow.inbox / "1.jsonl").unlink()
        load(flow, "run 5", merge_engine=SOFT, max_deleted_share=1)
        assert {values[-1] for values in flow.rows().values()} == {True}

    @needs("upsert", "kept-values")
    def test_what_gets_in_between_is_compared_too_and_a_killed_driver_leaves_the_table(self, flow: Flow) -> None:
        held: Rows = dict.fromkeys(range(1, 9), ("a", 0))
        flow.arrive("1.jsonl", *(row(key, *values) for key, values in held.items()), at=1_700_000_000)
        load(flow, "run 1")
        retry: list[UpsertReport] = []

        def foreign() -> None:
            # Of another writer: a key that the source lacks, and one that is there twice then.
            flow.spark.sql(f"INSERT INTO {flow.table} VALUES (9, 'foreign', 9), (3, 'twice', 3)")

        between: list[tuple[Callable[[], Any], Rows]] = [
            (kill, {**held, 2: ("b", 0)}),
            (foreign, {**held, 2: ("c", 0)}),
            (lambda: retry.append(load(flow, "run 4")), {**held, 2: ("d", 0)}),
        ]
        for number, (then, expected) in enumerate(between, start=2):
            flow.arrive("1.jsonl", *(row(key, *values) for key, values in expected.items()), at=1_700_000_000 + number)
            before = flow.rows()
            try:
                report = load(flow, f"run {number}", InterruptedProgress(at="commit", then=then), max_deleted_share=1)
            except Killed:
                assert flow.rows() == before
                report = load(flow, f"run {number}")
            assert flow.rows() == expected
            if then is foreign:
                assert (report.attempts, counts(report)[:3]) == (2, (0, 3, 1))
        assert (retry[0].outcome, report.outcome) == (Outcome.APPLIED, Outcome.ALREADY_APPLIED)

    @needs("upsert", "kept-values", "schema-evolution")
    def test_what_a_refused_delivery_leaves_of_its_columns_is_said(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", row(1, "a"), row(2, "a"), at=1_700_000_000)
        load(flow, "run 1")
        flow.arrive("1.jsonl", {**row(1, "a"), "more": 1}, at=1_700_000_001)
        wider = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=f"{SCHEMA}, more INT")
        with pytest.raises(BadInputError, match="No row was changed, and the schema was: added column more int") as one:
            load(flow, "run 2", source=wider)
        assert "Nothing was changed" not in str(one.value)
        assert flow.rows() == {1: ("a", 0), 2: ("a", 0)}
        with pytest.raises(BadInputError, match="Nothing was changed"):
            load(flow, "run 2", source=wider)

    @needs("upsert", "kept-values", "schema-evolution")
    def test_a_column_that_another_writer_adds_meanwhile_starts_the_comparison_over(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", row(1, "a"), row(2, "a"), at=1_700_000_000)
        load(flow, "run 1")
        flow.arrive("1.jsonl", row(1, "b"), row(2, "a"), at=1_700_000_001)

        def foreign() -> None:
            flow.spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN more INT")
            flow.spark.sql(f"INSERT INTO {flow.table} VALUES (2, 'foreign', 2, 7)")

        between = InterruptedProgress(at="compare", then=foreign)
        report = load(flow, "run 2", between, max_deleted_share=1, missing_columns="null")
        assert report.attempts == 2
        assert flow.rows() == {1: ("b", 0, None), 2: ("a", 0, None)}

    @needs("upsert", "kept-values", "lake-table-source", "audits", "branches")
    def test_tables_and_queries_are_whole_sources_and_wait_for_audits_and_on_branches(self, flow: Flow) -> None:
        copy = Flow(flow.spark, f"{flow.table}_copy", flow.inbox, dict(flow.changes))
        flow.arrive("1.jsonl", *(row(number, "a") for number in range(10)), at=1_700_000_000)
        load(flow, "run 1")
        source = LakeTable(flow.table, where="id < 8")
        load(copy, "run 1", source=source)
        flow.spark.sql(f"DELETE FROM {flow.table} WHERE id = 0")
        assert counts(load(copy, "run 2", source=source)) == (0, 0, 1, 7)
        query = Query("SELECT id, upper(name) AS name, n FROM source WHERE id < 9", over=LakeTable(flow.table))
        audits = Audits(queries={"none": "SELECT * FROM audited WHERE name = 'A'"})
        with pytest.raises(AuditFailedError):
            load(copy, "run 3", source=query, audits=audits)
        report = load(copy, "run 3", source=query, branch="whole")
        assert counts(report) == (1, 7, 0, 0)
        assert copy.rows().keys() == set(range(1, 8))
        assert copy.rows("whole") == dict.fromkeys(range(1, 9), ("A", 0))
        audited = load(copy, "run 4", source=query, audits={"some": "SELECT * FROM audited WHERE n > 0"})
        assert (audited.audits_passed, copy.rows()) == (("some",), copy.rows("whole"))


def source_of(flow: Flow) -> Rows:
    """Return what the files hold, the last row of each key."""
    lines = (line for file in sorted(flow.inbox.glob("*.jsonl")) for line in file.read_text().splitlines())
    return {each["id"]: (each["name"], each["n"]) for each in map(json.loads, lines)}

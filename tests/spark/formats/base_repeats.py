"""Retries, redelivery and conflicts: whatever comes again or gets in between, a batch is applied once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.formats.foreign_commits import FOREIGN
from tests.spark.formats.suite import COUNTING, FormatSuite, needs
from tests.spark.sources.debezium.event_stream import EventStream, drop
from tests.spark.upsert_flow import Flow, InterruptedProgress, NewFlow, row

STRATEGIES = ["auto", *(pytest.param(name, marks=needs(f"strategy-{name}")) for name in COUNTING)]


class RepeatSuite(FormatSuite):
    @needs("upsert")
    def test_a_repeat_is_recognised_by_run_key_then_by_position_and_a_correction_is_applied(self, flow: Flow) -> None:
        flow.arrive("1.jsonl", row(1, "a"), at=1_000)
        first = flow.apply("run 1")
        cleared = flow.apply("run 1")
        assert (cleared.outcome, cleared.reason.startswith("recognised by run key")) == (Outcome.ALREADY_APPLIED, True)
        again = flow.apply("run 2")
        assert (again.outcome, again.reason.startswith("recognised by position")) == (Outcome.NOTHING_NEW, True)
        assert flow.head() == first.committed[-1]
        flow.arrive("1.jsonl", row(1, "corrected"), at=2_000)
        corrected = flow.apply("run 1")
        assert corrected.outcome is Outcome.APPLIED
        assert "1 corrected" in corrected.reason
        assert flow.rows() == {1: ("corrected", 0)}

    @needs("upsert")
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_a_driver_that_outlived_its_task_and_the_retry_apply_the_batch_once(
        self, flow: Flow, strategy: str
    ) -> None:
        flow.changes["strategy"] = strategy
        flow.arrive("1.jsonl", row(1, "a"))
        flow.apply("run 1")
        flow.arrive("2.jsonl", row(1, "a2"), row(2, "b"))
        retry: list[Any] = []
        zombie = InterruptedProgress(at=self.last_phase(strategy), then=lambda: retry.append(flow.apply("run 2")))
        late = flow.apply("run 2", progress=zombie)
        assert retry[0].outcome is Outcome.APPLIED
        assert late.outcome is Outcome.ALREADY_APPLIED
        assert flow.commits_of(late.run_key) == 1
        assert flow.rows() == {1: ("a2", 0), 2: ("b", 0)}

    @pytest.fixture(scope="class")
    @classmethod
    def applied_twice(cls, new_shared_flow: NewFlow) -> Flow:
        """Apply two batches, which leave deletes, before any test's own."""
        flow = new_shared_flow(strategy="positions")
        flow.arrive("1.jsonl", row(1, "a"), row(3, "a"), row(5, "a"))
        flow.apply("run 1")
        flow.arrive("2.jsonl", row(5, "a5"))
        flow.apply("run 2")
        return flow

    @needs("strategy-positions")
    @pytest.mark.parametrize("foreign", FOREIGN)
    def test_what_is_committed_in_between_is_resolved_without_reading_the_batch_again(
        self, applied_twice: Flow, flow: Flow, foreign: str
    ) -> None:
        flow = applied_twice.copy(flow.table)
        act, theirs = FOREIGN[foreign]
        flow.arrive("3.jsonl", row(1, "b"), row(2, "b"))
        report = flow.apply("run 3", progress=InterruptedProgress(at="commit", then=lambda: act(flow)))
        assert (report.outcome, report.attempts) == (Outcome.APPLIED, 1)
        expected = {3: ("a", 0), 5: ("a5", 0)} | theirs | {1: ("b", 0), 2: ("b", 0)}
        assert flow.rows() == {key: value for key, value in expected.items() if value}
        assert flow.commits_of(report.run_key) == 1

    @needs("change-events")
    def test_change_events_that_come_again_and_late_are_applied_once(
        self, session: SparkSession, tmp_path: Path
    ) -> None:
        stream = EventStream(session, tmp_path, "partition", kind=self.flow_kind)
        try:
            first, second, third = stream.event("c", 1, 1), stream.event("c", 2, 1), stream.event("u", 1, 2)
            stream.bring(first, second)
            stream.run(create=self.layout())
            stream.bring(second, third, stream.event("d", 2, 0))
            assert stream.run().outcome is Outcome.APPLIED
            assert stream.rows() == {(1, 2)}
            stream.bring(first, second, third)
            assert stream.run().outcome is not Outcome.APPLIED
            assert stream.rows() == {(1, 2)}
        finally:
            drop(session)

"""Incremental reads: what changed between two snapshots, once, and rows that keep their identity."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.consumer import Consumer
from tests.spark.formats.suite import FormatSuite, needs
from tests.spark.upsert_flow import Flow, NewFlow, row


class IncrementalSuite(FormatSuite):
    @pytest.fixture
    def consumer(self, session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Consumer:
        name = f"t{zlib.crc32(request.node.nodeid.encode()):08x}"
        source = self.flow_kind(session, f"source.{name}", tmp_path / "inbox", {"create": self.layout()})
        made = Consumer(source, self.flow_kind(session, f"mart.{name}", tmp_path / "unused"))
        made.commit("1", row(1, "a", 1), row(2, "b", 2), row(3, "c", 3))
        return made

    @needs("read-changes")
    def test_inserts_updates_and_deletes_come_out_once_with_new_and_old_values(self, session: SparkSession) -> None:
        history = self.changes_history(session)
        start = history.insert({1: "a", 2: "b", 3: "c", 4: "d"})
        history.insert({5: "e"})
        history.run("UPDATE {t} SET v = 'B' WHERE id = 2")
        end = history.run("DELETE FROM {t} WHERE id = 3")
        assert history.changes(start, end) == Counter([("upsert", 2, "B"), ("upsert", 5, "e"), ("delete", 3, "c")])

    @needs("read-changes")
    def test_each_run_applies_exactly_the_changes_since_the_last_and_compaction_is_none(
        self, consumer: Consumer
    ) -> None:
        first = consumer.run("1")
        assert (first.upserts_read, first.deletes_read) == (3, 0)
        assert consumer.target.rows() == consumer.expected()
        consumer.commit("2", row(1, "a2", 7), row(2, "", op="d"), row(4, "d", 4))
        spec = CompactionSpec(
            catalog="lake_default", table=consumer.source.table, run=RunIdentity.of("m"), level=CompactionLevel.FULL
        )
        compact_table(consumer.source.spark, spec, Progress())
        second = consumer.run("2")
        assert (second.upserts_read, second.deletes_read) == (2, 1)
        assert (second.rows_inserted, second.rows_updated, second.rows_deleted) == (1, 1, 1)
        assert consumer.target.rows() == consumer.expected()
        assert consumer.run("3").outcome is Outcome.NOTHING_NEW

    @needs("read-changes", "consumer-tags")
    def test_the_position_is_in_the_target_and_the_guard_follows_on_the_source(self, consumer: Consumer) -> None:
        consumer.run("1")
        source = consumer.source.on_worker().facts
        head = source.head()
        position = consumer.target.on_worker().facts.properties[f"lake.position.{source.uuid}.revenue"]
        assert str(head) in position
        assert source.references["lake.consumer.revenue"].snapshot == head
        assert "lake.consumer.revenue.reading" not in source.references
        assert source.properties["lake.consumer.revenue.snapshot"] == str(head)

    @needs("row-lineage")
    def test_an_updated_row_keeps_its_row_id_and_a_new_one_gets_another(self, new_flow: NewFlow) -> None:
        flow = new_flow(strategy="positions")
        flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
        flow.apply("run 1")
        before = flow.row_ids()
        flow.arrive("2.jsonl", row(1, "b"), row(3, "b"))
        flow.apply("run 2")
        after = flow.row_ids()
        assert (after[1], after[2]) == (before[1], before[2])
        assert after[3] not in before.values()

    @needs("changelog")
    def test_each_step_between_two_snapshots_comes_out(self, flow: Flow) -> None:
        snapshots = []
        for number, name in enumerate("abc"):
            flow.arrive(f"{number}.jsonl", row(1, name))
            snapshots.append(flow.apply(f"run {number}").committed[0])
        found = read_changes(flow.spark, flow.table, snapshots[0], None, mode="changelog").collect()
        assert {each["name"] for each in found} == {"b", "c"}

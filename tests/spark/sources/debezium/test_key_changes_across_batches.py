"""Key changes that the border of a run cuts: the delete in one run, the create with unavailable values in a later."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.sources.debezium.event_writer import SourceTable, Topic
from tests.spark.upsert_flow import Flow, InterruptedProgress, Killed, kill

DDL = "id BIGINT, n INT, note STRING"


class Border:
    """A source table whose events are applied in pieces.

    :param kafka: records with headers; bare envelopes otherwise.
    :param topic: gives them their places in a topic.
    """

    def __init__(self, flow: Flow, *, kafka: bool = True, topic: Topic | None = None) -> None:
        self.topic = topic
        self.flow = flow
        self.source = SourceTable(kafka=kafka, headers=kafka)
        self.held: list[str] = []
        self.runs = 0

    def upto_delete(self) -> None:
        """Hand over all but the last line, which is the create of a key change."""
        *now, create = [*self.held, *self.taken()]
        self.held = [create]
        self.deliver(now)

    def taken(self) -> list[str]:
        lines = self.source.take_lines()
        return self.topic.produce(lines) if self.topic else lines

    def rest(self) -> None:
        held, self.held = self.held, []
        self.deliver([*held, *self.taken()])

    def deliver(self, lines: list[str], progress: Progress | None = None) -> None:
        self.runs += 1
        self.flow.inbox.mkdir(parents=True, exist_ok=True)
        (self.flow.inbox / f"{self.runs:03}.jsonl").write_text("\n".join(lines) + "\n")
        self.apply(progress)

    def apply(self, progress: Progress | None = None) -> None:
        assert self.flow.apply(f"run {self.runs}", progress).outcome is Outcome.APPLIED

    def as_the_source(self) -> bool:
        source = {key: (row["n"], row["note"]) for key, row in self.source.rows.items()}
        return self.flow.rows() == source


@pytest.fixture
def flows(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Flow]:
    inbox = tmp_path / "inbox"
    source = Debezium(path=f"{inbox}/*.jsonl", table="public.items", schema=DDL)
    name = f"key_changes.t{zlib.crc32(request.node.name.encode())}"
    changes = {"source": source, "delete_when": None, "exclude_columns": ()}
    yield Flow(spark=spark, table=name, inbox=inbox, changes=changes)
    spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")


def moved(flow: Flow) -> Border:
    """Apply a row with key 1, and change its key to 2."""
    border = Border(flow)
    border.source.insert(1, 1, "long first")
    border.deliver(border.source.take_lines())
    border.source.move(1, 2, 2)
    return border


@pytest.mark.parametrize("kafka", [True, False], ids=["records with headers", "bare envelopes"])
def test_a_border_inside_a_key_change_loses_no_value(flows: Flow, kafka: bool) -> None:
    border = Border(flows, kafka=kafka)
    source = border.source
    source.insert(1, 1, "long first")
    source.insert(2, 2, "long second")
    source.move(1, 3, 3)
    border.upto_delete()
    assert flows.rows() == {2: (2, "long second")}
    border.rest()
    assert border.as_the_source()
    # Updated before the delete in its batch, so that no snapshot of main has had the value; and moved on at once.
    source.update(3, 4, "long third")
    source.move(3, 5, 5)
    border.upto_delete()
    source.move(5, 6, 6)
    border.upto_delete()
    # The old keys are other rows by the time that the create comes.
    source.insert(3, 7, "long other")
    source.insert(5, 8, "long another")
    border.rest()
    assert border.as_the_source()


def test_an_old_key_used_again_before_the_create_comes_gives_no_value(flows: Flow) -> None:
    # The new key is in a partition whose file comes late.
    border = Border(flows, topic=Topic(partitions=2))
    source = border.source
    source.insert(1, 1, "long first")
    source.move(1, 2, 2)
    border.upto_delete()
    source.insert(1, 3, "long other")
    border.deliver(border.taken())
    assert flows.rows() == {1: (3, "long other")}
    border.rest()
    assert border.as_the_source()
    assert flows.rows()[2] == (2, "long first")


def test_a_create_whose_delete_has_not_come_waits_for_it(flows: Flow) -> None:
    border = moved(flows)
    source = border.source
    *deletes, create = source.take_lines()
    with pytest.raises(BadInputError, match=r"1 of note.*the delete of its old key"):
        border.deliver([create])
    border.deliver(deletes)
    assert border.as_the_source()


def test_a_row_that_waits_for_a_value_does_not_move_on_without_it(flows: Flow) -> None:
    border = moved(flows)
    source = border.source
    *late, create = source.take_lines()
    source.move(2, 3, 3)
    *deletes, last = source.take_lines()
    # The row is gone at the end of this batch, and with it the only one that leads from key 1 to key 3.
    with pytest.raises(BadInputError, match=r"1 of note.*the delete of its old key"):
        border.deliver([create, *deletes])
    border.deliver(late)
    border.deliver([last])
    assert border.as_the_source()


def test_a_kill_between_the_kept_row_and_the_commit_repeats_both(flows: Flow) -> None:
    border = Border(flows)
    flows.changes["strategy"] = UpsertStrategy.MERGE
    source = border.source
    source.insert(1, 1, "short")
    border.deliver(source.take_lines())
    source.update(1, 2, "long new")
    source.move(1, 2, 3)
    *now, create = source.take_lines()
    border.held.append(create)
    with pytest.raises(Killed):
        border.deliver(now, InterruptedProgress(at="merge", then=kill))
    border.apply()
    border.rest()
    assert border.as_the_source()


def test_a_snapshot_that_was_expired_is_named_with_the_way_out(flows: Flow, spark: SparkSession) -> None:
    border = moved(flows)
    border.upto_delete()
    procedure = "CALL lake_default.system.expire_snapshots"
    spark.sql(f"{procedure}(table => '{flows.table}', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
    with pytest.raises(BadInputError, match=r"1 of note.*expired"):
        border.rest()

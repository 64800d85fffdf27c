"""Topics of a real broker as sources, run as the driver runs them and compared with what was produced."""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    InvalidConnectionError,
    JobFailedError,
    MissingTableError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.source_access import KafkaAccess
from airflow_lake_provider.spark_jobs.sources.base import open_source
from airflow_lake_provider.spark_jobs.sources.kafka.source import KafkaSource
from tests.end_to_end.kafka_broker import PASSWORD
from tests.spark.append_flow import append
from tests.spark.sources.kafka.topic_writer import SCHEMA, Cluster, jaas_of, orders, rows, topic
from tests.spark.sources.session_settings import event_log, given
from tests.spark.upsert_flow import CountedCommits, InterruptedProgress, Killed, NewFlow, kill

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}


def test_a_field_that_is_declared_in_another_case_is_refused(cluster: Cluster, new_flow: NewFlow) -> None:
    cluster.make("spelled", 2)
    cluster.send("spelled", *orders({"id": 1, "Name": "a"}, partitions=2))
    with pytest.raises(BadInputError, match="schema of topic spelled declares name where records have Name"):
        append(new_flow(), "run 1", source=topic("spelled"))


def test_records_without_any_declared_field_are_refused(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow()
    cluster.make("wrapped")
    cluster.send("wrapped", (0, None, {"schema": {}, "payload": {"id": 1, "name": "a"}}))
    with pytest.raises(BadInputError, match=r"topic wrapped declares \['id', 'name'\].*schemas\.enable=false"):
        append(flow, "run 1", source=topic("wrapped"))
    whole = topic("wrapped", schema="payload STRUCT<id: BIGINT, name: STRING>")
    append(flow, "run 1", source=Query("SELECT payload.* FROM source", over=whole))
    assert rows(flow) == [(1, "a")]


def test_each_record_is_added_once_whatever_comes_meanwhile(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow()
    cluster.make("events", 2)
    cluster.send("events", *orders({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, partitions=2))
    source = topic("events")
    assert append(flow, "run 1", source=source).batch_rows == 2
    assert append(flow, "run 1", source=source).outcome is Outcome.ALREADY_APPLIED
    assert append(flow, "run 2", source=source).outcome is Outcome.NOTHING_NEW
    cluster.grow("events", 3)
    cluster.send("events", *orders({"id": 5, "name": "c"}, partitions=3))
    with pytest.raises(Killed):
        append(flow, "run 3", InterruptedProgress(at="commit", then=kill), source=source)
    report = append(flow, "run 3", source=source)
    assert report.reason.startswith("applied the offsets of partitions 2: 0 to 0")
    assert rows(flow) == [(1, "a"), (2, "b"), (5, "c")]


def test_a_run_goes_on_until_what_was_there_at_its_start_and_a_retry_behind_the_last_commit(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    flow = new_flow()
    cluster.make("long", 2)
    sent = orders(*({"id": number, "name": "a"} for number in range(10)), partitions=2)
    cluster.send("long", *sent)
    source = topic("long", max_records=4, catch_up=True)

    def commit(number: int) -> None:
        if number == 1:
            # Of the next run.
            cluster.send("long", *orders({"id": 10, "name": "b"}, partitions=2))
        if number == 2:
            raise Killed

    with pytest.raises(Killed):
        append(flow, "run 1", CountedCommits(then=commit), source=source)
    assert len(rows(flow)) == 8
    # The retry begins later, and has what came until then.
    report = append(flow, "run 1", source=source)
    assert (report.batch_rows, len(report.committed)) == (3, 1)
    cluster.send("long", *orders(*({"id": number, "name": "c"} for number in range(11, 20)), partitions=2))
    report = append(flow, "run 2", source=Query("SELECT id, name FROM source", over=source))
    assert (report.outcome, report.batch_rows, report.rows_appended) == (Outcome.APPLIED, 9, 9)
    assert "; 2 more commits followed, the last of which applied the offsets of partitions" in report.reason
    assert [state.rows for state in (report.before, report.after) if state] == [11, 20]
    assert append(flow, "run 2", source=source).outcome is Outcome.NOTHING_NEW
    assert [row[0] for row in rows(flow)] == list(range(20))


def test_an_upsert_of_keyed_records_equals_the_model_in_shares_and_after_compaction(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    flow = new_flow(keys=("id",), **PLAIN)
    compacts = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0", "segment_ms": "100"}
    cluster.make("shop", 2, **compacts, max_compaction_lag_ms="100")
    source = topic("shop", key_schema="id BIGINT", schema="name STRING", max_records=12)
    chance = random.Random(7)
    model: dict[int, str | None] = {}

    def produce(count: int) -> None:
        sent = []
        for number in range(count):
            key = chance.randrange(6)
            value = None if chance.random() < 0.25 else f"n{number}"
            model[key] = value
            sent.append((key % 2, str(key), None if value is None else {"name": value}))
        cluster.send("shop", *sent)

    def expected() -> list[tuple[Any, ...]]:
        return sorted((key, name) for key, name in model.items() if name is not None)

    produce(14)
    # What is aborted nobody sees; what is committed is a record as any other.
    cluster.transaction("shop", (0, "0", {"name": "committed"}), commits=True)
    cluster.transaction("shop", (0, "0", {"name": "aborted"}), (0, "2", {"name": "aborted"}), commits=False)
    model[0] = "committed"
    reports = [flow.apply(f"run {number}", source=source) for number in range(3)]
    assert [report.outcome for report in reports[:2]] == [Outcome.APPLIED] * 2
    assert "offsets wait for the next run" in reports[0].reason
    assert reports[-1].outcome is Outcome.NOTHING_NEW
    assert rows(flow) == expected()
    produce(12)
    # A segment that is written to is not compacted.
    time.sleep(0.2)
    cluster.send("shop", (0, "0", {"name": "last"}), (1, "1", None))
    model |= {0: "last", 1: None}
    cluster.wait_until_compacted("shop", 5)
    cluster.assert_a_worker_sees_the_same_end("shop")
    flow.apply("after", source=topic("shop", key_schema="id BIGINT", schema="name STRING"))
    assert rows(flow) == expected()


def test_records_of_a_key_in_two_partitions_have_no_order_but_that_of_a_column(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    flow = new_flow(keys=("id",), **PLAIN)
    cluster.make("moved", 2)
    cluster.send("moved", (0, "1", {"id": 1, "name": "old"}))
    # In another millisecond.
    time.sleep(0.01)
    cluster.send("moved", (1, "1", {"id": 1, "name": "new"}))
    with pytest.raises(BadInputError, match="order_by"):
        flow.apply(source=topic("moved"))
    with pytest.raises(BadInputError, match="leaves 1 records of topic moved to others"):
        flow.apply(source=topic("moved", max_records=1))
    timed = topic("moved", metadata_columns=["offset", "timestamp"])
    flow.apply(source=timed, order_by=("kafka_timestamp",), exclude_columns=("kafka_offset", "kafka_timestamp"))
    assert rows(flow) == [(1, "new")]


def test_a_share_without_rows_moves_the_position_and_deletes_are_told_by_no_column_of_the_table(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    added = new_flow()
    changed = replace(new_flow(keys=("id",), delete_when=None), table=f"{added.table}_by_key")
    cluster.make("sparse")
    cluster.send("sparse", (0, "1", None), (0, "1", None), (0, "2", {"name": "a"}))
    keyed: dict[str, Any] = {"key_schema": "id BIGINT", "schema": "name STRING"}
    share = topic("sparse", **keyed, tombstones="skip", max_records=2)
    # The first one makes the table, which keeps how far it was read.
    for report in (append(added, "run 1", source=share), changed.apply("run 1", source=share)):
        assert report.outcome is Outcome.APPLIED
        assert report.reason == "applied the offsets of partitions 0: 0 to 1; 1 offsets wait for the next run"
    assert rows(added) == rows(changed) == []
    cluster.send("sparse", (0, "3", {"name": "b", "note": "c"}), (0, "2", None))
    contract: dict[str, Any] = {"schema_contract": SchemaContract(new_columns="discard_value")}
    wider = topic("sparse", **{**keyed, "schema": "name STRING, note STRING"})
    with pytest.raises(BadInputError, match="would become rows of NULL"):
        changed.apply("run 2", source=Query("SELECT id, name FROM source", over=wider))
    report = changed.apply("run 2", source=wider, **contract)
    assert report.reason.startswith("applied the offsets of partitions 0: 2 to 4")
    assert rows(changed) == [(3, "b")]
    append(added, "run 2", source=replace(wider, tombstones="skip"), **contract)
    assert rows(added) == [(2, "a"), (3, "b")]


def test_what_was_read_without_a_row_is_consumed_before_the_broker_removes_it(
    cluster: Cluster, new_flow: NewFlow
) -> None:
    added = new_flow()
    changed = replace(new_flow(keys=("id",), delete_when=None), table=f"{added.table}_by_key")
    cluster.make("left_out")
    cluster.send("left_out", (0, None, {"id": 1, "name": "a"}))
    source = Query("SELECT * FROM source WHERE name = 'a'", over=topic("left_out"))

    def run(number: int) -> list[Any]:
        return [append(added, f"run {number}", source=source), changed.apply(f"run {number}", source=source)]

    assert [report.outcome for report in run(1)] == [Outcome.APPLIED] * 2
    cluster.send("left_out", (0, None, {"id": 2, "name": "b"}))
    # No run of each minute has a commit of its own.
    assert [(report.outcome, report.committed) for report in run(2)] == [(Outcome.EMPTY_BATCH, ())] * 2
    for flow in (added, changed):
        flow.forget_commits("(3, 'c')")
    reports = run(3)
    assert {report.reason for report in reports} == {"applied the offsets of partitions 0: 1 to 1"}
    cluster.cut("left_out", 0, 2)
    cluster.send("left_out", (0, None, {"id": 4, "name": "a"}))
    run(4)
    assert rows(added) == rows(changed) == [(1, "a"), (3, "c"), (4, "a")]


def test_records_that_are_gone_are_counted_and_left_behind_only_when_asked(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow()
    cluster.make("short", 2)
    cluster.send("short", *orders(*({"id": number, "name": "a"} for number in range(4)), partitions=2))
    append(flow, "run 1", source=topic("short"))
    cluster.send("short", *orders(*({"id": number, "name": "b"} for number in range(4, 10)), partitions=2))
    cluster.cut("short", 0, 4)
    cluster.cut("short", 1, 5)
    with pytest.raises(BadInputError, match=r"removed 5 offsets.*: 2 of partition 0, 3 of partition 1 of topic short"):
        append(flow, "run 2", source=topic("short"))
    report = append(flow, "run 2", source=topic("short", on_gap="skip"))
    assert "partitions 0: 4 to 4; gone before they were read are 5 offsets" in report.reason
    assert rows(flow) == [(0, "a"), (1, "a"), (2, "a"), (3, "a"), (8, "b")]
    # Gone between the look at the offsets and the reading.
    cluster.send("short", *orders(*({"id": number, "name": "d"} for number in range(40, 44)), partitions=2))
    source = open_source(cluster.spark, new_flow(**PLAIN).spec(source=topic("short")))
    assert isinstance(source, KafkaSource)
    listing = source.list().beyond(SourcePosition())
    cluster.cut("short", 0, 6)
    with pytest.raises(JobFailedError, match="has lost records while they were read"), source.reading(listing):
        source.raw(listing, None).rows.count()
    cluster.remove("short")
    cluster.make("short", 2)
    cluster.send("short", *orders(*({"id": number, "name": "c"} for number in range(20, 36)), partitions=2))
    with pytest.raises(BadInputError, match="short was made anew"):
        append(flow, "run 3", source=topic("short", on_gap="skip"))
    append(flow, "run 3", source=topic("short"), on_repeat="apply")
    cluster.grow("short", 3)
    cluster.assert_a_worker_sees_the_same_end("short")
    assert append(flow, "run 4", source=topic("short")).outcome is Outcome.NOTHING_NEW
    assert len(rows(flow)) == 5 + 16


def test_a_table_may_begin_at_a_moment_and_a_query_reads_a_topic(cluster: Cluster, new_flow: NewFlow) -> None:
    flow = new_flow()
    cluster.make("timed")
    cluster.send("timed", (0, None, {"id": 1, "name": "before"}))
    time.sleep(0.02)
    moment = datetime.now(UTC).isoformat()
    time.sleep(0.02)
    cluster.send("timed", (0, None, {"id": 2, "name": "after"}))
    sql = "SELECT id * 10 AS id, name FROM source"
    append(flow, "run 1", source=Query(sql, over=topic("timed", starting=moment)))
    assert rows(flow) == [(20, "after")]


def test_a_connection_may_say_how_long_an_answer_takes(cluster: Cluster, new_flow: NewFlow) -> None:
    spark = cluster.spark
    cluster.make("waits")
    cluster.send("waits", (0, None, {"id": 1, "name": "a"}))
    source = KafkaTopic("waits", "waits", schema=SCHEMA)

    def count(properties: dict[str, str]) -> int:
        access = KafkaAccess({"bootstrap.servers": cluster.broker.plain, **properties})
        with given(spark, access.to_settings("waits")):
            opened: Any = open_source(spark, new_flow(**PLAIN).spec(source=source))
            return int(opened.raw(opened.list(), None).rows.count())

    # Kafka takes no wait for a call that is shorter than that for one answer.
    assert count({"request.timeout.ms": "40000"}) == 1
    assert count({"default.api.timeout.ms": "9000"}) == 1
    for refused in ({"request.timeout.ms": "x"}, {"request.timeout.ms": "9000", "default.api.timeout.ms": "8000"}):
        with pytest.raises(InvalidConnectionError, match="a property that Kafka does not take"):
            count(refused)


def test_a_login_is_in_no_plan_and_no_event_and_what_cannot_be_read_is_refused(
    cluster: Cluster, new_flow: NewFlow, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spark = cluster.spark
    jaas = KafkaAccess(
        {"bootstrap.servers": cluster.broker.sasl, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
        {"sasl.jaas.config": jaas_of(PASSWORD)},
    )
    wrong = replace(jaas, secrets={"sasl.jaas.config": jaas_of("wrong-secret")})
    settings = {**jaas.to_settings("sasl"), **wrong.to_settings("wrong")}
    cluster.make("private")
    cluster.send("private", (0, None, {"id": 1, "name": "a"}))

    def opened(connection: str, name: str) -> Any:
        return open_source(spark, new_flow(**PLAIN).spec(source=KafkaTopic(connection, name, schema=SCHEMA)))

    with given(spark, settings), event_log(spark, settings, tmp_path):
        source = opened("sasl", "private")
        batch = source.raw(source.list(), None).rows
        batch.explain(extended=True)
        batch.explain("formatted")
        assert batch.count() == 1
    shown = "".join(capfd.readouterr())
    events = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "KafkaRelation" in shown
    assert "private" in events
    # As it is, and as JSON or a file of settings would have it.
    secret = re.compile(r"p@ss|wrong-secret")
    where = {"plans": shown, "events": events, "rows": repr(batch), "access": repr(jaas)}
    assert {name: found for name, text in where.items() if (found := secret.findall(text))} == {}
    for connection, name, error, says in [
        ("sasl", "missing", MissingTableError, "topic missing of 127.0.0.1.* does not exist"),
        ("wrong", "private", InvalidConnectionError, "cannot be logged in to"),
        ("other", "private", InvalidConnectionError, "did not come with the job's settings"),
    ]:
        with given(spark, settings), pytest.raises(error, match=says) as caught:
            opened(connection, name).list()
        assert not secret.search(str(caught.value))

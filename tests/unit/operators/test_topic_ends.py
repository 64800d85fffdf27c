"""A worker starts no Spark for a table that stands at the end of its topic; in any doubt it does."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.positions import OffsetsPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, positions_in_summary
from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError
from airflow_lake_provider.contracts.table_properties import RUN_KEY, SOURCE_POSITION
from airflow_lake_provider.hooks import topic_end
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.unit.operators.run_of_tests import NO_SPARK, RUN

if TYPE_CHECKING:
    from airflow.sdk import Context

TOPIC = KafkaTopic("shop", "orders", schema="id BIGINT", name="orders")
ID = "-w9kLXjZQ_q1aGWs0cTkmQ"
READ = {"0": 5, "1": 0}


@pytest.fixture(autouse=True)
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connection ``shop``, to a broker that is not there."""
    extra = {"bootstrap.servers": "127.0.0.1:1"}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "kafka", "extra": extra}))


@pytest.fixture
def table(lake_catalog: SqlCatalog) -> Table:
    """A table that has read the topic, by another run."""
    position = SourcePosition().moved(OffsetsPosition(READ, ID), {"schema": "before"})
    made = lake_catalog.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]))
    commit(made, position)
    return made


def commit(table: Table, position: SourcePosition, run_key: str = "0" * 16) -> None:
    with table.transaction() as run:
        summary = {SOURCE_POSITION: positions_in_summary({"orders": position}), RUN_KEY: run_key}
        run.append(pa.table({"id": [1]}), snapshot_properties=summary)
        run.set_properties(position.to_properties("orders"))


def ends_at(monkeypatch: pytest.MonkeyPatch, offsets: Mapping[str, int] | None, topic: str = ID) -> None:
    end = None if offsets is None else OffsetsPosition(offsets, topic)
    monkeypatch.setattr(topic_end, "end_of_topic", lambda source: end)


def job(source: Source = TOPIC, **arguments: Any) -> LakeAppendOperator:
    return LakeAppendOperator(task_id="t", table="shop.orders", source=source, **NO_SPARK, **arguments)


def answer(context: Context, operator: Any) -> Any:
    (task,) = operator.table_tasks(context)
    task.answer_without_spark()
    if task.error is not None:
        raise task.error
    return task.report


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("offsets", "topic", "starts_spark"),
    [
        (READ, ID, False),
        # A partition that came, and has nothing.
        ({**READ, "2": 0}, ID, False),
        ({**READ, "2": 1}, ID, True),
        ({"0": 6, "1": 0}, ID, True),
        ({"0": 4, "1": 0}, ID, True),
        ({"0": 5, "1": 1}, ID, True),
        ({"1": 0}, ID, True),
        (READ, "another", True),
        (None, ID, True),
    ],
)
def test_spark_starts_unless_each_partition_ends_where_the_table_stands(
    context: Context, monkeypatch: pytest.MonkeyPatch, offsets: Mapping[str, int] | None, topic: str, starts_spark: bool
) -> None:
    ends_at(monkeypatch, offsets, topic)
    upsert = LakeUpsertOperator(task_id="t", table="shop.orders", source=TOPIC, keys=["id"], **NO_SPARK)
    query = Query("SELECT * FROM source", over=replace(TOPIC, name=None), name="orders")
    stream = DebeziumTopic("shop", "orders", table="public.orders", name="orders")
    events = LakeUpsertOperator(task_id="e", table="shop.orders", source=stream, keys=["id"], **NO_SPARK)
    reports = [answer(context, operator) for operator in (job(), upsert, job(query), events)]
    assert [report is None for report in reports] == [starts_spark] * 4
    if not starts_spark:
        assert [report.action for report in reports] == ["append", "upsert", "append", "upsert"]
        assert {report.outcome for report in reports} == {"nothing-new"}
        assert {report.after.rows for report in reports} == {1}


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    "operator",
    [
        lambda: job(on_repeat="apply"),
        lambda: job(on_repeat="fail"),
        lambda: job(KafkaTopic("shop", "orders", schema="id BIGINT", name="orders", on_source_change="fail")),
        lambda: job(KafkaTopic("shop", "orders", schema="id BIGINT", name="other")),
        lambda: job(Query("SELECT * FROM o", over={"o": replace(TOPIC, name=None)}, name="orders")),
    ],
)
def test_what_looks_at_more_than_the_position_is_left_to_the_driver(
    context: Context, monkeypatch: pytest.MonkeyPatch, operator: Any
) -> None:
    ends_at(monkeypatch, READ)
    assert answer(context, operator()) is None


def test_a_table_that_is_new_or_was_rolled_back_is_left_to_the_driver(
    lake_catalog: SqlCatalog, table: Table, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_at(monkeypatch, READ)
    first = table.current_snapshot()
    assert first is not None
    commit(table, SourcePosition.read(table.properties, "orders").moved(OffsetsPosition(READ, ID)))
    assert answer(context, job()) is not None
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert answer(context, job()) is None
    lake_catalog.drop_table("shop.orders")
    assert answer(context, job()) is None


def test_a_retry_behind_a_commit_tells_of_it_without_spark(
    table: Table, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = SourcePosition.read(table.properties, "orders")
    commit(table, position.moved(OffsetsPosition({"0": 9, "1": 0}, ID)), RUN.who + "0" * 8)
    ends_at(monkeypatch, {"0": 9, "1": 0})
    report = job(retries=3).execute(context)
    head = table.refresh().current_snapshot()
    assert head is not None
    assert (report["outcome"], report["committed"]) == ("already-applied", [str(head.snapshot_id)])


@pytest.mark.parametrize("catches_up", [False, True])
def test_a_lost_report_of_a_run_of_several_commits_is_a_failure_as_some_may_be_missing(
    table: Table, context: Context, catches_up: bool
) -> None:
    source = replace(TOPIC, max_records=1, catch_up=catches_up)
    operator = job(source)
    (task,) = operator.table_tasks(context)
    task.look_before_submission(None)
    commit(table, SourcePosition.read(table.properties, "orders"), RUN.who + "0" * 8)
    task.resolve_lost_report(JobFailedError("the driver went away"), operator.lake, of_any_try=False)
    assert (task.report is None, task.error is None) == (catches_up, not catches_up)


@pytest.mark.usefixtures("table")
def test_what_a_table_cannot_take_is_refused_also_where_nothing_is_new(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_at(monkeypatch, READ)
    with pytest.raises(BadInputError, match="other"):
        answer(context, job(deduplicate_by=["other"], schema_contract="freeze"))


class Cluster:
    """A client whose answers are given: a topic of two partitions, or an error."""

    def __init__(self, fault: Exception | None = None, id_: tuple[int, int] = (-(2**58) + 7, -1)) -> None:
        self.fault = fault
        self.id = id_
        self.isolation = ""

    def _answer(self, value: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.fault is None:
            future.set_result(value)
        else:
            future.set_exception(self.fault)
        return future

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        most, least = self.id
        id_ = Given(get_most_significant_bits=lambda: most, get_least_significant_bits=lambda: least)
        described = Given(topic_id=id_, partitions=[Given(id=0), Given(id=1)])
        return {"orders": self._answer(described)}

    def list_offsets(self, asked: Any, *, isolation_level: Any, **_: Any) -> dict[Any, Future[Any]]:
        self.isolation = isolation_level.name
        return {of: self._answer(Given(offset=3 + of.partition)) for of in asked}


class Given:
    """An object with the attributes that are given."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def asked_of(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> OffsetsPosition | None:
    from airflow.providers.apache.kafka.hooks.client import KafkaAdminClientHook

    monkeypatch.setattr(KafkaAdminClientHook, "get_conn", cluster)
    return topic_end.end_of_topic(TOPIC)


def test_offsets_end_behind_committed_transactions_and_ids_are_written_as_javas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    assert asked_of(monkeypatch, cluster) == OffsetsPosition({"0": 3, "1": 4}, "_AAAAAAAAAf_________" + "_w")
    assert cluster.isolation == "READ_COMMITTED"


def test_a_broker_without_ids_is_left_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_of(monkeypatch, Cluster(id_=(0, 0))) is None


@pytest.mark.parametrize("fault", [KafkaException("no such topic"), TimeoutError(), ValueError("no servers")])
def test_an_error_is_no_end(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    assert asked_of(monkeypatch, Cluster(fault)) is None


def test_a_broker_that_never_answers_holds_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_end, "_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        extra = {"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "kafka", "extra": extra}))
        begun = time.monotonic()
        assert topic_end.end_of_topic(TOPIC) is None
        assert time.monotonic() - begun < 10


def test_without_the_provider_the_driver_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.apache.kafka.hooks.client", None)
    assert topic_end.end_of_topic(TOPIC) is None

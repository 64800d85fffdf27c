"""A topic of change events as authors give it: what is refused before Spark starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import source
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec

ORDERS = DebeziumTopic("kafka", "shop.public.orders", table="public.orders", name="s")
RUN = RunIdentity.of("dag", "run", "task", "-1")
LAKE: dict[str, Any] = {"catalog": "lake_default", "table": "shop.orders", "run": RUN}


def test_a_mapping_gives_what_the_class_gives() -> None:
    given = {"type": "debezium-topic", "connection": "kafka", "topic": "shop.public.orders", "name": "s"}
    assert source({**given, "table": "public.orders"}) == ORDERS
    assert replace(ORDERS, registry="r").connections == {"kafka": "kafka", "r": "registry"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ordering": "stream"}, "must be 'partition', where all events of a key are in one partition, or 'key'"),
        ({"starting": "latest"}, "must be 'earliest' or a time with a zone"),
        ({"catch_up": True}, r"DebeziumTopic\.catch_up goes on after each max_records"),
        ({"binary_handling_mode": "octal"}, "binary_handling_mode must be one of 'bytes'"),
        ({"schema": "id BIGINT NOT"}, r"DebeziumTopic\.schema"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSpecError, match=says):
        replace(ORDERS, **given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"branch": "audit"}, "topic shop.public.orders of connection 'kafka' does not go with branch"),
        ({"is_complete": True}, "complete=True takes a source that has all of them"),
        ({"order_by": ("at",)}, "DebeziumTopic's events bring their own order and deletes"),
        ({"merge_engine": Deduplicate(ignore_stale=True)}, "carry whole rows and their own order"),
        (
            {"source": replace(ORDERS, ordering="key"), "merge_engine": Deduplicate(deletes="ignore")},
            "ordering='key' does not go with deletes='ignore'",
        ),
        ({"source": replace(ORDERS, max_records=5), "on_repeat": "apply"}, "leave max_records out"),
    ],
)
def test_arguments_that_events_of_a_topic_do_not_go_with_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSpecError, match=says):
        UpsertSpec(**{**LAKE, "source": ORDERS, "keys": ("id",), **given})


def test_loads_of_rows_and_queries_take_no_change_events() -> None:
    with pytest.raises(InvalidSpecError, match="takes rows, and DebeziumTopic has change events"):
        AppendSpec(**LAKE, source=ORDERS)
    with pytest.raises(InvalidSpecError, match="over must be Files"):
        Query("SELECT 1", over=replace(ORDERS, name=None))
    with pytest.raises(UnsupportedError, match=r"Kafka is read by Spark 4\.1"):
        ORDERS.refuse_spark("3.5")


def test_how_much_is_read_at_a_time_makes_no_other_batch() -> None:
    bounded = replace(ORDERS, max_records=5, catch_up=True, on_gap="skip")
    specs = [UpsertSpec(**LAKE, source=each, keys=("id",)) for each in (ORDERS, bounded)]
    assert len({spec.digest_text() for spec in specs}) == 1

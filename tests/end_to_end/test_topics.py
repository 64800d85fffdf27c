"""Topics of a real broker through Airflow: what is new is applied once, and nothing new starts no Spark."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it is documented
from pyiceberg.catalog import load_catalog

from scripts.airflow_process import AirflowProcess
from tests.end_to_end.airflow_command import DAGS, dag_run
from tests.end_to_end.kafka_broker import PASSWORD, USER, KafkaBroker, kafka_broker
from tests.spark.sources.debezium.event_writer import SourceTable
from tests.spark.sources.kafka.topic_writer import connector_jars

PRODUCED = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}
EVENTS = "shop.public.items"


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as started:
        admin = AdminClient({"bootstrap.servers": started.plain})
        for made in admin.create_topics([NewTopic(name, 2, 1) for name in ("orders", EVENTS)]).values():
            made.result(30)
        yield started


@pytest.fixture(scope="module")
def airflow(migrated: Mapping[str, str], lake_home: Path, broker: KafkaBroker) -> Iterator[AirflowProcess]:
    """Airflow's commands, with a connection to the broker that has a login, and the jars of a job that reads topics."""
    extra = {
        "bootstrap.servers": broker.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    environment = {
        **migrated,
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "CONNECTOR_JARS": ",".join(map(str, connector_jars())),
        "AIRFLOW_CONN_KAFKA_SHOP": json.dumps({"conn_type": "kafka", "extra": extra}),
    }
    with closing(AirflowProcess(environment, lake_home / "airflow.log", print)) as started:
        yield started


def produce(broker: KafkaBroker, *orders: Mapping[str, Any]) -> None:
    send(broker, "orders", [(order["id"] % 2, None, order) for order in orders])


def send(broker: KafkaBroker, topic: str, records: Sequence[tuple[int, Any, Any]]) -> None:
    """Write (partition, key, value) as JSON; a value that is None is a tombstone."""
    producer = Producer({"bootstrap.servers": broker.plain})
    for partition, key, value in records:
        key_text, value_text = (None if each is None else json.dumps(each) for each in (key, value))
        producer.produce(topic, value_text, key_text, partition)
    assert producer.flush(30) == 0


def send_events(broker: KafkaBroker, table: SourceTable) -> None:
    """Write what a connector has to say of a table, each key to a partition of its own."""
    lines = map(json.loads, table.take_lines())
    send(broker, EVENTS, [(line["key"]["id"] % 2, line["key"], line["value"]) for line in lines])


def test_new_records_are_applied_once_and_without_any_no_spark_starts(
    airflow: AirflowProcess, lake_home: Path, broker: KafkaBroker
) -> None:
    log, items = lake_home / "airflow.log", SourceTable()

    def run(day: str, **conf: bool) -> tuple[dict[str, Any], dict[str, Any], int]:
        """Run the DAG, once more where it has run for the day; return both reports and how many drivers started."""
        begin = log.stat().st_size if log.exists() else 0
        airflow.run(*dag_run("topic_once", day, "--conf", json.dumps(conf)))
        with closing(sqlite3.connect(lake_home / "airflow" / "airflow.db")) as database:
            query = (
                "SELECT task_id, value FROM xcom JOIN dag_run ON dag_run.id = xcom.dag_run_id "
                "WHERE key = 'return_value' AND xcom.dag_id = 'topic_once' AND logical_date LIKE ?"
            )
            reports = {task: json.loads(value) for task, value in database.execute(query, [f"{day}%"])}
        text = log.read_bytes()[begin:].decode()
        assert PASSWORD not in text
        return reports["orders"], reports["items"], text.count("Spark-Submit cmd")

    def rows(table: str) -> list[dict[str, Any]]:
        lake = {"uri": f"sqlite:///{lake_home}/catalog.db", "warehouse": f"file://{lake_home}/warehouse"}
        found = load_catalog("lake_default", type="sql", **lake).load_table(table)
        return sorted(found.scan().to_arrow().to_pylist(), key=lambda row: row["id"])

    def expected_items() -> list[dict[str, Any]]:
        return [items.rows[key] for key in sorted(items.rows)]

    produce(broker, *PRODUCED)
    for key in (1, 2, 3):
        items.insert(key, 0, f"long {key}")
    items.delete(2)
    send_events(broker, items)
    first, changed, drivers = run("2026-01-01")
    assert (first["outcome"], first["batch_rows"], drivers) == ("applied", 2, 2)
    assert (changed["outcome"], changed["batch_rows"]) == ("applied", 4)
    assert rows("shop.items") == expected_items()
    second, changed, drivers = run("2026-01-02")
    assert (second["outcome"], second["committed"], drivers) == ("nothing-new", [], 0)
    assert (changed["outcome"], changed["committed"]) == ("nothing-new", [])
    produce(broker, {"id": 3, "name": "c"})
    items.update(1, 7)
    items.move(3, 4, 9)
    send_events(broker, items)
    # The first try is lost behind its commit; the second one needs no driver to tell of it.
    third, changed, drivers = run("2026-01-03", fails=True)
    assert (third["outcome"], changed["outcome"], drivers) == ("already-applied", "already-applied", 2)
    assert third["committed"] not in ([], first["committed"])
    cleared, changed, drivers = run("2026-01-03")
    assert (cleared["outcome"], changed["outcome"], drivers) == ("nothing-new", "nothing-new", 0)
    assert rows("shop.orders") == [*PRODUCED, {"id": 3, "name": "c"}]
    assert rows("shop.items") == expected_items()

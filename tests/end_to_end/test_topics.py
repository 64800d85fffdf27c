"""A topic of a real broker through Airflow: what is new is added once, and nothing new starts no Spark."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
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
from tests.spark.sources.kafka.topic_writer import connector_jars

PRODUCED = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as started:
        admin = AdminClient({"bootstrap.servers": started.plain})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
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
    producer = Producer({"bootstrap.servers": broker.plain})
    for order in orders:
        producer.produce("orders", json.dumps(order), partition=order["id"] % 2)
    assert producer.flush(30) == 0


def test_new_records_are_added_once_and_without_any_no_spark_starts(
    airflow: AirflowProcess, lake_home: Path, broker: KafkaBroker
) -> None:
    log = lake_home / "airflow.log"

    def run(day: str, **conf: bool) -> tuple[dict[str, Any], int]:
        """Run the DAG, once more where it has run for the day; return its report and how many drivers started."""
        begin = log.stat().st_size if log.exists() else 0
        airflow.run(*dag_run("topic_once", day, "--conf", json.dumps(conf)))
        with closing(sqlite3.connect(lake_home / "airflow" / "airflow.db")) as database:
            query = (
                "SELECT value FROM xcom JOIN dag_run ON dag_run.id = xcom.dag_run_id "
                "WHERE key = 'return_value' AND xcom.dag_id = 'topic_once' AND logical_date LIKE ?"
            )
            ((value,),) = database.execute(query, [f"{day}%"]).fetchall()
        text = log.read_bytes()[begin:].decode()
        assert PASSWORD not in text
        return json.loads(value), text.count("Spark-Submit cmd")

    def rows() -> list[dict[str, Any]]:
        lake = {"uri": f"sqlite:///{lake_home}/catalog.db", "warehouse": f"file://{lake_home}/warehouse"}
        table = load_catalog("lake_default", type="sql", **lake).load_table("shop.orders")
        return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])

    produce(broker, *PRODUCED)
    first, drivers = run("2026-01-01")
    assert (first["outcome"], first["batch_rows"], drivers) == ("applied", 2, 1)
    second, drivers = run("2026-01-02")
    assert (second["outcome"], second["committed"], drivers) == ("nothing-new", [], 0)
    produce(broker, {"id": 3, "name": "c"})
    # The first try is lost behind its commit; the second one needs no driver to tell of it.
    third, drivers = run("2026-01-03", fails=True)
    assert (third["outcome"], drivers) == ("already-applied", 1)
    assert third["committed"] not in ([], first["committed"])
    cleared, drivers = run("2026-01-03")
    assert (cleared["outcome"], drivers) == ("nothing-new", 0)
    assert rows() == [*PRODUCED, {"id": 3, "name": "c"}]

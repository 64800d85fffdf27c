"""Connections of databases, Kafka, registries and Spark that pages and messages show are ones that jobs take."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from airflow_lake_provider.hooks import database_connection, kafka_connection, spark_connection
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from scripts.markdown_pages import REPOSITORY, documents

READERS: dict[str, Callable[[str], Any]] = {
    "postgres": database_connection.database_access,
    "kafka": kafka_connection.kafka_access,
    "http": kafka_connection.registry_access,
    "spark": lambda conn_id: SparkTarget.read(conn_id, None),
}
TEXTS = {str(path.relative_to(REPOSITORY)): path.read_text() for path in documents()}
TEXTS["docker/compose.yaml"] = (REPOSITORY / "docker/compose.yaml").read_text()
TEXTS |= {
    "message of a database": database_connection.EXAMPLE,
    "message of Kafka": kafka_connection.EXAMPLE,
    "message of a registry": kafka_connection.REGISTRY_EXAMPLE,
    "message of Spark": spark_connection.EXAMPLE,
}


def connections() -> Iterator[Any]:
    for place, text in TEXTS.items():
        for number, match in enumerate(re.finditer(r'\{"conn_type": "(?!iceberg")', text), 1):
            yield pytest.param(json.JSONDecoder().raw_decode(text[match.start() :])[0], id=f"{place} {number}")


SHOWN = list(connections())


@pytest.mark.parametrize("fields", SHOWN)
def test_a_connection_that_is_shown_is_taken(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # The package of Kubernetes is an extra, which a test of its own is about.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SHOWN", json.dumps(fields))
    assert READERS[fields["conn_type"]]("shown")


def test_each_kind_is_shown() -> None:
    assert {fields["conn_type"] for each in SHOWN for fields in each.values} == set(READERS)

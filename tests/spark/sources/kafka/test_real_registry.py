"""Values whose schemas a real registry has, with Confluent's API: Apicurio's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.source_access import RegistryAccess
from tests.spark.append_flow import append
from tests.spark.sources.kafka.apicurio_registry import apicurio_registry
from tests.spark.sources.kafka.schema_registry import encoded, framed, record
from tests.spark.sources.kafka.topic_writer import Cluster
from tests.spark.sources.session_settings import given
from tests.spark.upsert_flow import NewFlow

FIRST = record("Order", id="long", name="string")
SECOND = record("Order", id="long", name="string", amount=["null", "long"])
LINE = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "of", "type": "shop.Order"}]}


def test_avro_is_decoded_with_the_schemas_that_a_real_registry_has(cluster: Cluster, new_flow: NewFlow) -> None:
    flow, source = new_flow(), KafkaTopic("kafka", "kept", value_format="avro", registry="registry")
    cluster.make("kept")
    with (
        apicurio_registry() as registry,
        given(cluster.spark, RegistryAccess(registry.url).to_settings("registry")),
    ):
        first, second = (registry.register("kept-value", schema) for schema in (FIRST, SECOND))
        rows = [(first, FIRST, {"id": 1, "name": "é"}), (second, SECOND, {"id": 2, "name": "", "amount": 2**62})]
        cluster.send("kept", *((0, None, framed(number, encoded(kind, row))) for number, kind, row in rows))
        append(flow, "run 1", source=source)
        added = sorted((row["id"], row["name"], row["amount"]) for row in flow.records())
        assert added == [(1, "é", None), (2, "", 2**62)]
        cluster.send("kept", (0, None, framed(second + 7, b"\x02")))
        with pytest.raises(BadInputError, match=f"{registry.url} has no schema {second + 7}; is it the registry"):
            append(flow, "run 2", source=source)
        cluster.make("unknown")
        cluster.send("unknown", (0, None, framed(first, b"\x02")))
        unknown = KafkaTopic("kafka", "unknown", value_format="avro", registry="registry")
        with pytest.raises(BadInputError, match=f"{registry.url} has no subject unknown-value"):
            append(replace(flow, table=f"{flow.table}_unknown"), "run 3", source=unknown)
        cluster.make("lines")
        order = {"name": "shop.Order", "subject": "kept-value", "version": 1}
        line = registry.register("lines-value", LINE, [order])
        cluster.send("lines", (0, None, framed(line, encoded(FIRST, {"id": 1, "name": "a"}))))
        lines = KafkaTopic("kafka", "lines", value_format="avro", registry="registry")
        flow = replace(flow, table=f"{flow.table}_lines")
        append(flow, "run 4", source=lines)
        assert [row["of"] for row in flow.records()] == [{"id": 1, "name": "a"}]

"""One broker for all tests of topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.source_access import KafkaAccess
from tests.end_to_end.kafka_broker import kafka_broker
from tests.spark.sources.kafka.topic_writer import Cluster, add_connector
from tests.spark.sources.session_settings import given


@pytest.fixture(scope="package")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    if spark.version.startswith("3."):
        pytest.skip(f"Kafka is not read by Spark {spark.version}")
    add_connector(spark)
    with kafka_broker() as broker:
        access = KafkaAccess({"bootstrap.servers": broker.plain})
        with closing(Cluster.of(spark, broker)) as connected, given(spark, access.to_settings("kafka")):
            yield connected

"""A twentieth of the deliveries of ``scripts/soak redelivery``, with a fixed seed."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.soak.redelivery import SMALL, redeliver


def test_a_stream_delivered_again_and_late_ends_as_the_server_did(spark: SparkSession, tmp_path: Path) -> None:
    print(redeliver(spark, tmp_path, seed=12, deliveries=12, tables=(SMALL,), ways=("records", "stream", "key")))

"""The commands that a piece of work sends to the JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


@contextmanager
def commands(spark: SparkSession) -> Iterator[list[str]]:
    """Collect the commands that go to the JVM; what py4j sends for garbage that was collected is none of them."""
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client
    sent: list[str] = []
    plain = client.send_command

    def send_command(command: str, *more: Any, **words: Any) -> Any:
        if not command.startswith("m\nd\n"):
            sent.append(command)
        return plain(command, *more, **words)

    client.send_command = send_command
    try:
        yield sent
    finally:
        client.send_command = plain

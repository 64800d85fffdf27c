"""A topic whose configuration the user may not see: whether it is compacted is not known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_lake_provider.contracts.author.debezium_topic import DebeziumTopic
from airflow_lake_provider.contracts.errors import AccessDeniedError
from airflow_lake_provider.contracts.source_access import KafkaAccess
from airflow_lake_provider.spark_jobs.sources.envelopes.debezium.topic import CompactedRange
from airflow_lake_provider.spark_jobs.sources.kafka import cluster

ACCESS = KafkaAccess({"bootstrap.servers": "127.0.0.1:9092"})


@pytest.mark.parametrize(
    ("policy", "expected"), [("compact", True), ("compact,delete", True), ("delete", False), (None, None)]
)
def test_compaction_is_told_by_the_configuration_and_unknown_where_that_may_not_be_seen(
    monkeypatch: pytest.MonkeyPatch, policy: str | None, expected: bool | None
) -> None:
    @contextmanager
    def admin(*_: Any) -> Iterator[Any]:
        if policy is None:
            raise AccessDeniedError("topic orders may not be described")
        asked = MagicMock()
        config = asked.describeConfigs.return_value.all.return_value.get.return_value.get.return_value
        config.get.return_value.value.return_value = policy
        yield asked

    monkeypatch.setattr(cluster, "_admin", admin)
    monkeypatch.setattr(cluster, "class_named", MagicMock())
    monkeypatch.setattr(cluster, "list_of", MagicMock())
    assert cluster.is_compacted(MagicMock(), ACCESS, "orders") is expected


@pytest.mark.parametrize(
    ("is_told", "says"),
    [
        (True, "topic orders is compacted"),
        (False, "topic orders may be compacted (this user may not see its configuration, without DESCRIBE_CONFIGS)"),
    ],
)
def test_a_topic_is_called_compacted_only_where_the_broker_says_so(*, is_told: bool, says: str) -> None:
    source = DebeziumTopic("kafka", "orders", table="public.orders")
    compacted = CompactedRange(source=source, records=MagicMock(), ranges={}, texts=MagicMock(), is_told=is_told)
    assert compacted.what == says

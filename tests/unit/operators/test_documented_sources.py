"""The docstring of each load names the sources that it takes, and no others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_lake_provider import (
    Changes,
    Debezium,
    DebeziumTopic,
    Files,
    JdbcTable,
    KafkaTopic,
    LakeTable,
    PySparkFunction,
    Query,
    RepairedLetters,
)
from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.overwrite_partitions import LakeOverwritePartitionsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

FILES = Files("s3a://in/*.parquet")
SOURCES: Mapping[str, Source] = {
    "Files": FILES,
    "LakeTable": LakeTable("shop.lines"),
    "Changes": Changes("shop.lines"),
    "JdbcTable": JdbcTable("pg", "public.orders", watermark="n"),
    "KafkaTopic": KafkaTopic("kafka", "orders", schema="id BIGINT"),
    "Query": Query("SELECT * FROM source", over=FILES),
    "PySparkFunction": PySparkFunction("loads:orders", over={"files": FILES}),
    "Debezium": Debezium("s3a://in/*.json", table="orders"),
    "DebeziumTopic": DebeziumTopic("kafka", "orders", table="orders"),
    "RepairedLetters": RepairedLetters(),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        pytest.param(LakeUpsertOperator, {"keys": ["id"]}, id="upsert"),
        pytest.param(LakeAppendOperator, {}, id="append"),
        pytest.param(LakeOverwritePartitionsOperator, {"where": "true"}, id="overwrite"),
    ],
)
def test_a_load_takes_the_sources_that_its_docstring_names(
    name: str, operator: Any, arguments: Mapping[str, Any]
) -> None:
    described = re.search(r":param source:(.*?):param ", operator.__doc__, re.DOTALL)
    assert described is not None
    is_named = name in re.findall(r"``(\w+)``", described[1])
    try:
        operator(task_id="load", table="shop.orders", source=SOURCES[name], **arguments)
    except InvalidSpecError:
        assert not is_named
    else:
        assert is_named


def test_each_source_is_tried() -> None:
    kinds = {kind.__name__ for kind in Source.kinds().values() if kind.__module__.startswith("airflow_lake_provider")}
    assert set(SOURCES) == kinds

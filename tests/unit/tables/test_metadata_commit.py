"""Tables whose metadata the worker leaves to Spark."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
from airflow_lake_provider.tables.iceberg.metadata_commit import is_committed_without_spark


@pytest.fixture
def table(lake_catalog: SqlCatalog) -> Table:
    lake_catalog.create_namespace_if_not_exists("shop")
    made: Table = lake_catalog.create_table("shop.orders", Schema(NestedField(1, "id", LongType())))
    return made


def with_metadata(table: Table, **changes: Any) -> Table:
    metadata = table.metadata.model_copy(update=changes)
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def change(table: Table) -> MetadataChange:
    return MetadataChange(table_uuid=str(table.metadata.table_uuid))


@pytest.mark.parametrize(("seconds", "is_worker"), [(0, True), (10, True), (300, False)])
def test_a_table_whose_last_writer_is_ahead_is_left_to_java(table: Table, seconds: int, is_worker: bool) -> None:
    # Java reads no metadata that is more than a minute older than the entries of its logs.
    ahead = with_metadata(table, last_updated_ms=int((time.time() + seconds) * 1000))
    assert is_committed_without_spark(ahead, change(ahead)) is is_worker


@pytest.mark.parametrize(
    ("properties", "is_worker"),
    [
        ({}, True),
        ({"engine.hive.lock-enabled": "true"}, True),
        ({"engine.hive.lock-enabled": "false"}, False),
        ({"engine.hive.enabled": "TRUE"}, False),
    ],
)
def test_a_table_of_hive_that_java_commits_without_a_lock_is_left_to_it(
    table: Table, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], is_worker: bool
) -> None:
    catalog: Catalog = table.catalog
    monkeypatch.setitem(catalog.properties, "type", "hive")
    given = with_metadata(table, properties=properties)
    assert is_committed_without_spark(given, change(given)) is is_worker
    monkeypatch.setitem(catalog.properties, "type", "glue")
    assert is_committed_without_spark(given, change(given))

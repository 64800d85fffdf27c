"""The side table of deleted keys, and what else a table with ordering="key" has beside the columns of its events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from tests.spark.sources.debezium.event_writer import SourceTable, envelope
from tests.spark.sources.debezium.test_events_by_key import Deliveries, rows_of

SIDE = "order_by_key.items__deleted_keys"


@pytest.fixture
def inbox(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    spark.sql("DROP TABLE IF EXISTS order_by_key.items PURGE")
    spark.sql(f"DROP TABLE IF EXISTS {SIDE} PURGE")


def test_another_table_with_the_name_of_the_side_table_keeps_its_rows(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    source.insert(1, 1, "short")
    table.flow.catalog()
    table.deliver(source.take_lines())
    spark.sql(f"CREATE TABLE {SIDE} (id BIGINT, why STRING) USING iceberg")
    spark.sql(f"INSERT INTO {SIDE} VALUES (7, 'asked for')")
    source.delete(1)
    with pytest.raises(InvalidSpecError, match="items__deleted_keys has rows and is not the table of deleted keys"):
        table.deliver(source.take_lines())
    found = table.flow.catalog().load_table(SIDE).scan().to_arrow().to_pylist()
    assert found == [{"id": 7, "why": "asked for"}]
    assert table.rows() == {1: (1, "short")}


def test_keys_with_any_characters_in_their_names_are_kept(spark: SparkSession, inbox: Path) -> None:
    table = Deliveries(spark, inbox)
    schema = "`order-id` BIGINT, `a b` STRING, n BIGINT"
    source = replace(table.flow.changes["source"], schema=schema)
    row = {"order-id": 1, "a b": "x", "n": 1}
    created, deleted = (envelope(op, row, sequence) for op, sequence in (("c", ["1", "2"]), ("d", ["3", "4"])))
    table.deliver([json.dumps(created)], source=source, keys=("order-id", "a b"))
    table.deliver([json.dumps(deleted)], source=source, keys=("order-id", "a b"))
    table.deliver([json.dumps(created)], source=source, keys=("order-id", "a b"))
    assert table.flow.loaded().scan().to_arrow().num_rows == 0


def test_a_key_that_is_widened_is_widened_in_the_side_table(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    wide = table.flow.changes["source"]
    narrow = replace(wide, schema=wide.schema.replace("BIGINT", "INT"))
    for key in (1, 2):
        source.insert(key, key, "long one")
    first = source.take_lines()
    table.deliver(first, source=narrow)
    source.move(1, 3, 3)
    source.delete(2)
    table.deliver(source.take_lines(), source=narrow)
    source.move(3, 2**40, 4)
    report = table.deliver(source.take_lines(), source=wide)
    assert "widened column id to bigint" in report.schema_changes
    # Events of the keys that were deleted before, and of the first of three names.
    table.deliver(first, source=wide)
    assert table.rows() == rows_of(source) == {2**40: (4, "long one")}
    schema = table.flow.catalog().load_table(SIDE).schema()
    assert [str(schema.find_type(name)) for name in ("id", "_moved_to.id")] == ["long", "long"]


def test_a_changed_row_is_no_reason_to_overlook_a_missing_column(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    source.insert(1, 1, "short")
    table.deliver(source.take_lines())
    spark.sql("ALTER TABLE order_by_key.items ADD COLUMN extra STRING")
    source.update(1, 2)
    with pytest.raises(BadInputError, match=r"lacks the table's columns \['extra'\]"):
        table.deliver(source.take_lines(), missing_columns=MissingColumns.FAIL)
    table.run(missing_columns=MissingColumns.NULL)
    assert table.rows() == rows_of(source)


def test_a_key_change_after_a_value_was_left_out_may_be_delivered_again(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    source.insert(1, 1, "long one")
    source.update(1, 2)
    source.move(1, 2, 3)
    lines = source.take_lines()
    table.deliver(lines)
    assert table.deliver(lines).events_dropped == 4
    assert table.rows() == rows_of(source) == {2: (3, "long one")}


def test_deleted_keys_are_forgotten_by_whole_days(spark: SparkSession, inbox: Path) -> None:
    source, table = SourceTable(), Deliveries(spark, inbox)
    table.flow.changes["source"] = replace(table.flow.changes["source"], tombstone_retention=timedelta(days=10))
    source.insert(1, 1, "short")
    source.insert(2, 1, "short")
    first = source.take_lines()
    table.deliver(first)
    source.delete(1)
    table.deliver(source.take_lines())
    for days in (12, 9):
        spark.sql(
            f"INSERT INTO {SIDE} SELECT id + {days}, _deleted_position, _moved_to, _values_position, "
            f"_deleted_at - INTERVAL {days} DAYS FROM {SIDE} WHERE id = 1"
        )
    source.delete(2)
    table.deliver(source.take_lines())
    side = table.flow.catalog().load_table(SIDE)
    assert sorted(side.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()) == [1, 2, 10]
    dropped = side.metadata.snapshots[-1].summary
    # The day's file as a whole: nothing was read or written for it.
    assert dropped is not None
    assert (dropped.operation.value, dropped["deleted-data-files"]) == ("delete", "1")
    assert dropped.additional_properties.get("added-delete-files") is None
    # What is still known of deleted keys keeps their old events out.
    table.deliver(first)
    assert table.rows() == rows_of(source) == {}

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState
from airflow_lake_provider.spark_jobs.sources.cdc.renamed_table import EVENTS_OF, earlier_table
from airflow_lake_provider.spark_jobs.sources.files import digest
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.spark.sources.debezium.debezium_batches import ITEMS, read_debezium_changes
from tests.spark.sources.debezium.event_writer import envelope, write_files
from tests.spark.sources.debezium.shop_events import events_of


def test_a_table_that_is_given_with_its_schema_or_database_later_is_the_same_one() -> None:
    names = ["items", "public.items", "shop.public.items"]
    for place, former in enumerate(names):
        before = {EVENTS_OF: digest(former)}
        others = [name for name in (*names, "public.others", "shop.items") if earlier_table(before, name) is not None]
        assert others == [*names[:place], "public.others", *(["shop.items"] if place else [])]


def test_columns_that_differ_in_case_are_refused_whether_in_one_row_or_in_two(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = {"one": [{"id": 1, "n": 1, "N": 2}], "two": [{"id": 1, "n": 1}, {"id": 2, "N": 2}]}
    for name, images in rows.items():
        lines = [json.dumps(envelope("c", image, ["1", str(image["id"])])) for image in images]
        files = list_input_files(spark, write_files(tmp_path / name, lines))
        expected = r"batch of events of items has columns twice.*\['N', 'n'\]; a lake table has one.*has renamed it"
        with pytest.raises(BadInputError, match=expected):
            read_debezium_changes(spark, events_of("items", ITEMS), files, ["id"], TargetState())


def test_a_name_with_dots_is_read_and_tables_of_one_name_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    def line(key: int, schema: str, table: str, db: str = "shop") -> str:
        event = envelope("c", {"id": key, "n": key, "note": "x"}, ["1", str(key)], table)
        return json.dumps({**event, "source": {**event["source"], "schema": schema, "db": db}})

    lines = [
        line(1, "public", "my.items"),
        line(2, "my", "items"),
        line(3, "old", "items"),
        line(4, "my", "items", "b"),
    ]
    files = list_input_files(spark, write_files(tmp_path / "in", lines))

    def read(table: str) -> list[int]:
        changes = read_debezium_changes(spark, events_of(table, ITEMS), files, ["id"], TargetState()).changes
        return [row["id"] for row in changes.collect()]

    ids = {"public.my.items": 1, "shop.my.items": 2, "old.items": 3, "b.my.items": 4}
    assert {table: read(table) for table in ids} == {table: [key] for table, key in ids.items()}
    mixed = {
        "items": r"b\.my\.items, shop\.my\.items, shop\.old\.items:",
        "my.items": r"b\.my\.items, shop\.my\.items, shop\.public\.my\.items:",
    }
    for table, named in mixed.items():
        with pytest.raises(BadInputError, match=f"events of {table} are of several tables, {named}"):
            read(table)

"""The table of a stream is renamed in the source: its events go on under another name, in files of both names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.load import OnRepeat
from tests.spark.sources.debezium.event_stream import EventStream, drop


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    drop(spark)


@pytest.mark.parametrize("ordering", [None, "stream", "key"])
def test_events_under_the_new_name_are_applied_though_their_file_was_read_under_the_old_one(
    spark: SparkSession, folder: Path, ordering: str | None
) -> None:
    stream = EventStream(spark, folder, ordering)
    stream.bring(stream.event("c", 1, 1))
    stream.run()
    stream.bring(stream.event("u", 1, 2), stream.event("u", 1, 3, "items_v2"))
    stream.run()
    stream.bring(stream.event("c", 2, 2, "items_v2"))
    assert "all files were read" in stream.run("public.items_v2").reason
    assert stream.rows() == {(1, 3), (2, 2)}
    stream.bring(stream.event("u", 2, 3, "items_v2"))
    assert stream.run("public.items_v2").batch_files == 1
    assert stream.rows() == {(1, 3), (2, 3)}


def test_what_no_renaming_explains_is_refused_and_lost_nowhere(spark: SparkSession, folder: Path) -> None:
    stream = EventStream(spark, folder, "stream")
    stream.bring(stream.event("c", 7, 7, "others"), stream.event("c", 1, 1))
    stream.run("items")
    # The same table, with its schema.
    stream.bring(stream.event("u", 1, 2), stream.event("u", 1, 3, "items_v2"))
    with pytest.raises(BadInputError, match=r"not read yet has 1 events of public\.items, .*table='public\.items'"):
        stream.run("public.items_v2")
    assert stream.run("public.items").batch_files == 1
    with pytest.raises(BadInputError, match=r"1 events of others are older than what was applied.*a new name"):
        stream.run("others")
    assert stream.rows() == {(1, 2)}
    stream.run("public.items_v2")
    assert stream.rows() == {(1, 3)}
    stream.run("others", on_repeat=OnRepeat.APPLY)
    assert stream.rows() == {(1, 3), (7, 7)}


@pytest.mark.parametrize("ordering", [None, "stream", "key"])
def test_a_table_of_the_same_name_in_another_schema_is_not_mixed_in_by_a_later_batch(
    spark: SparkSession, folder: Path, ordering: str | None
) -> None:
    stream = EventStream(spark, folder, ordering)

    def of(schema: str, line: str, db: str = "shop") -> str:
        event = json.loads(line)
        event["value"]["source"] |= {"schema": schema, "db": db}
        return json.dumps(event)

    stream.bring(stream.event("c", 1, 1))
    stream.run("items")
    # The connector now says the database, too.
    stream.bring(of("public", stream.event("u", 1, 2)))
    stream.run("items")
    stream.bring(of("archive", stream.event("c", 1, 9)), of("archive", stream.event("c", 2, 9)))
    for _ in range(2):
        with pytest.raises(
            BadInputError, match=r"of shop\.archive\.items, and those .* of shop\.public\.items.*Nothing"
        ):
            stream.run("items")
    assert stream.rows() == {(1, 2)}
    stream.bring(of("public", stream.event("u", 1, 3)))
    stream.run("shop.public.items")
    assert stream.rows() == {(1, 3)}
    # It has moved.
    stream.bring(of("sales", stream.event("u", 1, 4)))
    stream.run("shop.sales.items")
    stream.bring(of("sales", stream.event("u", 1, 5)))
    stream.run("shop.sales.items")
    assert stream.rows() == {(1, 5)}

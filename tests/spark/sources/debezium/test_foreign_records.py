"""Records of other connectors, converters and transforms: each is refused with what it is and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.sources.debezium.debezium_batches import read_items
from tests.spark.sources.debezium.event_writer import envelope, write_files

ROW = {"id": 1, "n": 1, "note": "a"}
SOUND = envelope("c", {**ROW, "id": 9}, ["1", "2"])
MONGODB = {"version": "3.3.1.Final", "connector": "mongodb", "db": "shop", "rs": "rs0", "collection": "items", "ord": 1}
CLOUD = {"id": "1", "source": "/debezium/postgresql/shop", "specversion": "1.0", "iodebeziumop": "c"}
TEXT = json.dumps(envelope("c", ROW, ["1", "2"]))
# What stands in the log of other databases, as their connectors write it.
PLACES: dict[str, dict[str, Any]] = {
    "sqlserver": {
        "schema": "dbo",
        "change_lsn": "0027:0758:0003",
        "commit_lsn": "0027:0758:0005",
        "event_serial_no": 1,
    },
    "oracle": {"schema": "SHOP", "scn": "2122185", "commit_scn": "2122185", "rs_id": "001234.0124", "redo_thread": 1},
    "mysql": {"server_id": 223344, "gtid": "24bc7850:1-5", "file": "mysql-bin.000003", "pos": 484, "row": 0},
    "db2": {"schema": "SHOP", "change_lsn": "0:0:0:1", "commit_lsn": "0:0:0:1"},
    "vitess": {"keyspace": "commerce", "shard": "-80", "vgtid": '[{"keyspace":"commerce","gtid":"MySQL56/x:1-5"}]'},
    # A list of two as that of PostgreSQL, of texts that are no numbers.
    "yugabytedb": {"schema": "public", "sequence": '["1:4::0:0","1:4::0:0"]', "lsn": "1:4::0:0"},
}
FOREIGN: dict[str, tuple[Any, str]] = {
    "mongodb": ({"after": "{}", "op": "c", "source": MONGODB}, "It is of the connector 'mongodb'"),
    "record": ({"topic": "t", "key": None, "value": {"after": "{}", "op": "c", "source": MONGODB}}, "'mongodb'"),
    "cloud": ({**CLOUD, "data": {"after": ROW}}, "value.converter to org.apache.kafka.connect.json.JsonConverter"),
    "flattened": ({**ROW, "__deleted": "false", "__lsn": 7}, "take ExtractNewRecordState out"),
    "beside its schema": ({"schema": {}, "payload": ROW}, "take ExtractNewRecordState out"),
    # It was left out, without a word, as an event of the table "other".
    "column table": ({**ROW, "table": "other"}, "take ExtractNewRecordState out"),
    "without a table": ({**SOUND, "source": {"connector": "postgresql", "schema": "public"}}, "names no table"),
    # Of these, one value was taken, and a word in quotes.
    "a column twice": (TEXT.replace('"n": 1', '"n": 1, "n": 2'), "the field 'n' twice, of which one would be lost"),
    "a column of before twice": (
        json.dumps({**envelope("d", ROW, ["1", "2"])}).replace('"id": 1', '"id": 1, "id": 2'),
        "the field 'id' twice",
    ),
    "a number beyond all": (TEXT.replace('"a"', "1e400"), "the number 1e400, which no DOUBLE holds"),
    "a number beyond all in a list": (TEXT.replace('"a"', "[1.5E+400]"), "the number 1.5E+400"),
    "a NaN": (TEXT.replace('"a"', "NaN"), "NaN without quotes, which is no JSON"),
    "many levels": (TEXT.replace('"a"', "[" * 1_100 + "]" * 1_100), "1 lines are no Debezium change events"),
    "framed JSON": ('\0\0\0\0\7{"op": "c"}', "It begins as a value of JSON Schema behind the id of its schema"),
    "framed": ("\0\0\0\0\7Hitems", "give registry"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_record_that_is_no_event_is_refused_with_what_it_seems_to_be(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    value, says = FOREIGN[name]
    line = value if isinstance(value, str) else json.dumps(value)
    path = write_files(tmp_path / "in", [json.dumps(SOUND), line])
    with pytest.raises(BadInputError, match="first is its record 2") as refused:
        read_items(spark, path)
    assert says in str(refused.value)


@pytest.mark.parametrize("connector", PLACES)
def test_an_event_that_another_database_has_placed_is_refused(
    spark: SparkSession, tmp_path: Path, connector: str
) -> None:
    event = envelope("c", ROW, None)
    event["source"] |= {"connector": connector, "db": "shop", "sequence": None, **PLACES[connector]}
    path = write_files(tmp_path / "in", [json.dumps(event)])
    with pytest.raises(BadInputError, match=r"have no source\.sequence with two positions.*the PostgreSQL connector"):
        read_items(spark, path)


@pytest.mark.parametrize("key", [1, "Struct{id=1}", "eyJpZCI6IDF9"])
def test_a_delete_of_a_row_that_nothing_tells_is_refused_with_what_to_write(
    spark: SparkSession, tmp_path: Path, key: Any
) -> None:
    event = {**envelope("d", None, ["1", "2"]), "before": None}
    path = write_files(tmp_path / "in", [json.dumps({"topic": "t", "key": key, "value": event})])
    with pytest.raises(BadInputError, match="Let the stream write keys as JSON or Avro, or the row of before"):
        read_items(spark, path)


def test_words_in_a_text_are_no_numbers(spark: SparkSession, tmp_path: Path) -> None:
    notes = ["NaN", '"NaN"', "a: Infinity, -1e400", '["Infinity"]', "n: 1, n: 2"]
    # Words in their quotes, beside what would be a number elsewhere.
    notes += ['["NaN", 1e400, 1e300]', 'a "b\\": Infinity, "-Infinity"']
    events = [envelope("c", {**ROW, "id": n, "note": note}, ["1", str(n)]) for n, note in enumerate(notes, 2)]
    changes = read_items(spark, write_files(tmp_path / "in", [json.dumps(event) for event in events])).changes
    assert [row["note"] for row in changes.orderBy("id").collect()] == notes

"""Numbers of JSON keep their digits, or their record is refused, wherever its text is from; the oracle is Python."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.kafka.records import read_records
from airflow_lake_provider.spark_jobs.sources.read_files import read_files

ROUNDED = object()
LONG = "0.12345678901234567890"
# Text of a value, and what it is where a function of Spark's parses it.
VALUES: dict[str, dict[str, Any]] = {
    "STRING": {
        LONG: ROUNDED,
        "1e400": ROUNDED,
        "-1.5E+400": ROUNDED,
        "NaN": ROUNDED,
        "-Infinity": ROUNDED,
        "0.1000000000000000000001": ROUNDED,
        "12345678901234567890e2": ROUNDED,
        "0.30000000000000004": "0.30000000000000004",
        "0.5000000000000000000": "0.5",
        "1" * 39: "1" * 39,
        f'"{LONG}"': LONG,
        '"NaN"': "NaN",
        f'"a: {LONG}, NaN"': f"a: {LONG}, NaN",
        f'{{"a": [{LONG}]}}': ROUNDED,
    },
    "DECIMAL(38,20)": {
        LONG: ROUNDED,
        f'"{LONG}"': Decimal(LONG),
        "1.5": Decimal("1.5"),
        "0.30000000000000004": Decimal("0.30000000000000004"),
    },
    "DOUBLE": {LONG: float(LONG), "0.30000000000000004": 0.1 + 0.2},
    "ARRAY<STRING>": {f"[{LONG}]": ROUNDED, '["a", 1.5]': ["a", "1.5"]},
    "MAP<STRING, DECIMAL(38,20)>": {f'{{"k": {LONG}}}': ROUNDED, f'{{"k": "{LONG}"}}': {"k": Decimal(LONG)}},
    "STRUCT<a: STRING, d: DOUBLE>": {
        f'{{"a": {LONG}, "d": 1.5}}': ROUNDED,
        f'{{"a": "x", "d": {LONG}}}': {"a": "x", "d": float(LONG)},
    },
}


def plain(value: Any) -> Any:
    return value.asDict() if hasattr(value, "asDict") else value


def of_topic(spark: SparkSession, lines: list[str], schema: str) -> DataFrame:
    sent = [(b"k", line.encode(), 0, offset) for offset, line in enumerate(lines)]
    records = spark.createDataFrame(sent, "key BINARY, value BINARY, partition INT, offset BIGINT")
    records = records.withColumn("timestamp", sf.current_timestamp())
    return read_records(KafkaTopic("kafka", "t", schema=schema), records, None, deletes=False, has_order=False).rows


def of_lines(spark: SparkSession, folder: Path, lines: list[str], schema: str) -> DataFrame:
    """Read as a load with dead letters does."""
    (folder / "in.json").write_text("".join(f"{line}\n" for line in lines))
    source = Files(str(folder / "in.json"), schema=schema)
    return read_files(spark, source, list_input_files(spark, source.path), None, keeps_lines=True).rows


@pytest.mark.parametrize("kind", VALUES)
def test_a_number_keeps_its_digits_or_its_record_is_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    values, schema = VALUES[kind], f"id INT, v {kind}"
    lines = [f'{{"id": {number}, "v": {text}}}' for number, text in enumerate(values)]
    for rows in (of_topic(spark, lines, schema), of_lines(spark, tmp_path, lines, schema)):
        found = {row["id"]: plain(row["v"]) if row["_lake_unparsable"] is None else ROUNDED for row in rows.collect()}
        faults = {str(row[0]) for row in rows.select("_lake_unparsable").collect() if row[0] is not None}
        rows.unpersist()
        assert found == dict(enumerate(values.values()))
        assert all("a number that loses digits, in v" in fault for fault in faults), faults


def test_a_rounded_number_of_a_topic_is_told_with_its_place_and_what_to_do(spark: SparkSession) -> None:
    line = json.dumps({"id": 1}).replace("}", f', "v": {LONG}}}')
    sent = spark.createDataFrame(
        [(b"k", line.encode(), 3, 7)], "key BINARY, value BINARY, partition INT, offset BIGINT"
    )
    topic = KafkaTopic("kafka", "t", schema="id INT, v DECIMAL(38,20)")
    batch = read_records(
        topic, sent.withColumn("timestamp", sf.current_timestamp()), None, deletes=False, has_order=False
    )
    with pytest.raises(BadInputError, match=r"partition 3, offset 7: a number that loses digits, in v.* in quotes"):
        batch.refuse_unparsable(1)
    batch.rows.unpersist()


def test_a_number_of_json_in_another_encoding_keeps_its_digits_or_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = {"a": "STRING", "d": "DOUBLE", "n": "DECIMAL(38,20)"}
    lines = {f'{{"a": "é", "d": {LONG}, "n": 1.5}}': True, f'{{"n": {LONG}}}': False, '{"a": 1e400}': False}
    for number, (line, is_sound) in enumerate(lines.items()):
        path = tmp_path / f"{number}.json"
        path.write_bytes(f"{line}\n".encode("latin-1"))
        schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        source = Files(str(path), schema=schema, options={"encoding": "ISO-8859-1"})
        rows = read_files(spark, source, list_input_files(spark, source.path), None).rows
        faults = [row[0] for row in rows.select("_lake_unparsable").collect()]
        rows.unpersist()
        assert faults == [None] if is_sound else "a number that loses digits" in faults, (line, faults)

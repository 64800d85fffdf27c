"""Numbers of change events keep the digits that no double has, in rows and in keys."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.spark.sources.debezium.debezium_batches import (
    read_debezium_changes,
    read_items,
)
from tests.spark.sources.debezium.event_writer import PLACEHOLDER, envelope, write_files
from tests.spark.sources.debezium.shop_events import events_of


def _keyed(key: Any, *images: dict[str, Any]) -> list[str]:
    events = [envelope("c", {"id": n, **image}, ["1", str(n)]) for n, image in enumerate(images, 1)]
    return [json.dumps({"topic": "t", "key": key, "value": event}) for event in events]


def test_numbers_in_quotes_that_may_be_base64_are_refused_unless_the_connectors_mode_is_given(
    spark: SparkSession, tmp_path: Path
) -> None:
    # The bytes D7 6D F8 of -26,588.24, as decimal.handling.mode=precise writes them without a schema.
    assert int.from_bytes(base64.b64decode("1234"), signed=True) == -2_658_824
    ambiguous: dict[str, Any] = {"a": "1234", "b": "1234", "c": "12E4", "d": ["1234"]}
    path = write_files(tmp_path / "in", _keyed({"id": 1}, {**ambiguous, "n": 1234, "code": "2024"}))
    ddl = "id INT, a DECIMAL(12,2), b BIGINT, c DOUBLE, d ARRAY<DECIMAL(12,2)>, n DECIMAL(9,0), code STRING"
    expected = r"in quotes in \['a', 'b', 'c', 'd'\] .*decimal_handling_mode='string'.*schemas\.enable"
    with pytest.raises(BadInputError, match=expected):
        read_items(spark, path, ddl=ddl)
    source = replace(events_of("items", ddl), decimal_handling_mode="string")
    batch = read_debezium_changes(spark, source, list_input_files(spark, path), ["id"], TargetState())
    (row,) = batch.changes.drop(DELETED).collect()
    assert tuple(row) == (1, 1234, 1234, 120_000.0, [1234], 1234, "2024")


def test_a_key_of_digits_is_told_from_bytes_by_its_quotes_in_a_delete_without_a_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    gone = {**envelope("d", None, ["1", "9"]), "before": None}
    for key in (1234, "1234"):
        line = json.dumps({"topic": "t", "key": {"id": key}, "value": gone})
        path = write_files(tmp_path / f"{key!r}", [line])
        if key == "1234":
            with pytest.raises(BadInputError, match=r"in quotes in \['id'\]"):
                read_items(spark, path)
        else:
            assert [row["id"] for row in read_items(spark, path).changes.collect()] == [1234]


def test_base64_for_a_decimal_without_a_schema_says_how_its_scale_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "in", _keyed({"id": 1}, {"v": "AfQ="}))
    with pytest.raises(BadInputError, match=r"such as 'AfQ='\. By default .*schemas\.enable=true.*mode=string"):
        read_items(spark, path, ddl="id INT, v DECIMAL(12,2)")


def test_a_number_without_quotes_keeps_digits_that_no_double_has(spark: SparkSession, tmp_path: Path) -> None:
    # As decimal.format=NUMERIC of the converter writes decimals.
    sent = {"a": "12345678901234567.89", "b": "10000000000000000.01", "c": "-0.12345678901234567890", "d": "0.5"}
    rows = [",".join(f'"{name}":{number}' for name, number in sent.items())]
    rows += [rows[0].replace(":", ": "), f'"p":{{"a":1.2345678901234567}},{rows[0]}']
    event = json.dumps(envelope("u", None, ["1", "2"]))
    # The same double as the one behind it; and a text and a column that are called as the row behind it is.
    same = '"a":12345678901234567.11}'
    befores = [f'"before":{{{same}', f'"before":{{"note":"after","after":2.5,{same}']
    events = [(event.replace('"before": null', before), row) for row in rows for before in befores]
    lines = [text.replace('"after": null', f'"after":{{"id":{n},{row}}}') for n, (text, row) in enumerate(events)]
    ddl = "id INT, a DECIMAL(38,2), b DECIMAL(38,2), c STRING, d DOUBLE"
    batch = read_items(spark, write_files(tmp_path / "in", lines), ddl=ddl)
    expected = (Decimal(sent["a"]), Decimal(sent["b"]), sent["c"], 0.5)
    assert [tuple(row[name] for name in sent) for row in batch.changes.collect()] == [expected] * 6


def test_numbers_of_an_array_keep_digits_that_no_double_has(spark: SparkSession, tmp_path: Path) -> None:
    sent = {
        "a": "[12345678901234567.89,null,10000000000000000.01]",
        "b": "[ -0.12345678901234567890 , 7 ]",
        "c": "[0.30000000000000004,12345678901234567.89]",
        # A text that looks like an array of the same doubles.
        "d": '"[12345678901234567.11]"',
        "e": '["10000000000000000.01"]',
    }
    event = json.dumps(envelope("u", None, ["1", "2"]))
    # The same doubles as those behind them.
    event = event.replace('"before": null', '"before":{"a":[12345678901234567.11,null,10000000000000000.02]}')
    row = ",".join(f'"{name}":{value}' for name, value in sent.items())
    spaced = [row.replace(":", colon) for colon in (": ", " : ")]
    rows = [row, *spaced, f'"p":{{"a":[1.2345678901234567]}},{row}']
    lines = [event.replace('"after": null', f'"after":{{"id":{n},{each}}}') for n, each in enumerate(rows)]
    ddl = "id INT, a ARRAY<DECIMAL(38,2)>, b ARRAY<STRING>, c ARRAY<DOUBLE>, d STRING, e ARRAY<DECIMAL(38,2)>"
    batch = read_items(spark, write_files(tmp_path / "in", lines), ddl=ddl)
    expected = (
        [Decimal("12345678901234567.89"), None, Decimal("10000000000000000.01")],
        ["-0.12345678901234567890", "7"],
        [0.30000000000000004, 12345678901234567.89],
        "[12345678901234567.11]",
        [Decimal("10000000000000000.01")],
    )
    assert [tuple(row[name] for name in sent) for row in batch.changes.collect()] == [expected] * len(rows)


@pytest.mark.parametrize("told_by", ["row", "key", "key beside its schema"])
def test_a_delete_finds_its_row_by_a_number_that_no_double_has(
    spark: SparkSession, tmp_path: Path, told_by: str
) -> None:
    sent = "123456789012345678.25"
    row = f'{{"id":{sent},"n":1,"note":"a"}}'
    created = json.dumps(envelope("c", None, ["1", "2"])).replace('"after": null', f'"after":{row}')
    changed = json.dumps(envelope("u", None, ["1", "4"])).replace('"after": null', f'"after":{row}')
    # The key is the same one.
    changed = changed.replace('"before": null', f'"before":{row}')
    gone = json.dumps({**envelope("d", None, ["1", "6"]), "before": None})
    if told_by == "row":
        gone = gone.replace('"before": null', f'"before":{row}')
    key = f'{{"id":{sent}}}' if told_by != "key beside its schema" else f'{{"schema":{{}},"payload":{{"id":{sent}}}}}'
    lines = [f'{{"topic":"t","key":{key},"value":{event}}}' for event in (created, changed, gone)]
    batch = read_items(spark, write_files(tmp_path / "in", lines), ddl="id DECIMAL(30,2), n INT, note STRING")
    assert [(row["id"], row[DELETED]) for row in batch.changes.collect()] == [(Decimal(sent), True)]


def test_a_key_change_is_told_by_a_number_that_no_double_has(spark: SparkSession, tmp_path: Path) -> None:
    old, new = "123456789012345678.25", "123456789012345678.75"
    row, moved = (f'{{"id":{key},"n":1,"note":"{note}"}}' for key, note in ((old, "long"), (new, PLACEHOLDER)))
    lines = []
    for op, sequence, side, image, header in (
        ("c", ["1", "2"], "after", row, {}),
        ("d", ["1", "4"], "before", row, {"__debezium.newkey": f'{{"id":{new}}}'}),
        ("c", ["1", "4"], "after", moved, {"__debezium.oldkey": f'{{"id":{old}}}'}),
    ):
        event = {**envelope(op, None, sequence), "before": None}
        text = json.dumps(event).replace(f'"{side}": null', f'"{side}":{image}')
        key = old if side == "before" or not header else new
        lines.append(f'{{"topic":"t","key":{{"id":{key}}},"headers":{json.dumps(header)},"value":{text}}}')
    batch = read_items(spark, write_files(tmp_path / "in", lines), ddl="id DECIMAL(30,2), n INT, note STRING")
    seen = {str(row["id"]): (row["note"], row[DELETED]) for row in batch.changes.collect()}
    assert seen == {old: (None, True), new: ("long", False)}


def test_a_double_is_that_of_its_digits_and_a_float_is_rounded_once(spark: SparkSession, tmp_path: Path) -> None:
    # A bit above half way between two floats; the digits of its double are a bit below.
    near_half = "1.00000017881393432617187501"
    sent = {"D": "0.12345678901234567890", "e": "9007199254740993.5", "f": near_half, "g": near_half}
    event = json.dumps(envelope("u", None, ["1", "2"]))
    row = ",".join(f'"{name}":{number}' for name, number in sent.items())
    line = event.replace('"after": null', f'"after":{{"id":1,{row}}}')
    ddl = "id INT, d DOUBLE, e DOUBLE, f FLOAT, g DECIMAL(38,30)"
    (read,) = read_items(spark, write_files(tmp_path / "in", [line]), ddl=ddl).changes.collect()
    assert (read["D"], read["e"], read["g"]) == (float(sent["D"]), float(sent["e"]), Decimal(near_half))
    # Floats are 2**-23 apart here.
    assert read["f"] == 1 + 2 * 2**-23

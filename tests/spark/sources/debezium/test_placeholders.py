"""Values that the server did not send stay what they were, in each form of the placeholder.

The forms are written out as Debezium's ``UnchangedToastedPlaceholder`` makes them, not by our code.
"""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.debezium_connector import UNAVAILABLE_VALUE
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.spark.sources.debezium.debezium_batches import Rows, applied, as_table, read_debezium_changes
from tests.spark.sources.debezium.event_writer import PLACEHOLDER, envelope, write_files

_HEX = "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565"
_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
_INTEGERS = [95, 95, 100, 101, 98, 101, 122, 105, 117, 109, 95, 117, 110, 97, 118, 97, 105, 108, 97, 98, 108, 101]
_INTEGERS += [95, 118, 97, 108, 117, 101]
_FLOATS = [float(each) for each in _INTEGERS]
# Each byte in base64 of its own: "_", "_", "d", "e", "b", ...
_BYTES = [base64.b64encode(bytes([each])).decode() for each in _INTEGERS]
_SCALED = [{"scale": 0, "value": each} for each in _BYTES]
# md5 of the placeholder, with the bits of version 3 and of the variant set.
_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
STRING, JSON, BYTES = {"type": "string"}, {"type": "string", "name": "io.debezium.data.Json"}, {"type": "bytes"}
MAP = {"type": "map", "keys": STRING, "values": STRING}
DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
VARIABLE = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
VECTOR = {"type": "array", "name": "io.debezium.data.DoubleVector", "items": {"type": "double"}}

# Connect type, placeholder as sent, type of the column, value before.
FORMS: dict[str, tuple[dict[str, Any], Any, str, Any]] = {
    "text": (STRING, PLACEHOLDER, "STRING", "long"),
    "json": (JSON, PLACEHOLDER, "STRING", '{"a": 1}'),
    "xml": ({"type": "string", "name": "io.debezium.data.Xml"}, PLACEHOLDER, "STRING", "<a/>"),
    "numeric": ({"type": "string"}, PLACEHOLDER, "DECIMAL(38,2)", None),
    "hex": (STRING, _HEX, "STRING", "deadbeef"),
    "base64": (STRING, _BASE64, "STRING", "3q2+7w=="),
    "bytea": (BYTES, _BASE64, "BINARY", bytearray(b"\x01")),
    "hex_text": (STRING, PLACEHOLDER, "BINARY", bytearray(b"\x02")),
    "hex_bytes": (STRING, _HEX, "BINARY", bytearray(b"\x03")),
    "texts": ({"type": "array", "items": STRING}, [PLACEHOLDER], "ARRAY<STRING>", ["a", None]),
    "byteas": ({"type": "array", "items": BYTES}, [_BASE64], "ARRAY<BINARY>", [bytearray(b"\x04")]),
    "hexes": ({"type": "array", "items": STRING}, [_HEX], "ARRAY<STRING>", ["00"]),
    "ints": ({"type": "array", "items": {"type": "int32"}}, _INTEGERS, "ARRAY<INT>", [1, None]),
    "bigints": ({"type": "array", "items": {"type": "int64"}}, _INTEGERS, "ARRAY<BIGINT>", [2**40]),
    "dates": (
        {"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}},
        _INTEGERS,
        "ARRAY<INT>",
        [20_000],
    ),
    "shorts": ({"type": "array", "items": {"type": "int16"}}, _INTEGERS, "ARRAY<INT>", [3]),
    "floats": ({"type": "array", "items": {"type": "float"}}, _FLOATS, "ARRAY<FLOAT>", [0.5, None]),
    "doubles": ({"type": "array", "items": {"type": "double"}}, _FLOATS, "ARRAY<DOUBLE>", [0.1]),
    "vector": (VECTOR, _FLOATS, "ARRAY<DOUBLE>", [1.5, -2.0]),
    "numerics": ({"type": "array", "items": DECIMAL}, _BYTES, "ARRAY<DECIMAL(12,2)>", [Decimal("12.34"), None]),
    "scaled": ({"type": "array", "items": VARIABLE}, _SCALED, "ARRAY<DECIMAL(12,2)>", [Decimal("5.60")]),
    "uuids": (
        {"type": "array", "items": {"type": "string", "name": "io.debezium.data.Uuid"}},
        [_UUID],
        "ARRAY<STRING>",
        ["c0ffee00-0000-0000-0000-000000000000"],
    ),
    "hstore": (MAP, {PLACEHOLDER: PLACEHOLDER}, "MAP<STRING, STRING>", {"a": "1"}),
    "hstore_text": (MAP, {PLACEHOLDER: PLACEHOLDER}, "STRING", '{"a":"1"}'),
    "hstore_json": (JSON, f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}', "STRING", '{"a":"1"}'),
    "hstore_spaced": (JSON, f'{{"{PLACEHOLDER}": "{PLACEHOLDER}"}}', "STRING", '{"a":"1"}'),
    "hstores": ({"type": "array", "items": MAP}, PLACEHOLDER, "ARRAY<STRING>", ['{"a":"1"}']),
}
# Of the placeholder "n/a é": hex:6e2f6120c3a9.
CUSTOM: dict[str, tuple[dict[str, Any], Any, str, Any]] = {
    "text": (STRING, "n/a é", "STRING", "long"),
    "hex": (STRING, "6e2f6120c3a9", "STRING", "00"),
    "base64": (STRING, "bi9hIMOp", "STRING", "AA=="),
    "bytea": (BYTES, "bi9hIMOp", "BINARY", bytearray(b"\x01")),
    "texts": ({"type": "array", "items": STRING}, ["n/a é"], "ARRAY<STRING>", ["a"]),
    "ints": ({"type": "array", "items": {"type": "int32"}}, [110, 47, 97, 32, -61, -87], "ARRAY<INT>", [1]),
    "doubles": (
        {"type": "array", "items": {"type": "double"}},
        [110.0, 47.0, 97.0, 32.0, -61.0, -87.0],
        "ARRAY<DOUBLE>",
        [1.5],
    ),
    "numerics": (
        {"type": "array", "items": DECIMAL},
        ["bg==", "Lw==", "YQ==", "IA==", "ww==", "qQ=="],
        "ARRAY<DECIMAL(12,2)>",
        [Decimal("1.50")],
    ),
    "hstore": (MAP, {"n/a é": "n/a é"}, "MAP<STRING, STRING>", {"a": "1"}),
    "hstore_json": (JSON, '{"n/a é":"n/a é"}', "STRING", '{"a":"1"}'),
    # What the default placeholder would be is a value here.
    "value": (STRING, PLACEHOLDER, "STRING", PLACEHOLDER),
}


@pytest.mark.parametrize("with_schema", [True, False])
@pytest.mark.parametrize(
    ("placeholder", "forms"), [(UNAVAILABLE_VALUE, FORMS), ("n/a é", CUSTOM), ("hex:6e2f6120c3a9", CUSTOM)]
)
def test_an_unavailable_value_of_any_encoding_stays_the_tables(
    spark: SparkSession, tmp_path: Path, placeholder: str, forms: dict[str, Any], with_schema: bool
) -> None:
    ddl = ", ".join(["id INT", "n INT", *(f"{name} {kind}" for name, (_, _, kind, _) in forms.items())])
    rows: Rows = {(1,): {"id": 1, "n": 0, **{name: before for name, (*_, before) in forms.items()}}}
    event = envelope("u", {"id": 1, "n": 5, **{name: sent for name, (_, sent, _, _) in forms.items()}}, ["1", "7"])
    if with_schema:
        kinds = {"id": {"type": "int32"}, "n": {"type": "int32"}, **{name: given[0] for name, given in forms.items()}}
        fields = [{"field": name, **kind} for name, kind in kinds.items()]
        event = {"schema": {"fields": [{"field": "after", "fields": fields}]}, "payload": event}
    path = write_files(tmp_path / "in", [json.dumps(event, ensure_ascii=False)])
    source = Debezium(path=path, table="items", schema=ddl, unavailable_value_placeholder=placeholder)
    target = TargetState(None, as_table(spark, rows, ddl))
    batch = read_debezium_changes(spark, source, list_input_files(spark, path), ["id"], target)
    assert applied(rows, batch, ["id"]) == {(1,): {**rows[(1,)], "n": 5}}
    batch.release()

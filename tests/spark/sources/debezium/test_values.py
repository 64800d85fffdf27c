from __future__ import annotations

import base64
import json
import os
import re
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.spark.sources.debezium.debezium_batches import (
    ITEMS,
    Rows,
    applied,
    in_utc,
    read_debezium_changes,
    read_items,
)
from tests.spark.sources.debezium.event_writer import PLACEHOLDER, envelope, write_files
from tests.spark.sources.debezium.shop_events import events_of


@pytest.mark.parametrize(
    ("kind", "sent", "value"),
    [
        ("DECIMAL(12,2)", "-12345.60", Decimal("-12345.60")),
        ("DECIMAL(12,2)", "7.1000", Decimal("7.10")),
        ("DECIMAL(38,0)", "12345678901234567890123456789012345678", Decimal(12345678901234567890123456789012345678)),
        ("DATE", -4932, date(1956, 7, 1)),
        ("TIMESTAMP", "2025-01-02T08:36:49.594265Z", datetime(2025, 1, 2, 8, 36, 49, 594265, UTC)),
        ("DOUBLE", 1.0e-7, 1.0e-7),
        ("DOUBLE", "NaN", "NaN"),
        ("DOUBLE", "NAN", "NaN"),
        ("DOUBLE", "POSITIVE_INFINITY", float("inf")),
        ("FLOAT", "NEGATIVE_INFINITY", float("-inf")),
        ("DOUBLE", "-Infinity", float("-inf")),
        ("FLOAT", -2.25, -2.25),
        ("BOOLEAN", False, False),
        ("STRING", '{"a": 1}', '{"a": 1}'),
        ("STRING", "null", "null"),
        ("ARRAY<INT>", [1, None, -3], [1, None, -3]),
        ("ARRAY<STRING>", ["a,b", None, '"'], ["a,b", None, '"']),
        ("BINARY", "AAH/", b"\x00\x01\xff"),
        ("BIGINT", 9223372036854775807, 9223372036854775807),
        ("DECIMAL(12,2)", "1.005", None),
        ("DECIMAL(4,2)", "123.45", None),
        ("DECIMAL(12,2)", "NAN", None),
        ("DATE", "soon", None),
        ("TIMESTAMP", 1735689600000000, None),
        ("TIMESTAMP", 20250101, None),
        ("INT", 1.5, None),
        ("ARRAY<INT>", [1, "x"], None),
        ("ARRAY<INT>", "text", None),
        ("BINARY", "not base64!", None),
    ],
)
def test_values_become_the_declared_type_or_are_refused(
    spark: SparkSession, tmp_path: Path, kind: str, sent: Any, value: Any
) -> None:
    path = write_files(tmp_path / "in", [json.dumps(envelope("c", {"id": 1, "v": sent}, ["1", "7"]))])
    if value is None:
        text = sent if isinstance(sent, str) else json.dumps(sent, separators=(",", ":"))
        said = f"cannot be converted: 1 of v as .*, such as {re.escape(repr(text))}"
        with pytest.raises(BadInputError, match=said):
            read_items(spark, path, ddl=f"id INT, v {kind}")
        return
    (row,) = read_items(spark, path, ddl=f"id INT, v {kind}").changes.collect()
    assert str(row["v"]).lower() == "nan" if value == "NaN" else in_utc(row["v"]) == value


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_a_number_for_a_time_without_a_schema_says_how_its_unit_is_told(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    lines = [json.dumps(envelope("c", {"id": n, "v": 1735689600000 + n}, ["1", str(n)])) for n in (1, 2)]
    expected = r"2 of v as timestamp\w*, such as '1735689600002'\. A number .*schemas\.enable=true.*isostring.*BIGINT"
    with pytest.raises(BadInputError, match=expected):
        read_items(spark, write_files(tmp_path / "in", lines), ddl=f"id INT, v {kind}")


def _with_schema(key: int, fields: list[dict[str, Any]], image: dict[str, Any]) -> str:
    columns = [{"field": "id", "type": "int32"}, *fields]
    schema = {"type": "struct", "fields": [{"field": side, "fields": columns} for side in ("before", "after")]}
    return json.dumps({"schema": schema, "payload": envelope("c", {"id": key, **image}, ["1", str(key)])})


def _decimal_field(scale: int, precision: int | None = None) -> dict[str, Any]:
    parameters = {"scale": str(scale)} | ({"connect.decimal.precision": str(precision)} if precision else {})
    return {"field": "v", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}


def test_a_number_where_the_schema_has_bytes_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    of_numeric = [
        {**_decimal_field(0), "field": "v"},
        {"field": "w", "type": "array", "items": {key: _decimal_field(2)[key] for key in ("type", "name")}},
    ]
    path = write_files(tmp_path / "in", [_with_schema(1, of_numeric, {"v": 1234, "w": [1234]})])
    with pytest.raises(BadInputError, match=r"without quotes in \['v', 'w'\], .*decimal\.format=BASE64"):
        read_items(spark, path, ddl="id INT")


@given(
    numbers=st.lists(
        st.tuples(st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-300, 300), st.integers(0, 38)), max_size=40
    )
)
@settings(max_examples=int(os.environ.get("LAKE_EXAMPLES", "2")), deadline=None)
def test_precise_decimals_of_any_size_and_scale_are_exact(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, numbers: list[tuple[int, int]]
) -> None:
    numbers = [
        *numbers,
        (0, 0),
        (-1, 2),
        (-128, 0),
        (128, 1),
        (2**63, 3),
        (-(2**63) - 1, 0),
        (-(2**64), 0),
        (2**64 - 1, 38),
        (-(10**38) + 1, 0),
        (10**38 - 1, 38),
    ]
    lines = [
        _with_schema(i, [_decimal_field(scale)], {"v": base64.b64encode(_bytes(number)).decode()})
        for i, (number, scale) in enumerate(numbers)
    ]
    path = write_files(tmp_path_factory.mktemp("decimals") / "in", lines)
    batch = read_items(spark, path, ddl="id INT, v STRING")
    found = {row["id"]: row["v"] for row in batch.changes.collect()}
    assert found == {
        i: format(Decimal(number).scaleb(-scale, _EXACT), "f") for i, (number, scale) in enumerate(numbers)
    }
    batch.release()


_EXACT = Context(prec=80)


def _bytes(number: int) -> bytes:
    """As Java's BigInteger.toByteArray."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def test_connect_schemas_name_the_types(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2025, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001 - without a zone, as the source sent it
    micros = int(moment.replace(tzinfo=UTC).timestamp()) * 1_000_000 + 678901
    fields: dict[str, tuple[dict[str, Any], Any, str, Any]] = {
        "d": ({"type": "int32", "name": "io.debezium.time.Date"}, 20090, "date", date(2025, 1, 2)),
        "u": ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, micros, "timestamp_ntz", moment),
        "m": (
            {"type": "int64", "name": "io.debezium.time.Timestamp"},
            micros // 1000,
            "timestamp_ntz",
            moment.replace(microsecond=678000),
        ),
        "s": ({"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, micros * 1000 + 7, "timestamp_ntz", moment),
        "t": ({"type": "int64", "name": "io.debezium.time.MicroTime"}, 3_600_000_000, "bigint", 3_600_000_000),
        "j": ({"type": "string", "name": "io.debezium.data.Json"}, '{"a": 1}', "string", '{"a": 1}'),
        "f": ({"type": "float"}, 2.5, "float", 2.5),
        "b": ({"type": "bytes"}, "AAE=", "binary", b"\x00\x01"),
        "a": ({"type": "array", "items": {"type": "int64"}}, [1, None], "array<bigint>", [1, None]),
        "v": (
            {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
            {"scale": 3, "value": "AN6t"},
            "string",
            "57.005",
        ),
    }
    columns = [{"field": name, **connect} for name, (connect, *_) in fields.items()]
    line = _with_schema(1, columns, {name: sent for name, (_, sent, *_) in fields.items()})
    files = list_input_files(spark, write_files(tmp_path / "in", [line]))
    batch = read_debezium_changes(spark, events_of("items"), files, ["id"], TargetState())
    types = {field.name: field.dataType.simpleString() for field in batch.changes.schema.fields}
    (row,) = batch.changes.collect()
    for name, (_, _, kind, value) in fields.items():
        assert (name, types[name], row[name]) == (name, kind, value)


def test_a_column_whose_connect_type_widens_within_a_batch_takes_the_wider_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    def line(key: int, kind: str, scale: int, amount: bytes) -> str:
        fields = [{"field": "n", "type": kind}, _decimal_field(scale, 10)]
        return _with_schema(key, fields, {"n": key, "v": base64.b64encode(amount).decode()})

    path = write_files(tmp_path / "in", [line(1, "int32", 2, b"\x64"), line(2, "int64", 3, b"\x64")])
    batch = read_debezium_changes(spark, events_of("items"), list_input_files(spark, path), ["id"], TargetState())
    assert {row["id"]: row["v"] for row in batch.changes.collect()} == {1: Decimal("1.000"), 2: Decimal("0.100")}
    types = {field.name: field.dataType.simpleString() for field in batch.changes.schema.fields}
    assert (types["n"], types["v"]) == ("bigint", "decimal(11,3)")


def test_types_are_inferred_where_nothing_declares_them(spark: SparkSession, tmp_path: Path) -> None:
    image = {"id": 1, "t": "1.50", "d": 0.5, "b": True, "a": [1, None], "z": None, "o": {"x": 1}, "e": {}}
    lines = [
        json.dumps(envelope("c", image, ["1", "1"])),
        json.dumps(envelope("c", {**image, "id": 2, "d": 3}, ["1", "2"])),
        json.dumps(envelope("c", {"t": 5}, ["1", "3"], "others")),
    ]
    files = list_input_files(spark, write_files(tmp_path / "in", lines))
    batch = read_debezium_changes(spark, events_of("items"), files, ["id"], TargetState())
    types = {field.name: field.dataType.simpleString() for field in batch.changes.schema.fields}
    assert types == {
        "id": "bigint",
        "t": "string",
        "d": "double",
        "b": "boolean",
        "a": "array<bigint>",
        "z": "string",
        "o": "string",
        "e": "string",
        DELETED: "boolean",
    }
    assert {row["id"]: row["d"] for row in batch.changes.collect()} == {1: 0.5, 2: 3.0}


@pytest.mark.parametrize(
    ("kind", "placeholder", "before"),
    [
        ("ARRAY<INT>", list(PLACEHOLDER.encode()), [1, None]),
        ("ARRAY<STRING>", [PLACEHOLDER], ["a"]),
        ("BINARY", base64.b64encode(PLACEHOLDER.encode()).decode(), b"\x01"),
        ("DECIMAL(9,1)", PLACEHOLDER, Decimal("1.5")),
    ],
)
def test_a_placeholder_of_any_type_takes_the_value_of_the_table(
    spark: SparkSession, tmp_path: Path, kind: str, placeholder: Any, before: Any
) -> None:
    rows: Rows = {(1,): {"id": 1, "n": 0, "note": before}}
    line = json.dumps(envelope("u", {"id": 1, "n": 5, "note": placeholder}, ["1", "7"]))
    batch = read_items(spark, write_files(tmp_path / "in", [line]), rows, ddl=f"id INT, n INT, note {kind}")
    assert applied(rows, batch, ["id"]) == {(1,): {"id": 1, "n": 5, "note": before}}


def test_excluded_columns_are_not_even_converted(spark: SparkSession, tmp_path: Path) -> None:
    line = json.dumps(envelope("u", {"id": 1, "n": "no number", "note": PLACEHOLDER}, ["1", "1"]))
    files = list_input_files(spark, write_files(tmp_path / "in", [line]))
    batch = read_debezium_changes(
        spark, events_of("items", ITEMS), files, ["id"], TargetState(), exclude_columns=("N", "note")
    )
    assert [row.asDict() for row in batch.changes.collect()] == [{"id": 1, DELETED: False}]


def test_columns_that_only_some_final_rows_have_are_null_there_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        json.dumps(envelope("c", {"id": 1, "n": 1}, ["1", "1"])),
        json.dumps(envelope("c", {"id": 2, "n": 2, "note": "new"}, ["1", "2"])),
    ]
    batch = read_items(spark, write_files(tmp_path / "in", lines))
    assert {row["id"]: row["note"] for row in batch.changes.collect()} == {1: None, 2: "new"}
    assert batch.absent == {"note": 1}

"""Each semantic type of the connector into each sensible column: the source's value, or a refusal that names it.

Expected values are written by hand, or made by Python's decimal, datetime and base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.sources.cdc.change_events import TargetState
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.spark.sources.debezium.debezium_batches import in_utc, read_debezium_changes
from tests.spark.sources.debezium.event_writer import envelope, write_files

REFUSED = object()
_TIME = "io.debezium.time."
_DATA = "io.debezium.data."
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


class Case(NamedTuple):
    """One value on its way.

    :param connect: kind and name of the connect type; parameters follow as ``scale=-2``.
    :param kind: type of the column.
    :param value: in the column, or ``REFUSED``.
    """

    connect: str
    sent: Any
    kind: str
    value: Any

    def field(self) -> dict[str, Any]:
        kind, name, *parameters = [*self.connect.split(), ""][: 2 + self.connect.count("=")]
        items = {"items": {"type": name}} if kind == "array" else {"name": name or None}
        return {"type": kind, "parameters": dict(item.split("=") for item in parameters), **items}


def b64(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


def ntz(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - without a zone, as the source has it


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def number(scale: int, unscaled: int) -> dict[str, Any]:
    return {"scale": scale, "value": b64(unscaled)}


TIMES = [
    Case(f"int32 {_TIME}Date", 2_932_896, "DATE", date(9999, 12, 31)),
    Case(f"int32 {_TIME}Date", -719_162, "DATE", date(1, 1, 1)),
    Case(f"int32 {_TIME}Date", 2_932_897, "DATE", REFUSED),
    Case(f"int32 {_TIME}Date", -719_163, "DATE", REFUSED),
    # infinity and -infinity of a date, as LocalDate -5877611-06-21 and the day after have it.
    Case(f"int32 {_TIME}Date", -2_147_472_692, "DATE", REFUSED),
    Case(f"int32 {_TIME}Date", 2**31 - 1, "DATE", REFUSED),
    Case(f"int32 {_TIME}Date", 2**31 - 1, "INT", 2**31 - 1),
    Case("int32 org.apache.kafka.connect.data.Date", 1, "DATE", date(1970, 1, 2)),
    Case("int32 org.apache.kafka.connect.data.Date", 2_932_897, "DATE", REFUSED),
    Case(f"int32 {_TIME}Year", 2020, "DATE", REFUSED),
    Case(f"int32 {_TIME}Year", 0, "INT", 0),
    Case(f"int32 {_TIME}Time", 86_399_999, "DATE", REFUSED),
    Case(f"int32 {_TIME}Time", 86_400_000, "INT", 86_400_000),
    Case(f"int64 {_TIME}MicroTime", 86_400_000_000, "BIGINT", 86_400_000_000),
    Case(f"int64 {_TIME}MicroTime", 1, "DATE", REFUSED),
    Case(f"int64 {_TIME}MicroTime", 1, "TIMESTAMP", REFUSED),
    Case(f"int64 {_TIME}MicroDuration", -1, "BIGINT", -1),
    Case(f"int64 {_TIME}MicroDuration", 5, "DATE", REFUSED),
    Case(
        f"int64 {_TIME}MicroTimestamp", 253_402_300_799_999_999, "TIMESTAMP_NTZ", ntz(9999, 12, 31, 23, 59, 59, 999999)
    ),
    Case(f"int64 {_TIME}MicroTimestamp", -62_135_596_800_000_000, "TIMESTAMP_NTZ", ntz(1, 1, 1)),
    Case(f"int64 {_TIME}MicroTimestamp", 253_402_300_800_000_000, "TIMESTAMP_NTZ", REFUSED),
    Case(f"int64 {_TIME}MicroTimestamp", -62_135_596_800_000_001, "TIMESTAMP_NTZ", REFUSED),
    Case(f"int64 {_TIME}MicroTimestamp", 9_223_372_036_825_200_000, "TIMESTAMP_NTZ", REFUSED),
    Case(f"int64 {_TIME}MicroTimestamp", -9_223_372_036_832_400_000, "TIMESTAMP", REFUSED),
    Case(f"int64 {_TIME}MicroTimestamp", 9_223_372_036_825_200_000, "BIGINT", 9_223_372_036_825_200_000),
    Case(f"int64 {_TIME}MicroTimestamp", 9_223_372_036_825_200_000, "STRING", "9223372036825200000"),
    Case(f"int64 {_TIME}MicroTimestamp", 86_400_000_000, "DATE", date(1970, 1, 2)),
    Case(f"int64 {_TIME}MicroTimestamp", 86_400_000_001, "DATE", REFUSED),
    Case(f"int64 {_TIME}Timestamp", 9_223_372_036_825_200, "TIMESTAMP_NTZ", REFUSED),
    Case(f"int64 {_TIME}Timestamp", 2**63 - 1, "TIMESTAMP_NTZ", REFUSED),
    Case(f"int64 {_TIME}Timestamp", 253_402_300_799_999, "TIMESTAMP_NTZ", ntz(9999, 12, 31, 23, 59, 59, 999000)),
    Case(f"int64 {_TIME}Timestamp", 20_000, "DATE", REFUSED),
    Case("int64 org.apache.kafka.connect.data.Timestamp", -(2**63), "TIMESTAMP_NTZ", REFUSED),
    Case(f"int64 {_TIME}NanoTimestamp", 2**63 - 1, "TIMESTAMP_NTZ", REFUSED),
    Case(f"int64 {_TIME}NanoTimestamp", -(2**63), "TIMESTAMP_NTZ", REFUSED),
    Case(f"int64 {_TIME}NanoTimestamp", 86_400_000_000_001, "DATE", REFUSED),
    Case(f"int64 {_TIME}NanoTimestamp", -86_400_000_000_000, "DATE", date(1969, 12, 31)),
    Case(f"int64 {_TIME}NanoTimestamp", 2**63 - 808, "TIMESTAMP_NTZ", ntz(2262, 4, 11, 23, 47, 16, 854775)),
    Case(f"string {_TIME}ZonedTimestamp", "infinity", "TIMESTAMP", REFUSED),
    Case(f"string {_TIME}ZonedTimestamp", "-infinity", "TIMESTAMP", REFUSED),
    Case(f"string {_TIME}ZonedTimestamp", "infinity", "STRING", "infinity"),
    Case(f"string {_TIME}ZonedTimestamp", "+10000-01-01T00:00:00Z", "TIMESTAMP", REFUSED),
    Case(f"string {_TIME}ZonedTimestamp", "-0044-03-15T00:00:00Z", "TIMESTAMP", REFUSED),
    Case(f"string {_TIME}ZonedTimestamp", "0000-12-31T00:00:00Z", "TIMESTAMP", REFUSED),
    Case(f"string {_TIME}ZonedTimestamp", "0001-01-01T00:00:00+01:00", "TIMESTAMP", REFUSED),
    Case(
        f"string {_TIME}ZonedTimestamp",
        "9999-12-31T23:59:59.999999Z",
        "TIMESTAMP",
        utc(9999, 12, 31, 23, 59, 59, 999999),
    ),
    Case(f"string {_TIME}ZonedTimestamp", "2020-01-02T03:04:05.1234567Z", "TIMESTAMP", REFUSED),
    Case(
        f"string {_TIME}ZonedTimestamp", "2020-01-02T03:04:05.123456000Z", "TIMESTAMP", utc(2020, 1, 2, 3, 4, 5, 123456)
    ),
    Case(f"string {_TIME}ZonedTimestamp", "2020-01-02T03:04:05Z", "DATE", REFUSED),
    Case(f"string {_TIME}ZonedTime", "10:15:30Z", "TIMESTAMP", REFUSED),
    Case(f"string {_TIME}ZonedTime", "24:00:00Z", "STRING", "24:00:00Z"),
    Case(f"string {_TIME}IsoDate", "2020-01-02Z", "DATE", date(2020, 1, 2)),
    Case(f"string {_TIME}IsoDate", "+10000-01-01Z", "DATE", REFUSED),
    Case(f"string {_TIME}IsoDate", "0000-01-01Z", "DATE", REFUSED),
    Case(f"string {_TIME}IsoDate", "-5877611-06-21Z", "DATE", REFUSED),
    Case(f"string {_TIME}IsoDate", "2020-01-02Z", "STRING", "2020-01-02Z"),
    Case(f"string {_TIME}IsoDate", "2020-02-30Z", "DATE", REFUSED),
    Case(f"string {_TIME}IsoTimestamp", "2020-01-02T03:04:05.6Z", "TIMESTAMP_NTZ", ntz(2020, 1, 2, 3, 4, 5, 600000)),
    Case(f"string {_TIME}ZonedTimestamp", "2020-01-02T03:04:05+02:00", "TIMESTAMP_NTZ", REFUSED),
    Case(f"string {_TIME}ZonedTimestamp", "2020-01-02T03:04:05+00:00", "TIMESTAMP_NTZ", ntz(2020, 1, 2, 3, 4, 5)),
    Case(f"string {_TIME}IsoTimestamp", "+294247-01-10T04:00:25.2Z", "TIMESTAMP_NTZ", REFUSED),
    Case(f"string {_TIME}IsoTimestamp", "2020-01-02T00:00:00Z", "DATE", date(2020, 1, 2)),
    Case(f"string {_TIME}IsoTime", "10:15:30Z", "STRING", "10:15:30Z"),
    Case(f"string {_TIME}IsoTime", "10:15:30Z", "TIMESTAMP", REFUSED),
    Case(f"string {_TIME}Interval", "P1Y2M3DT4H5M6.7S", "STRING", "P1Y2M3DT4H5M6.7S"),
    Case(f"string {_TIME}Interval", "P1Y2M3DT4H5M6.7S", "BIGINT", REFUSED),
    Case("int32", 20_200_102, "DATE", REFUSED),
    Case("int32", 5, "DATE", REFUSED),
    Case("string", "[2020-01-01 00:00:00,infinity)", "STRING", "[2020-01-01 00:00:00,infinity)"),
    Case("string", "2020-01-02", "DATE", date(2020, 1, 2)),
    Case("string", "2020-01", "DATE", REFUSED),
]
NUMBERS = [
    Case(f"struct {_DATA}VariableScaleDecimal", number(-2, 123), "STRING", "12300"),
    Case(f"struct {_DATA}VariableScaleDecimal", number(-2, -123), "DECIMAL(12,2)", Decimal("-12300.00")),
    Case(f"struct {_DATA}VariableScaleDecimal", number(-3, 0), "STRING", "0"),
    Case(f"struct {_DATA}VariableScaleDecimal", number(-36, 12), "DECIMAL(38,0)", Decimal(12 * 10**36)),
    Case(f"struct {_DATA}VariableScaleDecimal", number(-37, 12), "DECIMAL(38,0)", REFUSED),
    Case(f"struct {_DATA}VariableScaleDecimal", number(3, 12345), "DECIMAL(12,2)", REFUSED),
    Case(f"struct {_DATA}VariableScaleDecimal", number(3, 12340), "DECIMAL(12,2)", Decimal("12.34")),
    Case(f"struct {_DATA}VariableScaleDecimal", number(0, 2**40), "BIGINT", 2**40),
    Case(f"struct {_DATA}VariableScaleDecimal", number(1, 15), "INT", REFUSED),
    Case(f"struct {_DATA}VariableScaleDecimal", number(0, 1234), "BINARY", REFUSED),
    Case(f"bytes {_DECIMAL} scale=-2", b64(123), "DECIMAL(12,0)", Decimal(12300)),
    Case(f"bytes {_DECIMAL} scale=-2", b64(-123), "STRING", "-12300"),
    Case(f"bytes {_DECIMAL} scale=2", b64(123), "DOUBLE", 1.23),
    Case(f"bytes {_DECIMAL} scale=2", b64(123), "DECIMAL(3,1)", REFUSED),
    Case(f"bytes {_DECIMAL} scale=0", b64(1234), "BINARY", REFUSED),
    Case("string", "1.5E-7", "DECIMAL(10,2)", REFUSED),
    Case("string", "1.239E0", "DECIMAL(10,2)", REFUSED),
    Case("string", "1.230E0", "DECIMAL(10,2)", Decimal("1.23")),
    Case("string", "1E3", "DECIMAL(10,2)", Decimal(1000)),
    Case("string", "-12.5e+2", "DECIMAL(10,2)", Decimal(-1250)),
    Case("string", "12300E-4", "DECIMAL(10,2)", Decimal("1.23")),
    Case("string", "0E-10", "DECIMAL(10,2)", Decimal(0)),
    Case("string", "1E9", "DECIMAL(10,2)", REFUSED),
    Case("string", "1E99999", "DECIMAL(10,2)", REFUSED),
    Case("string", "E5", "DECIMAL(10,2)", REFUSED),
    Case("string", "0.001", "DECIMAL(10,2)", REFUSED),
    Case("string", "NAN", "DECIMAL(10,2)", REFUSED),
    Case("string", "POSITIVE_INFINITY", "DECIMAL(10,2)", REFUSED),
    Case("string", "NEGATIVE_INFINITY", "BIGINT", REFUSED),
    Case("string", "NEGATIVE_INFINITY", "DOUBLE", float("-inf")),
    Case("double", "Infinity", "DOUBLE", float("inf")),
    Case("double", "-Infinity", "BIGINT", REFUSED),
    Case("double", 1e300, "FLOAT", REFUSED),
    Case("string", "1e400", "DOUBLE", REFUSED),
    Case("string", "-1e39", "FLOAT", REFUSED),
    Case("array string", ["1e400"], "ARRAY<DOUBLE>", REFUSED),
    Case("string", "+Infinity", "FLOAT", float("inf")),
    # Java's numbers: a seat, a grade, a number of base 16.
    Case("string", "12D", "DOUBLE", REFUSED),
    Case("string", "7f", "FLOAT", REFUSED),
    Case("string", "0x1p3", "DOUBLE", REFUSED),
    Case("string", " 1.5e-3 ", "DOUBLE", 0.0015),
    Case("string", ".5", "DOUBLE", 0.5),
    Case("double", 1.0e10, "DECIMAL(13,2)", Decimal(10**10)),
    Case("double", 1.5, "BIGINT", REFUSED),
    Case("int64", 2**53 + 1, "DOUBLE", REFUSED),
    Case("int64", 2**53, "DOUBLE", float(2**53)),
    Case("int32", 2**24 + 1, "FLOAT", REFUSED),
    Case("int64", 2**31, "INT", REFUSED),
    Case("int16", 1, "BOOLEAN", True),
    Case("int16", 2, "BOOLEAN", REFUSED),
    Case("boolean", True, "INT", REFUSED),
    Case("string", "$1,000.00", "DECIMAL(10,2)", REFUSED),
]
BYTES = [
    Case("bytes", "3q2+7w==", "BINARY", b"\xde\xad\xbe\xef"),
    Case("bytes", "deadbeef", "BINARY", base64.b64decode("deadbeef")),
    Case("bytes", "", "BINARY", b""),
    Case("bytes", "3q2+7w==", "STRING", "3q2+7w=="),
    Case(f"bytes {_DATA}Bits length=12", "Agg=", "BINARY", b"\x02\x08"),
    Case("string", "deadbeef", "BINARY", REFUSED),
    Case("string", "3q2+7w==", "BINARY", REFUSED),
    Case("string", "deadbeef", "STRING", "deadbeef"),
    Case("array string", ["deadbeef"], "ARRAY<BINARY>", REFUSED),
    Case("array bytes", ["AAE=", None], "ARRAY<BINARY>", [b"\x00\x01", None]),
    Case(f"string {_DATA}Uuid", "c0ffee00-0000-0000-0000-000000000000", "BINARY", REFUSED),
    Case(f"string {_DATA}Json", "1234", "BINARY", REFUSED),
    Case(f"string {_DATA}Enum", "open", "BINARY", REFUSED),
    Case("int32", 1234, "BINARY", REFUSED),
    Case("boolean", True, "BINARY", REFUSED),
    Case(
        f"string {_DATA}Uuid", "c0ffee00-0000-0000-0000-000000000000", "STRING", "c0ffee00-0000-0000-0000-000000000000"
    ),
    Case(f"string {_DATA}Xml", "<a/>", "STRING", "<a/>"),
    Case(f"string {_DATA}Ltree", "a.b", "STRING", "a.b"),
    Case(f"string {_DATA}TsVector", "'a':1", "STRING", "'a':1"),
    Case("string", "10.0.0.1/8", "STRING", "10.0.0.1/8"),
    Case("map", {"a": "1", "b": None}, "MAP<STRING, STRING>", {"a": "1", "b": None}),
    Case("map", {"a": "1"}, "MAP<STRING, INT>", {"a": 1}),
    Case("map", {"a": "x", "b": "1"}, "MAP<STRING, INT>", REFUSED),
    Case(f"struct {_DATA}geometry.Geometry", {"wkb": "AQ==", "srid": 1}, "STRING", '{"wkb":"AQ==","srid":1}'),
]
# What is in a map is converted as a column of its type is.
MAPS = [
    Case("map", {"a": "1.005"}, "MAP<STRING, DECIMAL(10,2)>", REFUSED),
    Case("map", {"a": "1.5E-7"}, "MAP<STRING, DECIMAL(10,2)>", REFUSED),
    Case("map", {"a": "1.50", "b": None}, "MAP<STRING, DECIMAL(10,2)>", {"a": Decimal("1.50"), "b": None}),
    Case("map", {"a": "deadbeef"}, "MAP<STRING, BINARY>", REFUSED),
    Case("map", {"a": "AAE="}, "MAP<STRING, BINARY>", REFUSED),
    Case("map", {"a": "2020"}, "MAP<STRING, DATE>", REFUSED),
    Case("map", {"a": "2020-01-02T10:00:00Z"}, "MAP<STRING, DATE>", REFUSED),
    Case("map", {"a": "2020-01-02Z"}, "MAP<STRING, DATE>", {"a": date(2020, 1, 2)}),
    Case("map", {"a": "10:15:30"}, "MAP<STRING, TIMESTAMP>", REFUSED),
    Case("map", {"a": "10000-01-01 00:00:00"}, "MAP<STRING, TIMESTAMP_NTZ>", REFUSED),
    Case("map", {"a": "2020-01-02T03:04:05Z"}, "MAP<STRING, TIMESTAMP_NTZ>", {"a": ntz(2020, 1, 2, 3, 4, 5)}),
    Case("map", {"a": str(2**53 + 1)}, "MAP<STRING, DOUBLE>", REFUSED),
    Case("map", {"a": "1e400"}, "MAP<STRING, DOUBLE>", REFUSED),
    Case("map", {"a": "NEGATIVE_INFINITY"}, "MAP<STRING, DOUBLE>", {"a": float("-inf")}),
    Case("map", {"a": "[1,2]"}, "MAP<STRING, ARRAY<INT>>", {"a": [1, 2]}),
    Case("map", {"a": "[1,2.5]"}, "MAP<STRING, ARRAY<INT>>", REFUSED),
    Case("map", {"a": {"b": "1.005"}}, "MAP<STRING, MAP<STRING, DECIMAL(10,2)>>", REFUSED),
    Case("array map", [{"a": "1.005"}], "ARRAY<MAP<STRING, DECIMAL(10,2)>>", REFUSED),
    Case("map", {"1": "x", "2": None}, "MAP<INT, STRING>", {1: "x", 2: None}),
    Case("map", {"1.5": "x"}, "MAP<INT, STRING>", REFUSED),
    Case("map", {"1": "x", "01": "y"}, "MAP<INT, STRING>", REFUSED),
    Case("map", {"1.005": "x"}, "MAP<DECIMAL(10,2), STRING>", REFUSED),
]
WITHOUT_SCHEMA = [
    Case("", 2_932_896, "DATE", date(9999, 12, 31)),
    Case("", 2_932_897, "DATE", REFUSED),
    Case("", "infinity", "DATE", REFUSED),
    Case("", "2020-01-02Z", "DATE", date(2020, 1, 2)),
    Case("", "2020-01-02T03:00:00Z", "DATE", REFUSED),
    Case("", 9_223_372_036_825_200_000, "TIMESTAMP", REFUSED),
    Case("", "infinity", "TIMESTAMP", REFUSED),
    Case("", "2020-07-02T03:04:05 BST", "TIMESTAMP", REFUSED),
    Case("", "10:15:30", "TIMESTAMP_NTZ", REFUSED),
    Case("", "2020-01-02T03:04:05 Europe/Berlin", "TIMESTAMP_NTZ", REFUSED),
    Case("", "2020-01-02T03:04:05-0530", "TIMESTAMP_NTZ", REFUSED),
    Case("", "2020-01-02 03:04:05.5", "TIMESTAMP_NTZ", ntz(2020, 1, 2, 3, 4, 5, 500000)),
    Case("", "2020-01-02", "TIMESTAMP_NTZ", ntz(2020, 1, 2)),
    Case("", "deadbeef", "BINARY", REFUSED),
    Case("", "DEADBEEF0123", "BINARY", REFUSED),
    Case("", "3q2+7w==", "BINARY", b"\xde\xad\xbe\xef"),
    Case("", "3q2-7w==", "BINARY", REFUSED),
    Case("", {"scale": -2, "value": "ew=="}, "DECIMAL(12,2)", REFUSED),
    Case("", "1.5E-7", "DECIMAL(10,2)", REFUSED),
    Case("", 1e3, "DECIMAL(10,2)", Decimal(1000)),
    Case("", "NaN", "DECIMAL(10,2)", REFUSED),
    Case("", {"a": 1.005}, "MAP<STRING, DECIMAL(10,2)>", REFUSED),
    Case("", {"a": "3q2+7w=="}, "MAP<STRING, BINARY>", {"a": b"\xde\xad\xbe\xef"}),
    Case("", 2**53 + 1, "DOUBLE", REFUSED),
    # Without quotes it is a number.
    Case("", 1234, "DECIMAL(12,2)", Decimal(1234)),
    Case("", "-123", "DECIMAL(12,2)", Decimal(-123)),
    Case("", "1234.00", "DECIMAL(12,2)", Decimal(1234)),
    Case("", "1234", "STRING", "1234"),
]
SAID = {
    "hex": [
        Case("string", "deadbeef", "BINARY", b"\xde\xad\xbe\xef"),
        Case("string", "DEADBEEF", "BINARY", b"\xde\xad\xbe\xef"),
        Case("string", "", "BINARY", b""),
        Case("string", "abc", "BINARY", REFUSED),
        Case("string", "xy", "BINARY", REFUSED),
        Case("array string", ["00ff"], "ARRAY<BINARY>", [b"\x00\xff"]),
        Case("map", {"a": "00ff"}, "MAP<STRING, BINARY>", {"a": b"\x00\xff"}),
        Case("bytes", "AAE=", "BINARY", b"\x00\x01"),
        Case(f"string {_DATA}Uuid", "c0ffee00", "BINARY", REFUSED),
    ],
    "base64-url-safe": [
        Case("string", "-_-_", "BINARY", b"\xfb\xff\xbf"),
        Case("string", "deadbeef", "BINARY", base64.b64decode("deadbeef")),
        Case("string", "-", "BINARY", REFUSED),
    ],
    "base64": [
        Case("string", "deadbeef", "BINARY", base64.b64decode("deadbeef")),
        Case("string", "-_-_", "BINARY", REFUSED),
    ],
    "bytes": [Case("bytes", "AAE=", "BINARY", b"\x00\x01"), Case("string", "AAE=", "BINARY", REFUSED)],
}
CASES = {
    "times": (TIMES, None),
    "numbers": (NUMBERS, None),
    "bytes": (BYTES, None),
    "maps": (MAPS, None),
    "without schema": (WITHOUT_SCHEMA, None),
    **{f"told {mode}": (cases, mode) for mode, cases in SAID.items()},
}


def line_of(cases: Mapping[str, Case]) -> str:
    event = envelope("c", {"id": 1, **{name: case.sent for name, case in cases.items()}}, ["1", "7"])
    if not any(case.connect for case in cases.values()):
        return json.dumps(event)
    fields = [{"field": "id", "type": "int32"}, *({"field": name, **case.field()} for name, case in cases.items())]
    sides = [{"field": side, "type": "struct", "fields": fields} for side in ("before", "after")]
    return json.dumps({"schema": {"type": "struct", "fields": sides}, "payload": event})


def read(spark: SparkSession, folder: Path, cases: Mapping[str, Case], mode: str | None) -> dict[str, Any]:
    path = write_files(folder, [line_of(cases)])
    ddl = ", ".join(["id INT", *(f"{name} {case.kind}" for name, case in cases.items())])
    source = Debezium(path=path, table="items", schema=ddl, binary_handling_mode=mode)
    batch = read_debezium_changes(spark, source, list_input_files(spark, path), ["id"], TargetState())
    (row,) = batch.changes.drop("id", DELETED).collect()
    batch.release()
    return {
        name: in_utc(value) if value.__class__ is datetime and value.tzinfo else value
        for name, value in row.asDict().items()
    }


@pytest.mark.parametrize("group", CASES)
def test_a_value_is_the_sources_or_refused_by_its_column(spark: SparkSession, tmp_path: Path, group: str) -> None:
    cases, mode = CASES[group]
    named = {f"v{number}": case for number, case in enumerate(cases)}
    sound = {name: case for name, case in named.items() if case.value is not REFUSED}
    refused = {name: case for name, case in named.items() if case.value is REFUSED}
    found = read(spark, tmp_path / "sound", sound, mode)
    wrong = {name: (case, found[name]) for name, case in sound.items() if not _same(found[name], case)}
    assert not wrong
    with pytest.raises(BadInputError, match="cannot be converted") as error:
        read(spark, tmp_path / "refused", refused, mode)
    assert [case for name, case in refused.items() if f"1 of {name} as" not in str(error.value)] == []


def _same(found: Any, case: Case) -> bool:
    if case.kind == "TIMESTAMP":
        return found.astimezone(UTC) == case.value
    return type(found) in (type(case.value), bytearray) and found == case.value

"""Values of JSON and CSV are what the text says, or their record is refused; the oracle is plain Python."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.read_files import read_files

REFUSED = object()
DAY, TIME = date(2024, 1, 2), datetime(2024, 1, 2, 10, 0, tzinfo=UTC)
# Text, and what it is; the same in JSON, as a string, and in CSV.
TEXTS: dict[str, dict[str, Any]] = {
    "DECIMAL(10,2)": {
        "1.005": REFUSED,
        "-0.001": REFUSED,
        "1.5E-7": REFUSED,
        "1.23456e2": REFUSED,
        "1e-40": REFUSED,
        "0.1000000000000000055511151231257827": REFUSED,
        "1,5": REFUSED,
        "1,234.50": REFUSED,
        "123456789": REFUSED,
        "1.50": Decimal("1.50"),
        "1.5000000": Decimal("1.50"),
        "1.2340e2": Decimal("123.40"),
        "1e2": Decimal("100.00"),
        "+.5": Decimal("0.50"),
        "-7": Decimal("-7.00"),
    },
    "DECIMAL(38,10)": {
        "1.00000000001": REFUSED,
        "12345678901234567890.1234567891": Decimal("12345678901234567890.1234567891"),
    },
    "DECIMAL(38,0)": {"0.5": REFUSED, "9" * 39: REFUSED, "9" * 38: Decimal("9" * 38), "1.0": Decimal(1)},
    "DATE": {
        "2024-01-02 10:00:00": REFUSED,
        "2024-01-01T23:00:00.000Z": REFUSED,
        "2024-01-02 garbage": REFUSED,
        "2024": REFUSED,
        "2024-01": REFUSED,
        "2024-13-01": REFUSED,
        "1/2/2024": REFUSED,
        "12345-01-01": REFUSED,
        "-0001-01-01": REFUSED,
        "2024-01-02": DAY,
        "2024-1-2": DAY,
        "2024-01-02T00:00:00.000Z": DAY,
        "2024-01-02 00:00:00": DAY,
        "0001-01-01": date(1, 1, 1),
    },
    "TIMESTAMP": {
        "10:00:00": REFUSED,
        "T10:00:00": REFUSED,
        "2024": REFUSED,
        "2024-01": REFUSED,
        "2024-01-02T10:00:00.123456789Z": REFUSED,
        "2024-01-02T25:00:00": REFUSED,
        "1/2/2024 10:00": REFUSED,
        "12345-01-01 10:00:00": REFUSED,
        "2024-07-02 10:00:00 BST": REFUSED,
        "2024-07-02T10:00:00PST": REFUSED,
        "2024-01-02 10:00:00.123456 CET ": REFUSED,
        "2024-01-02T10:00:00Z": TIME,
        "2024-01-02 12:00:00+02:00": TIME,
        "2024-01-02 10:00:00 UTC": TIME,
        "2024-01-02 05:00:00 EST": TIME,
        "2024-01-02T11:00:00 Europe/Berlin": TIME,
        "2024-01-02T05:00:00 America/Port-au-Prince": TIME,
        "2024-1-2 10:00:00.000000000": TIME,
        "2024-01-02": datetime(2024, 1, 2, tzinfo=UTC),
    },
    "TIMESTAMP_NTZ": {
        "2024-01-02T10:00:00+02:00": REFUSED,
        "2024-01-02T10:00:00Z": REFUSED,
        "10:00": REFUSED,
        "2024-01-02T10:00:00": TIME.replace(tzinfo=None),
    },
    "DOUBLE": {
        "1e400": REFUSED,
        "1,5": REFUSED,
        "12abc": REFUSED,
        "Infinity": inf,
        "1.5": 1.5,
        "1e3": 1e3,
        "12D": REFUSED,
        "7f": REFUSED,
        "0x1p3": REFUSED,
        "0X1.8P1D": REFUSED,
        "1e5F": REFUSED,
        " 1.5 ": 1.5,
        "2.": 2.0,
        "-.5E-1": -0.05,
        "NaN1": REFUSED,
        "inf": inf,
    },
    "FLOAT": {"1e39": REFUSED, "-1e400": REFUSED, "-Infinity": -inf, "0.5": 0.5, "12D": REFUSED, "0x1p3": REFUSED},
}
NUMBERS: dict[str, dict[str, Any]] = {
    "DECIMAL(10,2)": {
        "1.005": REFUSED,
        "1.5E-7": REFUSED,
        "true": REFUSED,
        "{}": REFUSED,
        "1.50": Decimal("1.5"),
        "1e2": 100,
    },
    "DOUBLE": {"1e400": REFUSED, "-1e400": REFUSED, "1.10": 1.1},
    "TIMESTAMP": {
        "1704189600000": REFUSED,
        "20240102": REFUSED,
        '"20240102"': REFUSED,
        "202401021000": REFUSED,
        "1704189600": TIME,
        "0": datetime(1970, 1, 1, tzinfo=UTC),
        "19999999": datetime(1970, 8, 20, 11, 33, 19, tzinfo=UTC),
    },
    "BIGINT": {"1.0": REFUSED, "1e3": REFUSED, "9223372036854775808": REFUSED, "true": REFUSED, "7": 7},
    "BOOLEAN": {"1": REFUSED, "true": True},
    "STRING": {"1.10": "1.10", "1e400": "1e400", "1" * 39: "1" * 39, "true": "true"},
    "STRUCT<a: DECIMAL(3,1)>": {'{"a": 1.55}': REFUSED, '{"a": 1.5}': {"a": Decimal("1.5")}, "null": None},
    "ARRAY<DATE>": {'["2024-01-02 10:00"]': REFUSED, '["2024-01-02", null]': [DAY, None]},
    "MAP<STRING, DECIMAL(3,1)>": {'{"k": 1.55}': REFUSED, '{"k": 1.5}': {"k": Decimal("1.5")}},
    "MAP<STRING, INT>": {'{"a": 1, "b": 1}': {"a": 1, "b": 1}, '{"a": 1, "a": 1}': REFUSED, "{}": {}, "null": None},
    "ARRAY<STRUCT<m: MAP<STRING, INT>>>": {
        '[{"m": {"a": 1}}, {"m": {"a": 1}}, null]': [{"m": {"a": 1}}, {"m": {"a": 1}}, None],
        '[{"m": {}}, {"m": {"a": 1, "a": 2}}]': REFUSED,
    },
    "STRUCT<a: DOUBLE>": {'{"a": "12D"}': REFUSED, '{"a": "1.5"}': {"a": 1.5}},
    "ARRAY<STRUCT<m: MAP<STRING, DOUBLE>>>": {
        '[{"m": {"k": "7F"}}]': REFUSED,
        '[{"m": {"k": 1e400}}]': REFUSED,
        '[{"m": {"k": 1}}]': [{"m": {"k": 1.0}}],
    },
}
OF_CSV: dict[str, dict[str, Any]] = {
    "INT": {"2147483648": REFUSED, "1.0": REFUSED, "x": REFUSED, "": None, '""': None, "7": 7},
    "BOOLEAN": {"1": REFUSED, "yes": REFUSED, "t": REFUSED, "": None, "TRUE": True},
    "DECIMAL(3,1)": {'""': None, "": None, '"1.5"': Decimal("1.5")},
    "DATE": {'""': None, "": None},
    "STRING": {
        '""': "",
        "": None,
        '" a "': " a ",
        '"say ""hi"""': 'say "hi"',
        '"a"",b"': 'a",b',
        '5" pipe': '5" pipe',
        "#x": "#x",
    },
    "DOUBLE": {"": None, '""': None, "NaN": "nan"},
}


def read(spark: SparkSession, folder: Path, kind: str, body: str, schema: str, **options: str) -> dict[int, Any]:
    """Return by id the value, or REFUSED."""
    (folder / f"in.{kind}").write_bytes(body.encode())
    source = Files(str(folder / f"in.{kind}"), schema=f"id INT, v {schema}", options=options)
    rows = read_files(spark, source, list_input_files(spark, source.path), None).rows
    found = {row["id"]: plain(row["v"]) if row["_lake_unparsable"] is None else REFUSED for row in rows.collect()}
    rows.unpersist()
    return found


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(item) for item in value]
    return {k: plain(v) for k, v in value.asDict(True).items()} if hasattr(value, "asDict") else value


def expected_of(values: dict[str, Any]) -> dict[int, Any]:
    return dict(enumerate(values.values()))


def zoned(found: dict[int, Any], schema: str) -> dict[int, Any]:
    """Return times of the session's zone, which Python gets without one, in UTC."""
    is_time = schema == "TIMESTAMP"
    return {n: v.astimezone(UTC) if is_time and isinstance(v, datetime) else v for n, v in found.items()}


@pytest.mark.parametrize("schema", TEXTS)
def test_a_text_is_the_value_that_it_says_or_refused(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    values = TEXTS[schema]
    lines = "".join(json.dumps({"id": number, "v": text}) + "\n" for number, text in enumerate(values))
    assert zoned(read(spark, tmp_path, "json", lines, schema), schema) == expected_of(values)
    table = io.StringIO()
    csv.writer(table).writerows(enumerate(values))
    assert zoned(read(spark, tmp_path, "csv", table.getvalue(), schema), schema) == expected_of(values)


@pytest.mark.parametrize("schema", NUMBERS)
def test_a_value_of_json_is_what_it_says_or_refused(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    values = NUMBERS[schema]
    lines = "".join(f'{{"id": {number}, "v": {text}}}\n' for number, text in enumerate(values))
    assert zoned(read(spark, tmp_path, "json", lines, schema), schema) == expected_of(values)


@pytest.mark.parametrize("schema", OF_CSV)
def test_a_field_of_csv_is_what_it_says_or_refused(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    values = OF_CSV[schema]
    lines = "".join(f"{number},{text}\n" for number, text in enumerate(values))
    found = read(spark, tmp_path, "csv", lines, schema)
    assert {n: "nan" if v != v else v for n, v in found.items()} == expected_of(values)


def test_options_of_the_author_say_how_values_are_written(spark: SparkSession, tmp_path: Path) -> None:
    def values(kind: str, body: str, schema: str, **options: str) -> list[Any]:
        return list(read(spark, tmp_path, kind, body, schema, **options).values())

    assert values("csv", "1;1.234,5\n", "DECIMAL(10,2)", sep=";", locale="de-DE") == [Decimal("1234.50")]
    assert values("csv", "1;02/01/2024\n", "DATE", sep=";", dateFormat="dd/MM/yyyy") == [DAY]
    assert values("csv", '1,"a\\"b"\n', "STRING", escape="\\") == ['a"b']
    assert values("csv", "1,'it''s'\n", "STRING", quote="'") == ["it's"]
    assert values("csv", '1\t"a""\tb"\n', "STRING", sep="\\t") == ['a"\tb']
    assert values("csv", '1\t5" pipe\n', "STRING", sep="\\t") == ['5" pipe']
    assert values("csv", '1||"a"",b"\n', "STRING", sep="||") == ['a",b']
    assert values("csv", '1,""\n2,-\n', "STRING", nullValue="-") == ["", None]
    assert values("csv", '1,""\n2,\n', "STRING", nullValue="") == [None, None]
    hour = values("json", '{"id": 1, "v": "2024-01-02 10h"}\n', "TIMESTAMP", timestampFormat="yyyy-MM-dd HH'h'")
    assert [time.astimezone(UTC) for time in hour] == [TIME]


# Options of CSV, type, and what its texts are.
WRITTEN: list[tuple[dict[str, str], str, dict[str, Any]]] = [
    (
        {"locale": "de-DE"},
        "DECIMAL(10,2)",
        {
            "1.5": REFUSED,
            "1,555": REFUSED,
            "1.23.456": REFUSED,
            "1,5,5": REFUSED,
            "n/a": REFUSED,
            ",": REFUSED,
            "1,5": Decimal("1.50"),
            "-1.234.567,80": Decimal("-1234567.80"),
            "12345": Decimal(12345),
            "": None,
        },
    ),
    ({"locale": "en-US"}, "DECIMAL(10,2)", {"1,5": REFUSED, "1,234.5": Decimal("1234.50"), "1.555": REFUSED}),
    ({"locale": "hi-IN"}, "DECIMAL(10,0)", {"12,34,567": Decimal(1234567), "12,34": REFUSED}),
    ({"locale": "de-DE"}, "DATE", {"2024-01-02": DAY, "2024-01-02 10:00:00": REFUSED, "2024": REFUSED}),
    (
        {"nanValue": "n/a", "positiveInf": "beyond"},
        "DOUBLE",
        {"n/a": "nan", "beyond": inf, "-inf": -inf, "12D": REFUSED, "1e400": REFUSED, "1.5": 1.5, "": None},
    ),
    (
        {"timeZone": "Asia/Kolkata"},
        "TIMESTAMP",
        {
            "10:00": REFUSED,
            "2024": REFUSED,
            "2024-01-02 15:30:00.123456789": REFUSED,
            "2024-01-02 15:30:00 BST": REFUSED,
            "2024-01-02 15:30": TIME,
            "2024-01-02T15:30:00.000": TIME,
            "2024-01-02 10:00:00Z": TIME,
            "2024-01-02": datetime(2024, 1, 1, 18, 30, tzinfo=UTC),
        },
    ),
    ({"timeZone": "+02:00"}, "TIMESTAMP", {"2024-01-02 12:00:00": TIME, "": None}),
    ({"timeZone": "CET"}, "TIMESTAMP", {"2024-01-02 11:00:00": TIME}),
    (
        {"timeZone": "+02:00", "timestampFormat": "dd.MM.yyyy HH:mm"},
        "TIMESTAMP",
        {"02.01.2024 12:00": TIME, "2024-01-02 12:00": REFUSED},
    ),
    ({"negativeInf": "it's"}, "FLOAT", {"it's": -inf, "7F": REFUSED, "0.5": 0.5}),
]


@pytest.mark.parametrize(("options", "schema", "values"), WRITTEN)
def test_a_value_that_is_written_as_an_option_says_is_that_value_or_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], schema: str, values: dict[str, Any]
) -> None:
    lines = "".join(f"{number};{text}\n" for number, text in enumerate(values))
    found = zoned(read(spark, tmp_path, "csv", lines, schema, sep=";", **options), schema)
    assert {n: "nan" if v != v else v for n, v in found.items()} == expected_of(values)


@pytest.mark.parametrize(
    ("options", "values"), [(options, values) for options, schema, values in WRITTEN if schema == "TIMESTAMP"]
)
def test_times_of_json_are_of_the_zone_of_its_option_or_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], values: dict[str, Any]
) -> None:
    given = {text: value for text, value in values.items() if text}
    lines = "".join(json.dumps({"id": number, "v": text}) + "\n" for number, text in enumerate(given))
    assert zoned(read(spark, tmp_path, "json", lines, "TIMESTAMP", **options), "TIMESTAMP") == expected_of(given)


def test_times_inside_of_values_are_of_the_zone_of_the_option_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    time = TIME.astimezone().replace(tzinfo=None)
    refused = dict.fromkeys(("10:00", "2024", "2024-01-02 12:00:00.1234567", "2024-01-02 12:00 BST"), REFUSED)
    values = {"2024-01-02 12:00:00": time, "2024-01-02T10:00:00Z": time, "2024-01-02 12:00": time, **refused}
    inside: list[tuple[Any, Any]] = [
        *(({"a": [text, None]}, value if value is REFUSED else [value, None]) for text, value in values.items()),
        *(({"m": {"k": {"t": text, "n": 1}}}, value) for text, value in values.items()),
    ]
    lines = "".join(json.dumps({"id": number, "v": given}) + "\n" for number, (given, _) in enumerate(inside))
    kind = "STRUCT<a: ARRAY<TIMESTAMP>, m: MAP<STRING, STRUCT<t: TIMESTAMP, n: INT>>>"
    found = read(spark, tmp_path, "json", lines, kind, timeZone="+02:00")
    expected = {number: value for number, (_, value) in enumerate(inside)}
    assert {n: v if v is REFUSED else v["a"] or v["m"]["k"]["t"] for n, v in found.items()} == expected
    if not spark.version.startswith("3."):
        body = "".join(f"<r><id>{number}</id><v><t>{text}</t></v></r>" for number, text in enumerate(values))
        found = read(spark, tmp_path, "xml", f"<rs>{body}</rs>", "STRUCT<t: TIMESTAMP>", timeZone="+02:00", rowTag="r")
        assert {n: v if v is REFUSED else v["t"] for n, v in found.items()} == expected_of(values)


def test_numbers_of_json_are_those_of_json_whatever_the_locale(spark: SparkSession, tmp_path: Path) -> None:
    values = {
        "1.5": Decimal("1.50"),
        '"1.5"': Decimal("1.50"),
        "1.500": Decimal("1.50"),
        '"1.500"': Decimal("1.50"),
        "1.239": REFUSED,
        '"1.239"': REFUSED,
        '"1,5"': REFUSED,
        '"1.234,5"': REFUSED,
    }
    lines = "".join(f'{{"id": {number}, "v": {text}}}\n' for number, text in enumerate(values))
    assert read(spark, tmp_path, "json", lines, "DECIMAL(10,2)", locale="de-DE") == expected_of(values)
    lines = "".join(f'{{"id": {number}, "v": [{text}]}}\n' for number, text in enumerate(values))
    inside = {text: value if value is REFUSED else [value] for text, value in values.items()}
    assert read(spark, tmp_path, "json", lines, "ARRAY<DECIMAL(10,2)>", locale="de-DE") == expected_of(inside)
    months = '{"id": 1, "v": "02 Januar 2024"}\n'
    assert read(spark, tmp_path, "json", months, "DATE", locale="de-DE", dateFormat="dd MMMM yyyy") == {1: DAY}


def test_numbers_of_xml_are_those_of_the_locale_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    values = {"1.5": REFUSED, "1,555": REFUSED, "1.234,50": Decimal("1234.50")}
    records = "".join(f"<r><id>{number}</id><v>{text}</v></r>" for number, text in enumerate(values))
    found = read(spark, tmp_path, "xml", f"<all>{records}</all>", "DECIMAL(10,2)", rowTag="r", locale="de-DE")
    assert found == expected_of(values)


def test_a_number_that_is_quoted_and_empty_leaves_its_column_one_of_numbers(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('"id","n","t"\n"1","","a"\n"2","7",""\n')
    source = Files(str(tmp_path / "a.csv"), options={"header": True})
    rows = read_files(spark, source, list_input_files(spark, source.path), None).rows
    assert [tuple(row) for row in rows.select("id", "n", "t").orderBy("id").collect()] == [(1, None, "a"), (2, 7, "")]
    rows.unpersist()

"""Files that a person would call odd: read right, or refused by name as bad input, which no retry would mend."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.spark.sources.test_unreadable_files import EVENTS, HEADER, LINES, TYPES, apply, flow

ROW = b'{"id": 1, "name": "x"}\n'
JSON: dict[str, Any] = {"schema": TYPES}
CSV_TYPES: dict[str, Any] = {"format": "csv", "schema": TYPES}
# Name, content, how it is read, and what the refusal says.
REFUSED: list[tuple[str, bytes, dict[str, Any], str]] = [
    ("empty.json.gz", b"", JSON, "0 bytes"),
    ("empty.json.bz2", b"", JSON, "0 bytes"),
    ("empty.json.zst", b"", JSON, "0 bytes"),
    ("empty.json.deflate", b"", JSON, "0 bytes"),
    ("empty.csv.gz", b"", CSV_TYPES, "0 bytes"),
    ("empty-events.json.gz", b"", EVENTS, "0 bytes"),
    ("a.json.lz4", pa.compress(LINES, codec="lz4", asbytes=True), JSON, r"compress it as \.gz"),
    ("a.json.snappy", pa.compress(LINES, codec="snappy", asbytes=True), JSON, r"compress it as \.gz"),
    ("a.csv.snappy", pa.compress(b"1,x\n", codec="snappy", asbytes=True), CSV_TYPES, r"compress it as \.gz"),
    ("events.json.LZ4", pa.compress(LINES, codec="lz4", asbytes=True), EVENTS, r"compress it as \.gz"),
    ("a.json.br", pa.compress(LINES, codec="brotli", asbytes=True), JSON, r"compress it as \.gz"),
    ("a.json.lzo", ROW, JSON, r"compress it as \.gz"),
    ("10:00:00.json", ROW, JSON, "colon"),
    ("garbage-behind.json.gz", gzip.compress(ROW) + b"garbage", JSON, "repair the file"),
    ("deep.json", b'{"id": 1, "name": ' + b"[" * 10_000 + b"]" * 10_000 + b"}\n", JSON, "1 records cannot be read"),
    ("digits.json", b'{"id": ' + b"9" * 39 + b"}\n", JSON, "1 records cannot be read"),
    ("digits.csv", b"9" * 39 + b",x\n", CSV_TYPES, "1 records cannot be read"),
    ("time.json", b'{"id": 1, "at": "10:00"}\n', {"schema": "id BIGINT, at TIME"}, "TIME or INTERVAL"),
]


@pytest.mark.parametrize(("name", "content", "source", "said"), REFUSED, ids=[name for name, *_ in REFUSED])
def test_an_odd_file_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, name: str, content: bytes, source: dict[str, Any], said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=said) as refused:
        apply(spark, tmp_path / name, **source)
    assert name in str(refused.value) or name == "time.json"


def test_a_gzip_of_nothing_and_a_gzip_of_several_parts_are_sound(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "nothing.json.gz").write_bytes(gzip.compress(b""))
    assert apply(spark, tmp_path / "nothing.json.gz", **JSON).batch_rows == 0
    (tmp_path / "parts.json.gz").write_bytes(gzip.compress(ROW) + gzip.compress(ROW.replace(b"1", b"2")))
    assert apply(spark, tmp_path / "parts.json.gz", "parts", **JSON).batch_rows == 2


NAMES = [
    "a%20b",
    "a#b",
    "a?b",
    "a*b",
    "a[1]",
    "a{b}",
    "a b",
    "ä😀",
    "a\nb",
    "a\\b",
    "x" * 200,
    "a'b",
    'a"b',
    "a%3Ab",
    "$a",
]


def test_a_file_of_any_other_name_is_read(spark: SparkSession, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        (tmp_path / f"{name}.json").write_text(f'{{"id": {number}, "name": "x"}}\n')
    assert apply(spark, tmp_path, "names", **JSON).batch_rows == len(NAMES)
    assert sorted(flow(spark, tmp_path, "names").rows()) == list(range(len(NAMES)))


def test_a_colon_is_refused_by_name_in_a_folder_a_glob_and_a_path(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "sound.json").write_bytes(ROW)
    (tmp_path / "orders_10:00.json").write_bytes(ROW)
    for path in (str(tmp_path), f"{tmp_path}/*.json", f"{tmp_path}/orders_10:00.json", f"file://{tmp_path}/o*"):
        with pytest.raises(BadInputError, match=r"orders_10:00\.json .*rename it"):
            list_input_files(spark, path)


def test_parquet_of_types_that_spark_has_not_is_refused_and_of_others_read(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "decimal256": pa.array([Decimal("1.5")], pa.decimal256(50, 2)),
        "time": pa.array([5], pa.time64("us")),
        "half": pa.array([1.5], pa.float16()),
    }
    for name, column in columns.items():
        pq.write_table(pa.table({"id": [1], "v": column}), tmp_path / f"{name}.parquet")
        with pytest.raises(BadInputError, match=rf"{name}\.parquet cannot be read as parquet"):
            apply(spark, tmp_path / f"{name}.parquet", format="parquet")
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", ""]), tmp_path / "no-name.parquet")
    with pytest.raises(BadInputError, match=r"no-name\.parquet.* a column without a name, at place 2"):
        apply(spark, tmp_path / "no-name.parquet", format="parquet")
    sound = {
        "u64": pa.array([2**64 - 1], pa.uint64()),
        "u32": pa.array([2**32 - 1], pa.uint32()),
        "small": pa.array([Decimal("1.5")], pa.decimal256(30, 2)),
        "words": pa.array(["a"]).dictionary_encode(),
    }
    pq.write_table(pa.table({"id": [1], **sound}), tmp_path / "sound.parquet")
    apply(spark, tmp_path / "sound.parquet", "sound", format="parquet")
    assert flow(spark, tmp_path, "sound").rows() == {1: (2**64 - 1, 2**32 - 1, Decimal("1.5"), "a")}


# Files of CSV in the order of their names.
HEADERS = {
    "a column more": ["id,a\n1,x\n", "id,a,b\n2,x,y\n"],
    "a column less": ["id,a,b\n1,x,y\n", "id,a\n2,x\n"],
    "another order": ["id,a\n1,x\n", "a,id\nx,2\n"],
    "another name": ["id,a\n1,x\n", "id,c\n2,x\n"],
    "no header": ["id,a\n1,x\n", "2,x\n"],
    "another separator": ["id,a\n1,x\n", "id;a\n2;x\n"],
    "blanks around": ["id,a\n1,x\n", "id, a\n2,x\n"],
    "none of many": [*["id,a\n1,x\n"] * 9, "id,a,b\n2,x,y\n"],
}


@pytest.mark.parametrize("header", ["id,,a", "id,a,"])
def test_a_header_without_a_name_is_said_to_be_one(spark: SparkSession, tmp_path: Path, header: str) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n1,2,3\n")
    with pytest.raises(BadInputError, match="or without a name") as refused:
        apply(spark, tmp_path / "*.csv", format="csv", options=HEADER)
    assert f"{header!r} in 1 files" in str(refused.value)
    assert "name each column" in str(refused.value)


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_differ_are_shown_both_and_no_file_is_called_broken(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    for number, text in enumerate(HEADERS[case]):
        (tmp_path / f"{number}.csv").write_text(text)
    first, last = HEADERS[case][0].split("\n")[0], HEADERS[case][-1].split("\n")[0]
    with pytest.raises(BadInputError, match="do not all have the same header") as refused:
        apply(spark, tmp_path / "*.csv", format="csv", options=HEADER)
    told = str(refused.value)
    named = [(first, len(HEADERS[case]) - 1, 0), (last, 1, len(HEADERS[case]) - 1)]
    for header, count, number in named:
        assert re.search(rf"{re.escape(repr(header))} in {count} files, such as file:/+[^;]*/{number}\.csv", told), told
    assert "broken" not in told


DAYS = [date(1, 1, 1), date(1500, 2, 28), date(1582, 10, 4), date(1582, 10, 15), date(2025, 1, 1)]


def test_days_of_orc_before_1582_are_those_that_were_written(spark: SparkSession, tmp_path: Path) -> None:
    utc = [datetime(day.year, day.month, day.day, 10, tzinfo=UTC) for day in DAYS]
    times = [time.replace(tzinfo=None) for time in utc]
    columns = {
        "id": list(range(len(DAYS))),
        "d": DAYS,
        "t": pa.array(times, pa.timestamp("us")),
        "l": [[d] for d in DAYS],
    }
    orc.write_table(pa.table(columns), str(tmp_path / "cpp.orc"))
    apply(spark, tmp_path / "cpp.orc", "orc_cpp", format="orc")
    expected = {n: (day, utc[n], [day]) for n, day in enumerate(DAYS)}
    assert flow(spark, tmp_path, "orc_cpp").rows() == expected
    orc.write_table(pa.table({"id": [9], "d": [date(1582, 10, 10)]}), str(tmp_path / "left-out.orc"))
    with pytest.raises(BadInputError, match=r"left-out\.orc has days from 1582-10-05"):
        apply(spark, tmp_path / "left-out.orc", format="orc")
    # Spark's own writer records its calendar.
    spark.sql("SELECT 7 AS id, DATE'1500-02-28' AS d").write.orc(str(tmp_path / "java"))
    apply(spark, tmp_path / "java", "orc_java", format="orc")
    assert flow(spark, tmp_path, "orc_java").rows() == {7: (DAYS[1],)}
    # The two together: Spark's says its calendar, so that the other's may be taken.
    orc.write_table(pa.table({"id": [8], "d": [DAYS[0]]}), str(tmp_path / "java" / "cpp.orc"))
    apply(spark, tmp_path / "java", "orc_java", format="orc")
    assert flow(spark, tmp_path, "orc_java").rows() == {7: (DAYS[1],), 8: (DAYS[0],)}


@pytest.mark.parametrize("options", [HEADER, {"header": "true", "multiLine": "true"}])
def test_csv_files_without_a_line_have_no_rows(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    source: dict[str, Any] = {"format": "csv", "options": options}
    table = f"lineless_{len(options)}"
    (tmp_path / "0.csv").write_bytes(b"")
    with pytest.raises(BadInputError, match="so nothing says their columns; give the source a schema"):
        apply(spark, tmp_path / "0.csv", table, **source)
    (tmp_path / "1.csv").write_bytes(b"id,name\n1,x\n")
    assert apply(spark, tmp_path / "1.csv", table, **source).batch_rows == 1
    for place, text in enumerate((b"", b"\n\n"), 2):
        (tmp_path / f"{place}.csv").write_bytes(text)
        assert apply(spark, tmp_path / f"{place}.csv", table, **source).batch_rows == 0
        (tmp_path / f"{place}-declared.csv").write_bytes(text)
        declared = {**source, "schema": TYPES}
        assert apply(spark, tmp_path / f"{place}-declared.csv", table, **declared).batch_rows == 0
    assert flow(spark, tmp_path, table).rows() == {1: ("x",)}

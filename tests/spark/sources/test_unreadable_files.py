"""Files that cannot be read, or not as what they are: refused by name, or read right; never retried in vain."""

from __future__ import annotations

import bz2
import gzip
import json
import random
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import DateTimeException, IllegalArgumentException, NumberFormatException
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.sources import source as as_source
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError, JobFailedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.formats.iceberg.table import create_table
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.unreadable_files import (
    first_failing,
    refuse_unfit_files,
    refusing_unreadable,
)
from tests.spark.append_flow import append
from tests.spark.upsert_flow import Flow

NOISE = random.Random(20)
LINES = b"".join(b'{"id": %d, "name": "%s"}\n' % (i, NOISE.randbytes(20).hex().encode()) for i in range(5_000))
CSV = b"id,name\n1,x\n"
TABLE = pa.table({"id": list(range(1_000)), "name": [NOISE.randbytes(5).hex() for _ in range(1_000)]})
TYPES = "id BIGINT, name STRING"
HEADER = {"header": "true"}
EVENTS = {"type": "debezium", "table": "t"}


def flow(spark: SparkSession, folder: Path, table: str) -> Flow:
    return Flow(spark, f"unreadable.{table}", folder, {"delete_when": None, "exclude_columns": ()})


def apply(spark: SparkSession, path: Path, table: str = "refused", /, **source: Any) -> Any:
    kind = {} if "type" in source else {"type": "files", "format": "json"}
    arguments = {"path": str(path), "name": "source", **kind, **source}
    query = arguments.pop("query", None)
    found = as_source(arguments)
    given = found if query is None else Query(query, over=replace(found, name=None), name="source")
    return flow(spark, path.parent, table).apply(path.stem, source=given)


def event(**after: Any) -> bytes:
    source = {"schema": "public", "table": "t", "sequence": '["1","2"]'}
    return json.dumps({"before": None, "after": after, "op": "c", "source": source}).encode() + b"\n"


def damaged(path: Path, at: slice) -> bytes:
    """The bytes of a file with some of them replaced."""
    data = bytearray(path.read_bytes())
    data[at] = bytes([0xFF]) * len(data[at])
    return bytes(data)


def unreadable(folder: Path) -> list[tuple[str, bytes, dict[str, Any]]]:
    """Name, content and how it is read, of files that no retry can read."""
    pq.write_table(TABLE, folder / "good.parquet")
    orc.write_table(TABLE, str(folder / "good.orc"))
    parquet, orc_bytes = (folder / "good.parquet").read_bytes(), (folder / "good.orc").read_bytes()
    text = b"hello world, this is text and neither of the two"
    gz = gzip.compress(LINES)
    return [
        ("cut off.json.gz", gz[:50_000], {"schema": TYPES}),
        ("cut-off-inferred.json.gz", gz[:50_000], {}),
        ("false.json.gz", LINES[:99], {"schema": TYPES}),
        ("false.csv.gz", CSV, {"format": "csv", "options": HEADER, "schema": TYPES}),
        ("crc.json.gz", gz[:-8] + b"12345678", {"schema": TYPES}),
        ("events.json.gz", gz[:50_000], EVENTS),
        ("false.json.bz2", LINES[:99], {"schema": TYPES}),
        ("cut-off.json.bz2", bz2.compress(LINES)[:50_000], {"schema": TYPES}),
        ("false.json.zst", LINES[:99], {"schema": TYPES}),
        ("archive.json.zip", b"PK\x03\x04", {"schema": TYPES}),
        ("empty.parquet", b"", {"format": "parquet", "schema": TYPES}),
        ("text.parquet", text, {"format": "parquet", "schema": TYPES}),
        ("text-footer.parquet", text, {"format": "parquet"}),
        ("cut-off.parquet", parquet[:-200], {"format": "parquet"}),
        ("damaged.parquet", damaged(folder / "good.parquet", slice(100, 3_000)), {"format": "parquet"}),
        ("text.orc", text, {"format": "orc", "schema": TYPES}),
        ("cut-off.orc", orc_bytes[:-50], {"format": "orc"}),
    ]


def test_a_file_that_cannot_be_read_is_named_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    for name, content, source in unreadable(tmp_path):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInputError) as refused:
            apply(spark, tmp_path / name, **source)
        told = str(refused.value)
        assert name in told, told
        assert re.search("repair the file|remove it|unpack it", told), told
        assert len(told) < 1_000, told


def test_among_many_files_the_one_that_does_not_fit_is_named(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(5):
        pq.write_table(pa.table({"id": ["x"] if number == 3 else [number]}), tmp_path / f"{number}.parquet")
    with pytest.raises(BadInputError, match=r"/3\.parquet cannot be read as parquet"):
        apply(spark, tmp_path / "*.parquet", format="parquet")
    with pytest.raises(BadInputError, match=r"/3\.parquet: id is string and declared as bigint"):
        apply(spark, tmp_path / "*.parquet", format="parquet", schema="id BIGINT")
    listed = [InputFile(str(number), 1, "") for number in range(7)]
    for wrong in listed:
        assert first_failing(listed, lambda some, wrong=wrong: wrong in some) == wrong  # type: ignore[misc]  # bound at once


def test_a_file_that_went_between_listing_and_reading_is_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def list_and_lose(*arguments: Any) -> Any:
        listed = list_input_files(*arguments)
        for file in listed:
            Path(file.path.removeprefix("file:")).unlink()
        return listed

    monkeypatch.setattr("airflow_lake_provider.spark_jobs.sources.files.list_input_files", list_and_lose)
    pq.write_table(TABLE, tmp_path / "a.parquet")
    (tmp_path / "a.json").write_bytes(LINES[:99])
    ways = {"a.parquet": {"format": "parquet"}, "a.json": {"schema": TYPES}}
    for name, source in ways.items():
        with pytest.raises(JobFailedError, match=rf"/{name} was listed and is gone"):
            apply(spark, tmp_path / name, **source)


def test_what_is_no_fault_of_a_file_stays_to_be_tried_again(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    listed = (InputFile("s3a://in/a b.json", 5, "1"),)

    def read(message: str, cause: Any = None) -> None:
        java = jvm.org.apache.spark.SparkException(message, cause)
        with refusing_unreadable(spark, listed, "json"):
            raise Py4JJavaError("An error occurred", java)

    failed = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {}. SQLSTATE: KD001"
    timeout = jvm.java.net.SocketTimeoutException("Read timed out")
    cut_off = jvm.java.io.EOFException("Unexpected end of input stream")
    with pytest.raises(JobFailedError, match=r"s3a://in/a b\.json cannot be read now.*Read timed out"):
        read(failed.format("s3a://in/a%20b.json"), timeout)
    with pytest.raises(BadInputError, match=r"s3a://in/a b\.json"):
        read(failed.format("s3a://in/a%20b.json"), cut_off)
    # HDFS and S3A say the same of a connection that broke.
    cut_connection = jvm.java.io.EOFException("Premature EOF: no length prefix available")
    in_text = jvm.java.io.IOException(
        "lost\nCaused by: java.io.EOFException: End of file reached before reading fully.\n"
        "\tat org.apache.hadoop.fs.s3a.S3AInputStream.readFully(S3AInputStream.java:1)\n\tat A.b(A.java:1)"
    )
    at_store = jvm.java.io.EOFException("End of file reached before reading fully.")
    frames = spark.sparkContext._gateway.new_array(jvm.java.lang.StackTraceElement, 1)  # type: ignore[union-attr]
    frames[0] = jvm.java.lang.StackTraceElement("org.apache.hadoop.hdfs.DFSInputStream", "readFully", "", 1)
    at_store.setStackTrace(frames)
    for cause in (cut_connection, in_text, at_store):
        with pytest.raises(JobFailedError, match=r"s3a://in/a b\.json cannot be read now"):
            read(failed.format("s3a://in/a%20b.json"), cause)
    with pytest.raises(Py4JJavaError):
        read(failed.format("s3a://warehouse/t/data/0.parquet"), cut_off)
    with pytest.raises(Py4JJavaError):
        read("Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited) EOFException", None)


def test_options_that_spark_refuses_are_no_reason_to_try_again(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV)
    zone = {"header": "true", "timeZone": "Mars/Olympus"}
    for options in ({"header": "maybe"}, {"header": "true", "encoding": "nope"}, {"header": "true", "sep": ""}, zone):
        with pytest.raises(InvalidSpecError, match="options"):
            apply(spark, tmp_path / "a.csv", format="csv", options=options)


def test_what_a_query_or_the_name_service_raises_is_no_fault_of_the_options(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_bytes(CSV)
    query = "SELECT id, CAST('x' AS INT) AS n FROM source"
    with pytest.raises(NumberFormatException):
        apply(spark, tmp_path / "a.csv", format="csv", options=HEADER, schema=TYPES, query=query)
    # An append evaluates the query in Spark's own code that writes rows.
    files = Files(str(tmp_path / "a.csv"), schema=TYPES, options=HEADER)
    faults = {"CAST(name AS DATE)": DateTimeException, "decode(X'41', name)": IllegalArgumentException}
    for number, (value, fault) in enumerate(faults.items()):
        appended = Flow(spark, f"unreadable.appended_{number}", tmp_path, {})
        with pytest.raises(fault):
            append(appended, "run", source=Query(f"SELECT id, {value} AS v FROM source", over=files))
    jvm: Any = spark._jvm
    unknown = jvm.java.lang.IllegalArgumentException(jvm.java.net.UnknownHostException("namenode"))
    listed = (InputFile("hdfs://namenode/a.csv", 5, "1"),)
    with pytest.raises(IllegalArgumentException, match="namenode"), refusing_unreadable(spark, listed, "csv"):
        raise IllegalArgumentException(origin=unknown)
    table: Any = SimpleNamespace(name="shop.orders")
    with pytest.raises(IllegalArgumentException, match="namenode"), create_table._conflicts(table):
        raise IllegalArgumentException(origin=unknown)


def test_of_many_bz2_files_the_first_that_is_none_is_named_and_one_that_is_away_is_tried_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number:02}.json.bz2" for number in range(40)]
    for path in paths:
        path.write_bytes(LINES[:99] if path.stem.startswith("3") else bz2.compress(LINES[:99]))
    listed = [InputFile(f"file:{path}", 99, "1") for path in paths]
    with pytest.raises(BadInputError, match=r"30\.json\.bz2 is no bzip2 file"):
        refuse_unfit_files(spark, listed, "json")
    paths[5].unlink()
    with pytest.raises(JobFailedError, match=r"05\.json\.bz2 cannot be read now"):
        refuse_unfit_files(spark, listed, "json")


def test_text_in_another_encoding_is_refused_or_read_as_it_says(spark: SparkSession, tmp_path: Path) -> None:
    latin = "id,name\n1,é\n2,z\n".encode("latin-1")
    (tmp_path / "latin.csv").write_bytes(latin)
    for schema in (TYPES, None):
        with pytest.raises(BadInputError, match=r"1 lines of .*latin\.csv are no UTF-8 text; .*'encoding'"):
            apply(spark, tmp_path / "latin.csv", format="csv", options=HEADER, schema=schema)
    query: dict[str, Any] = {"format": "csv", "options": HEADER, "schema": TYPES, "query": "SELECT * FROM source"}
    with pytest.raises(BadInputError, match="no UTF-8 text"):
        apply(spark, tmp_path / "latin.csv", **query)
    (tmp_path / "header.csv").write_bytes("id,größe\n1,5\n".encode("latin-1"))
    (tmp_path / "utf16.csv").write_bytes(CSV.decode().encode("utf-16"))
    for name, told in {"header": "the header of .* is no UTF-8 text", "utf16": "is UTF-16 text"}.items():
        with pytest.raises(BadInputError, match=told):
            apply(spark, tmp_path / f"{name}.csv", format="csv", options=HEADER)
    (tmp_path / "latin.json").write_bytes('{"id": 1, "name": "é"}\n'.encode("latin-1"))
    with pytest.raises(BadInputError, match=r"latin\.json, the first is its record 1.*encoding"):
        apply(spark, tmp_path / "latin.json", schema=TYPES)
    (tmp_path / "events.json").write_bytes(event(id=1, name="e").replace(b'"e"', b'"\xe9"'))
    with pytest.raises(BadInputError, match=r"no Debezium change events, .*: 1 in .*events\.json"):
        apply(spark, tmp_path / "events.json", **EVENTS)
    as_said: dict[str, Any] = {"format": "csv", "options": {**HEADER, "encoding": "ISO-8859-1"}, "schema": TYPES}
    apply(spark, tmp_path / "latin.csv", "encoded", **as_said)
    # A mark that the source has itself is text like any other.
    (tmp_path / "marked.csv").write_text("\ufeffid,name\r\n3,�\r\n")
    apply(spark, tmp_path / "marked.csv", "encoded", format="csv", options=HEADER, schema=TYPES)
    (tmp_path / "bom.json").write_bytes(b'\xef\xbb\xbf{"id": 4, "name": "b"}\r\n{"id": 5, "name": "c"}\r\n')
    apply(spark, tmp_path / "bom.json", "encoded", schema=TYPES)
    expected = {1: ("é",), 2: ("z",), 3: ("�",), 4: ("b",), 5: ("c",)}
    assert flow(spark, tmp_path, "encoded").rows() == expected


def test_milliseconds_are_no_timestamp_in_seconds(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "seconds.json").write_text('{"id": 1, "at": 1767261600}\n{"id": 2, "at": "2026-01-01T10:00:00Z"}\n')
    apply(spark, tmp_path / "seconds.json", "times", schema="id BIGINT, at TIMESTAMP")
    times = {id_: at for id_, (at,) in flow(spark, tmp_path, "times").rows().items()}
    assert times == dict.fromkeys((1, 2), datetime(2026, 1, 1, 10, tzinfo=UTC))
    for unit, number in {"millis": 1767261600000, "micros": 1767261600000000}.items():
        (tmp_path / f"{unit}.json").write_text(f'{{"id": 1, "at": {number}}}\n')
        with pytest.raises(BadInputError, match=r"1 records cannot be read.*in seconds.*BIGINT"):
            # The type is the table's: nobody declared one.
            apply(spark, tmp_path / f"{unit}.json", "times")


def test_the_report_says_where_a_path_without_a_scheme_led_to(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    report = apply(spark, tmp_path / "a.json", "located")
    assert (report.source_location, report.warnings) == (f"file:{tmp_path}/a.json", ())
    empty = apply(spark, tmp_path / "none*.json", "located")
    assert empty.source_location == f"file:{tmp_path}/none*.json"
    with pytest.raises(
        BadInputError, match=rf"'{tmp_path}/b\.json' does not exist, looked for at file:{tmp_path}/b\.json"
    ):
        apply(spark, tmp_path / "b.json", "located")


# Name, content and how it is read, of files that Spark refuses without saying which, and what the error says.
NAMELESS: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "a quote in a header": ("a.csv", b'id,"na"me\n1,x\n', {"format": "csv", "options": HEADER}, "a quote"),
    "no UTF-8 in XML": (
        "a.xml",
        b"<r><row><id>1</id><name>caf\xe9</name></row></r>",
        {"format": "xml", "options": {"rowTag": "row"}},
        "no letters",
    ),
}


@pytest.mark.parametrize("case", NAMELESS)
def test_a_file_whose_columns_cannot_be_found_is_named(spark: SparkSession, tmp_path: Path, case: str) -> None:
    name, content, source, said = NAMELESS[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=rf"/{re.escape(name)} has .*{said}"):
        apply(spark, tmp_path / name, **source)
    (tmp_path / f"b{name}").write_bytes(content)
    with pytest.raises(BadInputError, match=rf"/{re.escape(name)} or one of 1 others has .*{said}"):
        apply(spark, tmp_path / f"*{name}", **source)


def test_csv_holds_no_void(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,\n")
    with pytest.raises(BadInputError, match=r"cannot hold the types \{'x': 'void'\}"):
        apply(spark, tmp_path / "a.csv", format="csv", schema="id BIGINT, x VOID")


def test_parquet_of_a_newer_writer_is_refused_with_the_encoding_and_the_codec(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = pa.table({"id": [1, 2], "v": [1.5, 2.5]})
    pq.write_table(rows, tmp_path / "split.parquet", use_dictionary=False, use_byte_stream_split=["v"])
    pq.write_table(rows, tmp_path / "packed.parquet", compression="brotli")
    for name, said in (("split", "BYTE_STREAM_SPLIT"), ("packed", "Brotli")):
        with pytest.raises(BadInputError, match=rf"{name}\.parquet is written in a way .*{said}.*zstd or snappy"):
            apply(spark, tmp_path / f"{name}.parquet", format="parquet")


def test_a_time_that_its_type_does_not_hold_is_no_work_for_a_retry(spark: SparkSession, tmp_path: Path) -> None:
    # Milliseconds of which a TIMESTAMP would have more microseconds than a number of 64 bits holds.
    times = pa.array([99_999_999_999_999_999], pa.int64()).cast(pa.timestamp("ms"))
    pq.write_table(pa.table({"id": [1], "at": times}), tmp_path / "a.parquet")
    with pytest.raises(BadInputError, match=r"a\.parquet cannot be read as parquet.*long overflow"):
        apply(spark, tmp_path / "a.parquet", format="parquet")

"""Lines that no reader holds, such as those of a decompression bomb: refused by name, and never kept in memory."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings, jvm_of
from airflow_lake_provider.spark_jobs.sources import long_lines
from airflow_lake_provider.spark_jobs.sources.long_lines import (
    LONGEST_LINE,
    MEGABYTE,
    first_unpacked_bytes,
    refuse_long_lines,
)
from airflow_lake_provider.spark_jobs.sources.unreadable_files import refusing_unreadable
from tests.spark.maintained_table import MaintainedTable
from tests.spark.row_change_flow import delete
from tests.spark.sources.test_unreadable_files import EVENTS, TYPES, apply

JSON: dict[str, Any] = {"schema": TYPES}
ROW = b'{"id": 1, "name": "x"}\n'
ZEROS, TEXT = bytes(2 * MEGABYTE), b'{"id":1,"name":"' + b"a" * 2 * MEGABYTE + b'"}'


def plain(content: bytes) -> bytes:
    return content


# Name, how it is packed, its bytes, how it is read.
REFUSED: list[tuple[str, Callable[[bytes], bytes], bytes, dict[str, Any]]] = [
    ("a.json.gz", gzip.compress, ZEROS, JSON),
    ("a.json.bz2", bz2.compress, ZEROS, JSON),
    ("a.json.deflate", zlib.compress, ZEROS, JSON),
    ("a.json.zst", zstandard.compress, ZEROS, JSON),
    ("a.csv.gz", gzip.compress, ZEROS, {"format": "csv", "schema": TYPES}),
    ("inferred.json.gz", gzip.compress, TEXT, {}),
    ("events.json.gz", gzip.compress, ZEROS, EVENTS),
    ("a.json", plain, TEXT, JSON),
    ("a.csv", plain, ZEROS, {"format": "csv", "schema": TYPES}),
    ("separated.json.gz", gzip.compress, ROW * 99_999, {**JSON, "options": {"lineSep": "|"}}),
    ("separated-events.json.gz", gzip.compress, ZEROS, {**EVENTS, "options": {"lineSep": "|"}}),
]


@pytest.mark.parametrize(("name", "pack", "content", "source"), REFUSED, ids=[name for name, *_ in REFUSED])
def test_a_line_longer_than_any_reader_holds_is_refused_by_name(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    pack: Callable[[bytes], bytes],
    content: bytes,
    source: dict[str, Any],
) -> None:
    monkeypatch.setattr(long_lines, "LONGEST_LINE", MEGABYTE)
    (tmp_path / name).write_bytes(pack(content))
    with pytest.raises(BadInputError, match=rf"/{name} has more than 1 MiB without a line break, .*repair the file"):
        apply(spark, tmp_path / name, **source)


SOUND: list[tuple[str, Callable[[bytes], bytes], bytes, dict[str, Any]]] = [
    ("lines.json.gz", gzip.compress, ROW * 9_999, JSON),
    ("lines.json", plain, ROW * 9_999, JSON),
    ("carriage.csv.gz", gzip.compress, b"1,x\r" * 40_000, {"format": "csv", "schema": TYPES}),
    ("piped.json.gz", gzip.compress, ROW[:-1].ljust(99, b" ") + b"|", {**JSON, "options": {"lineSep": "|"}}),
    (
        "whole.json.gz",
        gzip.compress,
        b"[" + ROW[:-1] + b" " * MEGABYTE + b"]",
        {**JSON, "options": {"multiLine": True}},
    ),
]


@pytest.mark.parametrize(("name", "pack", "content", "source"), SOUND, ids=[name for name, *_ in SOUND])
def test_a_file_of_any_size_with_lines_is_read(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    pack: Callable[[bytes], bytes],
    content: bytes,
    source: dict[str, Any],
) -> None:
    monkeypatch.setattr(long_lines, "LONGEST_LINE", MEGABYTE // 16)
    (tmp_path / name).write_bytes(pack(content))
    assert apply(spark, tmp_path / name, name.split(".", 1)[0], **source).batch_keys == 1


def test_a_bomb_is_told_by_counting_and_small_files_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    bomb, gone = tmp_path / "bomb.json.gz", tmp_path / "gone.json.gz"
    bomb.write_bytes(gzip.compress(bytes(LONGEST_LINE + MEGABYTE)))
    listed = [InputFile(f"file:{path}", size, "1") for path, size in ((gone, 9_999), (bomb, bomb.stat().st_size))]
    with pytest.raises(BadInputError, match=r"bomb\.json\.gz has more than 64 MiB"):
        refuse_long_lines(spark, listed, {})
    refuse_long_lines(spark, listed[:1], {})


def test_a_line_behind_others_is_found_once_a_reader_had_no_memory_left(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_lines, "LONGEST_LINE", MEGABYTE)
    paths = [tmp_path / "sound.json.gz", tmp_path / "bomb.json.gz"]
    for path, content in zip(paths, (ROW * 99, ROW * 99 + ZEROS), strict=True):
        path.write_bytes(gzip.compress(content))
    listed = tuple(InputFile(f"file:{path}", path.stat().st_size, "1") for path in paths)
    said = "Job aborted due to stage failure: java.lang.OutOfMemoryError: Java heap space"
    jvm: Any = spark._jvm
    failed = Py4JJavaError("failed", jvm.org.apache.spark.SparkException(said))
    refused = pytest.raises(BadInputError, match=r"bomb\.json\.gz has more than 1 MiB")
    with refused, refusing_unreadable(spark, listed, "json", {}):
        raise failed
    with pytest.raises(Py4JJavaError), refusing_unreadable(spark, listed[:1], "json", {}):
        raise failed


def test_a_file_of_keys_to_erase_is_looked_at_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MaintainedTable(spark)
    table.append(1, 3)
    monkeypatch.setattr(long_lines, "LONGEST_LINE", MEGABYTE)
    (tmp_path / "keys.csv.gz").write_bytes(gzip.compress(ZEROS))
    keys = Files(str(tmp_path / "keys.csv.gz"), schema="id BIGINT")
    with pytest.raises(BadInputError, match=r"keys\.csv\.gz has more than 1 MiB"):
        delete(table, keys_from=keys, keys=("id",))


def test_each_look_into_packed_files_gives_their_decompressors_back(spark: SparkSession, tmp_path: Path) -> None:
    packages = jvm_of(spark).org.apache.hadoop
    codecs = packages.io.compress.CompressionCodecFactory(hadoop_settings(spark))
    for end, pack in (("bz2", bz2.compress), ("deflate", zlib.compress)):
        (path := tmp_path / f"a.{end}").write_bytes(pack(ROW))
        codec = codecs.getCodec(packages.fs.Path(str(path)))
        leased = packages.io.compress.CodecPool.getLeasedDecompressorsCount
        before = leased(codec)
        assert first_unpacked_bytes(spark, str(path), 8) == ROW[:8]
        assert leased(codec) == before

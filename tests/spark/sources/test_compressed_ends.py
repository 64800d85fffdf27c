"""Compressed files of several streams, and files whose last stream was cut off or has other bytes behind it."""

from __future__ import annotations

import bz2
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.file_ends import refuse_cut_ends
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from tests.spark.sources.test_unreadable_files import TYPES, apply, flow

NOISE = random.Random(31)
FIRST, SECOND = (b'{"id": %d, "name": "x"}\n' % number for number in (1, 2))
LARGE = b"".join(b'{"id": %d, "name": "%s"}\n' % (n, NOISE.randbytes(200).hex().encode()) for n in range(3, 1_500))
SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=len(data) % 2 == 0).compress(data)


PACKERS: dict[str, Callable[[bytes], bytes]] = {"bz2": bz2.compress, "zst": zst}


def is_refused(spark: SparkSession, path: Path, content: bytes) -> bool:
    path.write_bytes(content)
    try:
        refuse_cut_ends(spark, list_input_files(spark, str(path)))
    except BadInputError as error:
        return str(path) in str(error)
    return False


@pytest.mark.parametrize("kind", PACKERS)
def test_a_file_of_several_streams_is_read_whole(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    pack = PACKERS[kind]
    between = SKIPPED if kind == "zst" else b""
    (tmp_path / f"a.json.{kind}").write_bytes(pack(FIRST) + between + pack(LARGE) + pack(SECOND))
    apply(spark, tmp_path / f"a.json.{kind}", f"streams_{kind}", schema=TYPES)
    assert sorted(flow(spark, tmp_path, f"streams_{kind}").rows()) == list(range(1, 1_500))


@pytest.mark.parametrize("kind", PACKERS)
def test_rows_behind_the_first_stream_are_not_lost_without_a_word(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    pack = PACKERS[kind]
    for rest in (SECOND, pack(SECOND)[:5], pack(SECOND)[:8], pack(SECOND)[:-1]):
        (tmp_path / f"a.json.{kind}").write_bytes(pack(FIRST) + rest)
        with pytest.raises(BadInputError, match=rf"a\.json\.{kind} "):
            apply(spark, tmp_path / f"a.json.{kind}", schema=TYPES)


@pytest.mark.parametrize("name", ["A.JSON.BZ2", "A.Json.Zst", "a.json.zstd"])
def test_the_end_of_a_name_is_compared_as_spark_compares_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pack = PACKERS["bz2" if name.endswith("BZ2") else "zst"]
    (tmp_path / name).write_bytes(pack(FIRST) + pack(LARGE))
    apply(spark, tmp_path / name, "spelled", schema=TYPES)
    assert sorted(flow(spark, tmp_path, "spelled").rows()) == [1, *range(3, 1_500)]
    (tmp_path / name).write_bytes(pack(FIRST) + pack(SECOND)[:-1])
    with pytest.raises(BadInputError, match=rf"/{name} "):
        apply(spark, tmp_path / name, "spelled", schema=TYPES)


def test_a_deflated_file_that_ends_in_zeros_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json.deflate").write_bytes(zlib.compress(FIRST) + bytes(512))
    with pytest.raises(BadInputError, match=r"a\.json\.deflate cannot be read as json"):
        apply(spark, tmp_path / "a.json.deflate", schema=TYPES)


@pytest.mark.parametrize("kind", PACKERS)
def test_no_cut_of_a_small_last_stream_passes(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    pack = PACKERS[kind]
    path, first, last = tmp_path / f"a.json.{kind}", pack(LARGE), pack(SECOND)
    for length in range(len(last) + 1):
        is_cut = length not in (0, len(last))
        assert is_refused(spark, path, first + last[:length]) is is_cut, length
    assert is_refused(spark, path, first) is False
    assert is_refused(spark, path, pack(b"")) is False
    for sizes in ([1], [5, 70_000, 3], [200_000, 200_000]):
        streams = b"".join(pack(NOISE.randbytes(size)) for size in sizes)
        assert is_refused(spark, path, streams) is False


def test_a_frame_of_repeated_bytes_and_one_that_is_skipped_are_whole(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.json.zst"
    assert is_refused(spark, path, zst(b"\n" * 1_000_000) + SKIPPED + zst(b"\n" * 9)) is False
    assert is_refused(spark, path, zst(b"\n" * 1_000_000) + SKIPPED + zst(b"\n" * 9)[:-1]) is True

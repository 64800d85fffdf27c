"""First bytes of files that are called text."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.sources import unreadable_files
from airflow_lake_provider.spark_jobs.sources.file_ends import SIGNATURE_BYTES, disguise_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW = b"1,x\n" * 20


def zipped() -> bytes:
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("a.csv", ROW)
    return file.getvalue()


def parquet(folder: Path) -> bytes:
    pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
    return (folder / "a.parquet").read_bytes()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: gzip.compress(ROW), ".gz"),
        (lambda _: bz2.compress(ROW), ".bz2"),
        (lambda _: zstandard.compress(ROW), ".zst"),
        (lambda _: lzma.compress(ROW), "xz file"),
        (lambda _: zipped(), "unpack it"),
        (parquet, "format='parquet'"),
        (lambda _: ROW.decode().encode("utf-16"), "'encoding': 'UTF-16'"),
        (lambda _: ROW.decode().encode("utf-16-le"), "'encoding': 'UTF-16LE'"),
        (lambda _: ROW.decode().encode("utf-16-be"), "'encoding': 'UTF-16BE'"),
        (lambda _: b"1\0,\0x\0", "'encoding': 'UTF-16LE'"),
        (lambda _: ROW.decode().encode("utf-32"), "'encoding': 'UTF-32'"),
        (lambda _: b"\0\0\xfe\xff" + ROW.decode().encode("utf-32-be"), "'encoding': 'UTF-32'"),
    ],
)
def test_what_other_writers_make_is_told_by_its_first_bytes(make: object, said: str, tmp_path: Path) -> None:
    assert callable(make)
    assert said in str(disguise_of(make(tmp_path)[:SIGNATURE_BYTES], {}))


@pytest.mark.parametrize(
    "text", ["PAR1,a\n", "BZh91,a\n", "PK,a\n", "Obj,1\n", "\ufeffid,a\n", "é", "", "\x1f", "1", "\0", "\0" * 9, "a\0"]
)
def test_text_is_taken_for_text(text: str) -> None:
    assert disguise_of(text.encode()[:SIGNATURE_BYTES], {}) is None


@pytest.mark.parametrize("encoding", ["utf-16", "UTF_16", "utf16", "UTF-16LE", "UTF_16LE", "UTF_16BE", "UTF_32"])
def test_an_encoding_of_several_bytes_a_letter_that_is_said_is_text(encoding: str) -> None:
    assert disguise_of("a,bcd,e".encode(encoding)[:SIGNATURE_BYTES], {"Encoding": encoding}) is None


@pytest.mark.parametrize("path", ["2.csv", "2.csv.gz"])
def test_a_file_that_is_gone_hides_no_other(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    def begin(_spark: SparkSession, each: str, count: int) -> bytes:
        if each == "1.csv":
            raise JobFailedError("it is gone")
        return ROW.decode().encode("utf-16")[:count]

    for name in ("_first_bytes", "first_unpacked_bytes"):
        monkeypatch.setattr(unreadable_files, name, begin)
    files = [InputFile("1.csv", 9, "1"), InputFile(path, 9, "1")]
    spark: Any = None
    with pytest.raises(BadInputError, match=f"{path} is UTF-16 text"):
        unreadable_files.refuse_disguised(spark, files, {}, skips_gone=True)
    unreadable_files.refuse_disguised(spark, files[:1], {}, skips_gone=True)
    with pytest.raises(JobFailedError):
        unreadable_files.refuse_disguised(spark, files, {})

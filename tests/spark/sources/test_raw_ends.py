"""Text that is deep, long or packed a thousandfold: read, or refused within a bound and never retried."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from tests.spark.sources.test_unreadable_files import EVENTS, apply

SECONDS = 30
TYPES = "id BIGINT, v STRING"


def deep(levels: int, opening: str = '{"a":', closing: str = "}") -> str:
    return f'{{"id": 1, "v": {opening * levels}1{closing * levels}}}\n'


@pytest.mark.parametrize(
    "line",
    [deep(51), deep(900), deep(900, "[", "]"), deep(450, '{"a":[', "]}"), deep(999)],
    ids=lambda line: line[16:32],
)
def test_deep_json_is_refused_where_nobody_says_its_columns(spark: SparkSession, tmp_path: Path, line: str) -> None:
    (tmp_path / "deep.json").write_text(line)
    (tmp_path / "more.json").write_text('{"id": 2, "v": null}\n')
    started = monotonic()
    with pytest.raises(BadInputError, match=r"at most 50 levels.*STRING"):
        apply(spark, tmp_path / "deep.json")
    with pytest.raises(
        BadInputError, match=r"1 in .*/deep\.json, the first is its record 1.*at most 50 levels.*STRING"
    ):
        apply(spark, tmp_path / "*.json")
    assert monotonic() - started < SECONDS


def read(spark: SparkSession, path: Path, **words: Any) -> list[tuple[int | None, int | None, bool]]:
    source = Files(str(path), **{"schema": TYPES, **words})
    rows = read_files(spark, source, list_input_files(spark, source.path), None).rows
    found = [tuple(row) for row in rows.selectExpr("id", "length(v)", "_lake_unparsable IS NOT NULL").collect()]
    rows.unpersist()
    return found


def test_deep_json_is_text_where_the_schema_says_so(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text(deep(900))
    assert read(spark, tmp_path / "deep.json") == [(1, len(deep(900)) - len('{"id": 1, "v": }\n'), False)]


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, 1),
    "bz2": bz2.compress,
    "zst": zstd,
}


MILLION = 1_000_000
# Text of a file that is small once packed, and the row that is read of it: id, length of v, whether it is refused.
HUGE: dict[str, tuple[bytes, tuple[int | None, int | None, bool]]] = {
    "sound.json": (b'{"id": 1, "v": "' + b"a" * 19 * MILLION + b'"}\n', (1, 19 * MILLION, False)),
    "text.json": (b'{"id": 1, "v": "' + b"a" * 50 * MILLION + b'"}\n', (None, None, True)),
    "texts.json": (b'{"id": 1' + b', "v": "a"' * MILLION + b"}\n", (1, 1, False)),
    "zeros.json": (bytes(50 * MILLION), (None, None, True)),
    "text.csv": (b"1," + b"a" * 50 * MILLION + b"\n", (1, 50 * MILLION, False)),
}


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("case", HUGE)
def test_a_small_file_with_one_huge_line_is_read_or_refused(
    spark: SparkSession, tmp_path: Path, case: str, ending: str
) -> None:
    data, expected = HUGE[case]
    path = tmp_path / f"{case}.{ending}"
    path.write_bytes(PACKED[ending](data))
    started = monotonic()
    assert read(spark, path, format=case.partition(".")[2]) == [expected]
    assert monotonic() - started < SECONDS


def test_a_huge_text_of_json_is_told_with_its_file_and_the_bound(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b'{"id": 1, "v": "' + b"a" * 25 * MILLION + b'"}\n', 1))
    for words in ({"schema": TYPES}, {}):
        with pytest.raises(BadInputError, match=r"bomb\.json\.gz.*20,000,000 characters|no record of .*bomb\.json\.gz"):
            apply(spark, tmp_path / "bomb.json.gz", **words)
    with pytest.raises(BadInputError, match=r"no Debezium change events.*bomb\.json\.gz"):
        apply(spark, tmp_path / "bomb.json.gz", **EVENTS)

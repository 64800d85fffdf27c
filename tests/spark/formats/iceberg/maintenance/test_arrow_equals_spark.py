"""Random tables: what Arrow rewrites equals what Iceberg's own rewrite makes of a table with the same files."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of
from tests.spark.formats.iceberg.maintenance.twin_tables import Twins

_PLACE = pa.struct([("x", pa.float32()), ("inner", pa.struct([("y", pa.float64()), ("z", pa.string())]))])
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def _float(rng: random.Random) -> float:
    return rng.choice([float("nan"), 0.0, -0.0, float("inf"), float("-inf"), rng.uniform(-1e6, 1e6)])


def _single(rng: random.Random) -> float:
    return float(pa.scalar(_float(rng), pa.float32()).as_py())


def _text(rng: random.Random) -> str:
    return "".join(rng.choices("abcé😀 \t\"'", k=rng.choice([0, 1, 5, 40])))


def _moment(rng: random.Random) -> datetime:
    return _EPOCH + timedelta(microseconds=rng.randint(-(2**51), 2**50))


def _marks(rng: random.Random) -> list[tuple[str, float | None]]:
    return [(f"k{place}", _maybe(_float)(rng)) for place in range(rng.randint(0, 3))]


def _maybe(make: Callable[[random.Random], Any]) -> Callable[[random.Random], Any]:
    return lambda rng: None if rng.random() < 0.2 else make(rng)


def _decimal(digits: int, scale: int) -> Callable[[random.Random], Decimal]:
    return lambda rng: Decimal(rng.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale)


def _place(rng: random.Random) -> dict[str, Any]:
    inner = _maybe(lambda rng: {"y": _maybe(_float)(rng), "z": _maybe(_text)(rng)})
    return {"x": _maybe(_single)(rng), "inner": inner(rng)}


Values = Callable[[random.Random], Any]
# Spark's type, Arrow's, and values.
KINDS: dict[str, tuple[pa.DataType, Values]] = {
    "BOOLEAN": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "INT": (pa.int32(), lambda rng: rng.randint(-(2**31), 2**31 - 1)),
    "BIGINT": (pa.int64(), lambda rng: rng.randint(-(2**63), 2**63 - 1)),
    "FLOAT": (pa.float32(), _single),
    "DOUBLE": (pa.float64(), _float),
    "DATE": (pa.date32(), lambda rng: date(1900, 1, 1) + timedelta(days=rng.randint(0, 80_000))),
    "TIMESTAMP": (pa.timestamp("us", tz="UTC"), _moment),
    "TIMESTAMP_NTZ": (pa.timestamp("us"), lambda rng: _moment(rng).replace(tzinfo=None)),
    "STRING": (pa.string(), _text),
    "BINARY": (pa.binary(), lambda rng: rng.randbytes(rng.choice([0, 3, 20]))),
    "DECIMAL(9, 2)": (pa.decimal128(9, 2), _decimal(9, 2)),
    "DECIMAL(18, 4)": (pa.decimal128(18, 4), _decimal(18, 4)),
    "DECIMAL(30, 6)": (pa.decimal128(30, 6), _decimal(30, 6)),
    "ARRAY<FLOAT>": (pa.list_(pa.float32()), lambda rng: [_maybe(_single)(rng) for _ in range(rng.randint(0, 3))]),
    "MAP<STRING, DOUBLE>": (pa.map_(pa.string(), pa.float64()), _marks),
    "STRUCT<x: FLOAT, inner: STRUCT<y: DOUBLE, z: STRING>>": (_PLACE, _place),
}
PROPERTIES: list[dict[str, str]] = [
    {},
    {"write.parquet.compression-codec": "gzip", "write.metadata.metrics.default": "full"},
    {"write.parquet.compression-codec": "snappy", "write.metadata.metrics.default": "counts"},
    {"write.parquet.compression-codec": "uncompressed", "write.metadata.metrics.column.c0": "none"},
    {"write.parquet.row-group-size-bytes": "20000", "write.metadata.metrics.default": "truncate(3)"},
]
CHANGES = [
    "ALTER TABLE {} ADD COLUMN added DOUBLE",
    "ALTER TABLE {} RENAME COLUMN c0 TO renamed",
    "ALTER TABLE {} DROP COLUMN c1",
    "ALTER TABLE {} ADD COLUMN widened INT; ALTER TABLE {} ALTER COLUMN widened TYPE BIGINT",
]


def _rows(twins: Twins, kinds: list[str], rng: random.Random, first: int, count: int) -> Any:
    """Rows for the columns that the tables have now."""
    present = {row[0]: row[1] for row in twins.spark.sql(f"DESCRIBE {twins.name}").collect() if row[0] and row[1]}
    columns: dict[str, pa.Array] = {"id": pa.array(range(first, first + count), pa.int64())}
    named = {**{f"c{place}": kind for place, kind in enumerate(kinds)}, "renamed": kinds[0]}
    for name in list(present)[1:]:
        arrow, value = KINDS[named.get(name, "DOUBLE" if name == "added" else "BIGINT")]
        columns[name] = pa.array([_maybe(value)(rng) for _ in range(count)], arrow)
    return dataframe_of(twins.spark, pa.table({name: columns[name] for name in present if name in columns}))


@given(
    seed=st.integers(0, 2**32),
    version=st.sampled_from([2, 3]),
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=7),
    properties=st.sampled_from(PROPERTIES),
    change=st.sampled_from([None, *CHANGES]),
    divisors=st.lists(st.integers(2, 9), max_size=2),
)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_a_random_table_is_what_icebergs_own_rewrite_makes_of_it(
    spark: SparkSession,
    seed: int,
    version: int,
    kinds: list[str],
    properties: dict[str, str],
    change: str | None,
    divisors: list[int],
) -> None:
    rng = random.Random(seed)
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(kinds))
    twins = Twins(spark, f"id BIGINT NOT NULL, {columns}", version=version, properties=properties)
    first = 0
    for number in range(4):
        count = rng.choice([1, 50, 400])
        twins.append(_rows(twins, kinds, rng, first, count))
        first += count
        if number == 1 and change is not None:
            for statement in change.split("; "):
                twins.run(statement)
        for divisor in divisors if number else ():
            twins.run(f"DELETE FROM {{}} WHERE id % {divisor} = {number}")
    ours, theirs = twins.names
    before = twins.rows(ours)

    report = twins.compact()

    assert (report.outcome, report.left_to_spark, report.groups_by_arrow) == (Outcome.DONE, {}, 1)
    assert twins.rows(ours) == before == twins.rows(theirs)
    assert twins.data_files(ours) == twins.data_files(theirs)
    ids = sorted(row.id for row in spark.table(theirs).select("id").collect())
    assert _ids_in_files(twins) == ids
    if version == 2:
        assert sorted(twins.outside(ours).scan().to_arrow().column("id").to_pylist()) == ids


def _ids_in_files(twins: Twins) -> list[int]:
    """Ids in the new data files, as DuckDB reads them."""
    paths = [Path(path.removeprefix("file:")) for path in twins.live_files(twins.name)]
    if not paths:
        return []
    read = duckdb.execute("SELECT id FROM read_parquet(?, union_by_name => true)", [list(map(str, paths))]).fetchall()
    return sorted(row[0] for row in read)


@pytest.mark.parametrize("version", [2, 3])
def test_new_files_are_as_large_as_sparks_within_a_twentieth(spark: SparkSession, version: int) -> None:
    columns = "id BIGINT, amount BIGINT, price DOUBLE, name STRING, day DATE"
    twins = Twins(spark, columns, version=version)
    select = (
        "SELECT id, xxhash64(id) amount, xxhash64(id, 1) / 3.0D price, concat('n', pmod(hash(id), 5000)) name,"
        " date_add(date'2026-01-01', int(id % 300)) day FROM range({}, {})"
    )
    for first in range(0, 240_000, 40_000):
        twins.append(spark.sql(select.format(first, first + 40_000)))
    twins.run("DELETE FROM {} WHERE id % 100 = 7")
    assert twins.compact().left_to_spark == {}
    ours, theirs = (
        sum(Path(path.removeprefix("file:")).stat().st_size for path in twins.live_files(name)) for name in twins.names
    )
    assert ours == pytest.approx(theirs, rel=0.05)


@pytest.mark.parametrize("mode", ["none", "counts", "full"])
def test_a_filter_reads_the_rows_that_it_reads_after_sparks_rewrite(spark: SparkSession, mode: str) -> None:
    """To Spark NaN is above all numbers; statistics that leave it out would let it skip the rows."""
    properties = {"write.metadata.metrics.default": mode}
    both = Twins(spark, "id BIGINT, f DOUBLE, s STRUCT<g: FLOAT>", version=2, properties=properties)
    for first in (0, 10):
        rows = f"SELECT id, IF(id % 10 = 3, double('NaN'), id) f FROM range({first}, {first + 10})"
        both.append(spark.sql(f"SELECT id, f, named_struct('g', float(f)) s FROM ({rows})"))
    assert both.compact().groups_by_arrow == 1
    ours, theirs = both.names
    for condition in ("f > 1000", "NOT (f <= 1000)", "isnan(f)", "f >= 5", "s.g > 1000", "f = double('NaN')"):
        counts = [spark.sql(f"SELECT id FROM {name} WHERE {condition}").count() for name in (ours, theirs)]
        assert counts[0] == counts[1], condition
        plain = [spark.read.parquet(*both.live_files(name)).filter(condition).count() for name in (ours, theirs)]
        assert plain[0] == plain[1] > 0, condition
    assert both.data_files(ours) == both.data_files(theirs)


@pytest.mark.parametrize(
    ("by", "kind", "value", "reason"),
    [
        ("s", "DOUBLE", "double('NaN')", "a partition is NaN"),
        ("s.b", "STRUCT<b: STRING>", "named_struct('b', 'x')", "a partition is a column within a struct"),
    ],
)
def test_partitions_that_arrow_cannot_compare_are_left_to_spark(
    spark: SparkSession, by: str, kind: str, value: str, reason: str
) -> None:
    both = Twins(spark, f"id BIGINT, s {kind}", version=2, partition=f"PARTITIONED BY ({by})")
    for first in (0, 10):
        both.append(spark.sql(f"SELECT id, {value} s FROM range({first}, {first + 10})"))
    report = both.compact()
    assert (report.groups_by_arrow, [*report.left_to_spark]) == (0, [reason])
    ours, theirs = both.names
    assert both.rows(ours) == both.rows(theirs)

"""Columns of types that Spark does not read: refused with the file, the column and what to do, or read rightly."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.sources.test_unreadable_files import apply, flow

DAY = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
UTC_TIME = pa.timestamp("us", "UTC")
# Format and column that no reader of Spark takes.
REFUSED: dict[str, tuple[str, pa.Array]] = {
    "orc time with a zone": ("orc", pa.array([DAY], UTC_TIME)),
    "orc time with a zone in a list": ("orc", pa.array([[DAY]], pa.list_(UTC_TIME))),
    "orc time with a zone in a struct": ("orc", pa.array([{"x": DAY}], pa.struct([("x", UTC_TIME)]))),
    "orc struct without fields": ("orc", pa.array([{}], pa.struct([]))),
    "parquet nanoseconds in a list": ("parquet", pa.array([[DAY.replace(tzinfo=None)]], pa.list_(pa.timestamp("ns")))),
    "parquet time of milliseconds": ("parquet", pa.array([dt.time(1)], pa.time32("ms"))),
    "parquet time of microseconds": ("parquet", pa.array([dt.time(1)], pa.time64("us"))),
    "parquet time of nanoseconds": ("parquet", pa.array([dt.time(1)], pa.time64("ns"))),
    "parquet half float": ("parquet", pa.array([1.5], pa.float16())),
    "parquet 50 digits": ("parquet", pa.array([decimal.Decimal("1.5")], pa.decimal256(50, 2))),
    "parquet uuid": ("parquet", pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16)))),
}
# Column of Parquet, and the value that is read of it.
READ: dict[str, tuple[pa.Array, Any]] = {
    "duration": (pa.array([dt.timedelta(1)], pa.duration("us")), 86_400_000_000),
    "fixed": (pa.array([b"abcd"], pa.binary(4)), b"abcd"),
    "dictionary": (pa.array(["a"]).dictionary_encode(), "a"),
    "small": (pa.array([2**8 - 1], pa.uint8()), 2**8 - 1),
    "short": (pa.array([2**16 - 1], pa.uint16()), 2**16 - 1),
    "whole": (pa.array([2**32 - 1], pa.uint32()), 2**32 - 1),
    "unsigned": (pa.array([2**63 + 1], pa.uint64()), decimal.Decimal(2**63 + 1)),
    # As writers of long ago have them: INT96, and lists of "item".
    "old time": (pa.array([DAY.replace(tzinfo=None)], pa.timestamp("ns")), DAY),
    "old list %": (pa.array([[1, 2]]), [1, 2]),
    "größe": (pa.array([1]), 1),
    "large": (pa.array(["a"], pa.large_string()), "a"),
}


def write(path: Path, kind: str, column: pa.Array) -> Path:
    table = pa.table({"id": [1], "odd": column})
    if kind == "orc":
        orc.write_table(table, str(path))
    else:
        pq.write_table(table, path)
    return path


@pytest.mark.parametrize("case", REFUSED)
def test_a_column_that_spark_does_not_read_is_refused_by_name(spark: SparkSession, tmp_path: Path, case: str) -> None:
    kind, column = REFUSED[case]
    path = write(tmp_path / f"file.{kind}", kind, column)
    with pytest.raises(BadInputError, match=r"\bodd\b") as refused:
        apply(spark, path, format=kind)
    told = str(refused.value)
    assert f"file.{kind}" in told or "unreadable.refused" in told, told
    assert "cut off" not in told, told


@pytest.mark.parametrize("case", [case for case, (kind, _) in REFUSED.items() if kind == "parquet"])
def test_a_type_that_the_source_declares_instead_is_no_way_around(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    path = write(tmp_path / "file.parquet", "parquet", REFUSED[case][1])
    with pytest.raises(BadInputError, match=r"file\.parquet.*\bodd\b|odd is .* declared as string") as refused:
        apply(spark, path, format="parquet", schema="id BIGINT, odd STRING")
    assert "cut off" not in str(refused.value)


def test_columns_of_other_writers_are_read_as_what_they_say(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"id": [1], **{name: column for name, (column, _) in READ.items()}})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, use_compliant_nested_type=False)
    apply(spark, tmp_path / "a.parquet", "foreign", format="parquet")
    assert flow(spark, tmp_path, "foreign").rows() == {1: tuple(value for _, value in READ.values())}


def test_nanoseconds_of_pandas_are_read_where_they_are_whole_microseconds_and_refused_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Of before 1970 too, where a division rounds to the other side.
    utc = [dt.datetime(2024, 1, 2, 3, 4, 5, 678901, dt.UTC), None, dt.datetime(1899, 12, 31, 23, 59, 59, 9, dt.UTC)]
    naive = [time and time.replace(tzinfo=None) for time in utc]
    columns = {
        "id": [1, 2, 3],
        "At": pa.array(naive, pa.timestamp("ns")),
        "utc": pa.array(utc, pa.timestamp("ns", "Europe/Berlin")),
        "n": pa.array([10**18, 1, 2], pa.int64()),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    for _ in ("once", "again in this session"):
        apply(spark, tmp_path / "a.parquet", "fine", format="parquet")
    expected = {n + 1: (naive[n], utc[n], (10**18, 1, 2)[n]) for n in range(3)}
    assert flow(spark, tmp_path, "fine").rows() == expected
    for nanoseconds in (1_700_000_000_123_456_789, -1):
        column = pa.array([0, nanoseconds], pa.int64()).cast(pa.timestamp("ns"))
        pq.write_table(pa.table({"id": [4, 5], "odd": column}), tmp_path / "b.parquet")
        with pytest.raises(BadInputError, match=r"1 in .*b\.parquet, .*record 2.* in odd: .*coerce_timestamps='us'"):
            apply(spark, tmp_path / "b.parquet", format="parquet")
    # A number of one file is no time of another.
    pq.write_table(pa.table({"id": [6], "odd": [7]}), tmp_path / "c.parquet")
    with pytest.raises(BadInputError, match="do not go together: odd is timestamp_ntz and bigint"):
        apply(spark, tmp_path / "[bc].parquet", format="parquet")


def test_nanoseconds_beside_other_units_are_read_in_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    # pyarrow wrote other units before its version 13.
    for number, (unit, factor) in enumerate({"ns": 1000, "us": 1}.items(), 1):
        at = pa.array([1_700_000_000_123_456 * factor], pa.timestamp(unit))
        name = {"name": ["x"]} if unit == "us" else {}
        pq.write_table(pa.table({"id": [number], "at": at, **name}), tmp_path / f"{unit}.parquet")
    pq.write_table(
        pa.table({"id": [3], "at": pa.array([1_700_000_000_123], pa.timestamp("ms"))}), tmp_path / "v.parquet"
    )
    apply(spark, tmp_path / "*.parquet", "units", format="parquet")
    time = dt.datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=dt.UTC).replace(tzinfo=None)
    expected = {1: (time, None), 2: (time, "x"), 3: (time.replace(microsecond=123_000), None)}
    assert flow(spark, tmp_path, "units").rows() == expected


def test_a_column_of_nothing_but_none_gives_a_table_no_type(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    pq.write_table(pa.table({"id": [1], "note": pa.nulls(1)}), tmp_path / "1" / "a.parquet")
    apply(spark, tmp_path / "1" / "a.parquet", "untyped", format="parquet")
    assert flow(spark, tmp_path, "untyped").rows() == {1: ()}
    # Another file of the batch has the type, and then the table.
    pq.write_table(pa.table({"id": [2], "note": ["x"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"id": [3], "note": pa.nulls(1)}), tmp_path / "c.parquet")
    apply(spark, tmp_path / "[bc].parquet", "untyped", format="parquet")
    pq.write_table(pa.table({"id": [4], "note": pa.nulls(1)}), tmp_path / "d.parquet")
    apply(spark, tmp_path / "d.parquet", "untyped", format="parquet")
    assert flow(spark, tmp_path, "untyped").rows() == {1: (None,), 2: ("x",), 3: (None,), 4: (None,)}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_times_of_orc_are_refused_where_the_machine_has_another_zone_than_the_session(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    clock = DAY.replace(tzinfo=None)
    orc.write_table(pa.table({"id": [1], "at": [clock], "s": [{"at": clock}]}), str(tmp_path / "a.orc"))
    orc.write_table(pa.table({"id": [1], "name": ["x"]}), str(tmp_path / "b.orc"))
    zones: Any = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]  # a session has a JVM
    before = zones.getDefault()
    try:
        zones.setDefault(zones.getTimeZone(zone))
        with pytest.raises(BadInputError, match=rf"times of orc.*{zone}.*UTC.*-Duser.timezone=UTC"):
            apply(spark, tmp_path / "a.orc", format="orc")
        apply(spark, tmp_path / "b.orc", "no_times", format="orc")
        # Of the same rules under another name.
        zones.setDefault(zones.getTimeZone("Etc/UTC"))
        apply(spark, tmp_path / "a.orc", "orc_times", format="orc")
    finally:
        zones.setDefault(before)
    assert flow(spark, tmp_path, "orc_times").rows()[1][0] == DAY

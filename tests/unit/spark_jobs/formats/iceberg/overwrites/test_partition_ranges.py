"""A partition's range has all of its values, and none of another partition; PyIceberg's transforms are the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import DateType, LongType, TimestampType, TimestamptzType
from pyspark.sql import types

from airflow_lake_provider.spark_jobs.formats.iceberg.overwrites.partition_ranges import range_of

# From the year 2 to 9998.
DAYS = st.integers(-718_000, 2_930_000)
MICROSECONDS = st.integers(-718_000 * 86_400_000_000, 2_930_000 * 86_400_000_000)
CASES: dict[str, tuple[str, Any, Any, types.DataType, st.SearchStrategy[int]]] = {
    "number": ("identity", IdentityTransform(), LongType(), types.LongType(), st.integers(-(2**63), 2**63 - 1)),
    "date": ("identity", IdentityTransform(), DateType(), types.DateType(), DAYS),
    **{
        f"{name} of {kind}": (name, transform, source, spark, values)
        for name, transform in (("day", DayTransform()), ("month", MonthTransform()), ("year", YearTransform()))
        for kind, source, spark, values in (
            ("date", DateType(), types.DateType(), DAYS),
            ("time", TimestamptzType(), types.TimestampType(), MICROSECONDS),
            ("time without a zone", TimestampType(), types.TimestampNTZType(), MICROSECONDS),
        )
    },
    "hour": ("hour", HourTransform(), TimestamptzType(), types.TimestampType(), MICROSECONDS),
}


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
def test_the_range_of_a_partition_is_what_the_transform_maps_to_it(case: str, data: st.DataObject) -> None:
    name, transform, source, spark, values = CASES[case]
    partition_of = transform.transform(source)
    value = data.draw(values)
    partition = partition_of(value)
    found = range_of(name, spark, partition)
    assert found is not None
    low, high = map(int, found)
    assert low <= value <= high
    assert (partition_of(low), partition_of(high)) == (partition, partition)
    if name != "identity":
        assert partition_of(low - 1) < partition < partition_of(high + 1)


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("bucket[4]", types.LongType(), 3),
        ("truncate[2]", types.StringType(), "ab"),
        ("year", types.DateType(), 10_000),
        ("identity", types.BooleanType(), True),
        ("identity", types.DoubleType(), 1.5),
    ],
)
def test_no_range_is_told_where_it_would_not_be_sure(name: str, kind: types.DataType, value: Any) -> None:
    assert range_of(name, kind, value) is None

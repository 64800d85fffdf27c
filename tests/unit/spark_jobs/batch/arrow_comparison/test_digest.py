"""Digests of Arrow's values are equal just where values of Python are, NaN and zeros of both signs included."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.spark_jobs.batch.arrow_comparison.digest import digests, has_digest

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.decimal128(38, 2): st.decimals(-(10**35), 10**35, places=2),
    pa.string(): st.text(max_size=40),
    # Of zeros, as behind the end of a text; and longer than many words.
    pa.binary(): st.binary(max_size=70) | st.integers(0, 20).map(bytes),
}
ROWS = st.fixed_dictionaries({kind: st.none() | values for kind, values in KINDS.items()})


def canonical(value: Any) -> Any:
    """Return what is equal for values that a load takes for the same."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else (type(value), value)


@given(st.lists(ROWS, min_size=2, max_size=12), st.integers(0, 11))
def test_rows_have_one_digest_just_where_they_are_equal(rows: list[dict[pa.DataType, Any]], repeated: int) -> None:
    rows = [*rows, rows[repeated % len(rows)]]
    columns = [pa.array([row[kind] for row in rows], kind) for kind in KINDS]
    of_rows = digests(columns, len(rows)).tolist()
    stored = [tuple(canonical(value) for value in row) for row in zip(*(c.to_pylist() for c in columns), strict=True)]
    # The zeros are equal, and hash alike in Python.
    assert len(set(of_rows)) == len(set(stored))
    assert sorted(Counter(of_rows).values()) == sorted(Counter(stored).values())
    for begin in range(len(rows)):
        assert digests([column.slice(begin) for column in columns], len(rows) - begin).tolist() == of_rows[begin:]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_place_of_a_value_and_of_null_is_told(kind: pa.DataType) -> None:
    values: list[Any] = [True, 1, 1.5, date(2026, 1, 1), datetime(2026, 1, 1), Decimal(1), "a", b"a"]  # noqa: DTZ001  # without a zone
    value = next(each for each in values if _is_of(each, kind))
    pairs = [(value, None), (None, value), (None, None), (value, value)]
    assert len(set(digests([pa.array(side, kind) for side in zip(*pairs, strict=True)], 4).tolist())) == 4


def _is_of(value: Any, kind: pa.DataType) -> bool:
    try:
        return type(pa.array([value], kind)[0].as_py()) is type(value) or pa.types.is_timestamp(kind)
    except (pa.ArrowException, TypeError):
        return False


def test_many_rows_and_many_small_numbers_are_told_apart() -> None:
    left = pa.array([number for number in range(300) for _ in range(300)], pa.int32())
    right = pa.array([number for _ in range(300) for number in range(300)], pa.int32())
    assert len(set(digests([left, right], 90_000).tolist())) == 90_000


@pytest.mark.parametrize("size", range(33))
def test_each_byte_of_a_text_decides(size: int) -> None:
    text = bytes(range(1, size + 1))
    others = [text[:place] + b"\0" + text[place + 1 :] for place in range(size)]
    texts = [text, text + b"\0", *others]
    assert len(set(digests([pa.array([b"before", *texts]).slice(1)], len(texts)).tolist())) == len(texts)


@pytest.mark.parametrize(("kind", "large"), [(pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())])
def test_texts_that_spark_sends_with_large_offsets_have_the_digests_of_files(
    kind: pa.DataType, large: pa.DataType
) -> None:
    texts = pa.array(["before", None, "", "a", "longer than eight bytes"]).cast(kind)
    for begin in range(len(texts)):
        rows = len(texts) - begin
        of_rows = digests([texts.slice(begin)], rows).tolist()
        assert digests([texts.cast(large).slice(begin)], rows).tolist() == of_rows


def test_nested_and_unsigned_values_have_none() -> None:
    kinds = [pa.list_(pa.int32()), pa.struct([("x", pa.int32())]), pa.uint32(), pa.large_string(), pa.time64("us")]
    assert not any(map(has_digest, [*kinds, pa.dictionary(pa.int32(), pa.string()), pa.decimal256(40, 2)]))
    assert all(map(has_digest, KINDS))

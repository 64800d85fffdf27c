"""Deletion vectors against pyroaring, which is the C library behind most readers."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from airflow_lake_provider.spark_jobs.formats.iceberg.commits.write_deletes import deletion_vector

sparse = st.lists(st.integers(0, 2**40), unique=True, min_size=1, max_size=200)
dense = st.builds(
    lambda start, length, step: list(range(start, start + length * step, step)),
    st.integers(0, 2**33),
    st.integers(1, 9_000),
    st.integers(1, 3),
)


@settings(max_examples=150, deadline=None)
@given(positions=st.one_of(sparse, dense, st.tuples(sparse, dense).map(lambda both: list({*both[0], *both[1]}))))
def test_the_blob_holds_exactly_the_positions(positions: list[int]) -> None:
    blob = deletion_vector(np.array(positions, np.int64))
    (length,) = struct.unpack(">I", blob[:4])
    data = blob[4 : 4 + length]
    assert data[:4] == bytes.fromhex("d1d33964")
    assert struct.unpack(">I", blob[4 + length :]) == (zlib.crc32(data),)
    assert list(BitMap64.deserialize(data[4:])) == sorted(positions)


@pytest.mark.parametrize("count", [4_095, 4_096, 4_097, 65_536])
def test_a_container_changes_its_form_where_the_format_says(count: int) -> None:
    blob = deletion_vector(np.arange(count, dtype=np.int64))
    assert list(BitMap64.deserialize(blob[8:-4])) == list(range(count))

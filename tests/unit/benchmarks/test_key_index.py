"""The prototype of an index of keys, against a dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.index_experiment import synthetic_run
from tests.benchmarks.key_index import ABSENT, BLOCK_ENTRIES, KeyIndex, Run, hashed

KEYS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 40), min_size=1, max_size=400, unique=True)


def data_file(folder: Path, name: str, keys: list[int]) -> str:
    path = folder / name
    pq.write_table(pa.table({"id": pa.array(keys, pa.int64())}), path)
    return str(path)


@given(commits=st.lists(KEYS, min_size=1, max_size=4), asked=KEYS)
@settings(max_examples=25, deadline=None)
def test_a_lookup_gives_the_newest_place_of_each_key(commits: list[list[int]], asked: list[int]) -> None:
    with tempfile.TemporaryDirectory() as home:
        index = KeyIndex(Path(home))
        newest: dict[int, tuple[str, int]] = {}
        for number, keys in enumerate(commits):
            path = data_file(Path(home), f"{number}.parquet", keys)
            index.add([path])
            newest |= {key: (path, place) for place, key in enumerate(keys)}
        wanted = np.array([*asked, *commits[0]], dtype=np.int64)
        places, _ = index.lookup(wanted)
        here = places != ABSENT
        assert dict(zip(wanted[here].tolist(), index.told(places[here]), strict=True)) == {
            key: newest[key] for key in wanted.tolist() if key in newest
        }


def test_the_first_and_the_last_hash_of_a_block_are_found(tmp_path: Path) -> None:
    hashes = np.arange(BLOCK_ENTRIES * 3, dtype=np.uint64) * np.uint64(2)
    run = Run.write(tmp_path / "run", hashes[::-1], hashes[::-1] + np.uint64(1))
    edges = hashes[[0, BLOCK_ENTRIES - 1, BLOCK_ENTRIES, -1]]
    places, blocks = run.lookup(np.array([*edges, 5, 1 << 40], dtype=np.uint64))
    assert places.tolist() == [*(edges + np.uint64(1)), ABSENT, ABSENT]
    assert blocks == 3


def test_hashes_are_spread_over_all_of_their_range() -> None:
    upper_bits = hashed(np.arange(-50_000, 50_000)) >> np.uint64(60)
    assert np.bincount(upper_bits.astype(int), minlength=16).min() > 5_500


def test_a_run_without_a_table_is_in_order_and_is_looked_up(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run", 1024 * BLOCK_ENTRIES * 2)
    entries = np.fromfile(run.path, dtype=np.uint64).reshape(-1, 2)
    assert (entries[1:, 0] >= entries[:-1, 0]).all()
    places, _ = run.lookup(entries[[0, 70_000, -1], 0])
    assert places.tolist() == entries[[0, 70_000, -1], 1].tolist()

"""Pair the rows of two sides by their keys, and tell the pairs that are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from airflow_lake_provider.spark_jobs.batch.arrow_comparison.digest import Digests, digests

Places = NDArray[np.int64]


@dataclass(frozen=True)
class KeyHashes:
    """Hashes of the keys of rows, ascending.

    :param order: the row of each hash.
    :param is_alone: no other row has this hash, and the key has no NULL.
    """

    hashes: Digests
    order: Places
    is_alone: NDArray[np.bool_]

    @classmethod
    def of(cls, keys: Sequence[pa.Array], rows: int) -> KeyHashes:
        """Hash key columns of so many rows."""
        hashes = digests(keys, rows)
        order = np.argsort(hashes)
        hashes, alone = hashes[order], np.ones(rows, bool)
        repeated = hashes[1:] == hashes[:-1]
        alone[1:] &= ~repeated
        alone[:-1] &= ~repeated
        for column in keys:
            if column.null_count:
                alone &= ~np.asarray(column.is_null())[order]
        return cls(hashes, order, alone)

    def pairs(self, other: KeyHashes) -> tuple[Places, Places]:
        """Return the rows that have the same hash, each the only one of its side: ours, and those of the other."""
        if not len(self.hashes):
            return self.order, self.order
        places = np.searchsorted(self.hashes, other.hashes)
        places[places == len(self.hashes)] = 0
        is_pair = (self.hashes[places] == other.hashes) & self.is_alone[places] & other.is_alone
        return self.order[places[is_pair]], other.order[is_pair]


def is_equal(left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray]) -> NDArray[np.bool_]:
    """Tell of each row whether all columns are equal: NULL to NULL, NaN to NaN and -0.0 to 0.0."""
    equal = reduce(pc.and_, (_is_equal(*columns) for columns in zip(left, right, strict=True)))
    of_rows: NDArray[np.bool_] = equal.to_numpy()
    return of_rows


def _is_equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    equal = pc.equal(left, right)
    if equal.null_count:
        equal = pc.or_(equal.fill_null(False), pc.and_(left.is_null(), right.is_null()))
    if pa.types.is_floating(left.type):
        both_nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
        equal = pc.or_(equal, both_nan.fill_null(False))
    return equal

"""Count the values of float columns as Iceberg does, which Parquet's own statistics do not.

Iceberg counts NaN apart and leaves it out of bounds. Its bounds tell -0.0 from 0.0. Elements of lists and maps have no
metrics.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import id_of


@dataclass
class FloatMetrics:
    """Metrics of one column, in one file; bounds are in Iceberg's single-value serialization, as hexadecimal text.

    :param name: with the names of the structs that it is in.
    :param values: nulls and NaN included.
    :param nulls: with those of the structs that it is in.
    """

    name: str
    values: int = 0
    nulls: int = 0
    nans: int = 0
    lower: str | None = None
    upper: str | None = None


@dataclass
class _Bounds:
    metrics: FloatMetrics
    path: tuple[int, ...]
    is_single: bool
    lower: float = np.inf
    upper: float = -np.inf

    def add(self, batch: pa.RecordBatch) -> None:
        first, *inner = self.path
        column = batch.column(first)
        values = pc.struct_field(column, inner) if inner else column
        self.metrics.values += len(values)
        self.metrics.nulls += values.null_count
        numbers = values.drop_null().to_numpy(zero_copy_only=False)
        is_nan = np.isnan(numbers)
        nans = int(is_nan.sum())
        self.metrics.nans += nans
        self._widen(numbers[~is_nan] if nans else numbers)

    def _widen(self, numbers: NDArray[Any]) -> None:
        if not numbers.size:
            return
        lower, upper = float(numbers.min()), float(numbers.max())
        if lower == 0 or upper == 0:
            signs = np.signbit(numbers[numbers == 0])
            lower = (-0.0 if signs.any() else 0.0) if lower == 0 else lower
            upper = (-0.0 if signs.all() else 0.0) if upper == 0 else upper
        # Equal zeros are told apart by their signs.
        self.lower = min(self.lower, lower, key=_order)
        self.upper = max(self.upper, upper, key=_order)
        self.metrics.lower, self.metrics.upper = self._text(self.lower), self._text(self.upper)

    def _text(self, value: float) -> str:
        return struct.pack("<f" if self.is_single else "<d", value).hex().upper()


def _order(value: float) -> tuple[float, bool]:
    return value, not np.signbit(value)


@dataclass
class FileFloats:
    """Metrics of all float columns, in one file.

    :param schema: of the file.
    """

    schema: pa.Schema
    _columns: dict[int, _Bounds] = field(init=False)

    def __post_init__(self) -> None:
        self._columns = dict(_floats(list(self.schema), (), ""))

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        for column in self._columns.values():
            column.add(batch)

    def by_id(self) -> dict[int, FloatMetrics]:
        """Return metrics by field id."""
        return {id_: column.metrics for id_, column in self._columns.items()}


def _floats(fields: Sequence[pa.Field], path: tuple[int, ...], around: str) -> Iterator[tuple[int, _Bounds]]:
    for place, each in enumerate(fields):
        here, name = (*path, place), f"{around}{each.name}"
        if pa.types.is_struct(each.type):
            yield from _floats([each.type.field(inner) for inner in range(each.type.num_fields)], here, f"{name}.")
        elif pa.types.is_floating(each.type):
            yield id_of(each) or 0, _Bounds(FloatMetrics(name), here, each.type == pa.float32())

"""Estimated seconds of each strategy for a batch, from metadata alone.

An estimate compares strategies; it foretells no clock. Its constants were fitted to a sweep of table sizes by batch
sizes, on two cores, by ``scripts/bench strategy-costs``, which prints how far each cell is off (docs/benchmarks.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_lake_provider.contracts.upsert_strategy import UpsertStrategy


@dataclass(frozen=True, kw_only=True)
class UpsertSize:
    """Numbers of an upsert that its metadata tells.

    :param keys: of the batch.
    :param files: data files of the table.
    :param candidate_rows: of each data file that may hold a key, its rows, deleted or not.
    :param cores: that work at a time.
    :param is_number_key: whether the key is one column of whole numbers.
    :param format_version: of the table.
    """

    keys: int
    files: int
    candidate_rows: Sequence[int]
    cores: int
    is_number_key: bool = True
    format_version: int = 3

    @property
    def rows(self) -> int:
        """Rows that are looked at."""
        return sum(self.candidate_rows)

    @property
    def rewritten_rows(self) -> float:
        """Rows of the files that hold a key, where the keys are spread over the candidates by chance."""
        share = min(1.0, self.keys / max(1, self.rows))
        return sum(rows * (1 - (1 - share) ** rows) for rows in self.candidate_rows)

    @property
    def at_a_time(self) -> int:
        """Cores that are busy: a file of a usual size is read by one."""
        return max(1, min(self.cores, len(self.candidate_rows)))


@dataclass(frozen=True, kw_only=True)
class StrategyCost:
    """Constants of one strategy.

    :param fixed: seconds of an upsert of nothing.
    :param key: seconds for each key of the batch.
    :param candidate_row: core seconds for each row of a file that may hold a key.
    :param rewritten_row: core seconds for each row of a file that holds one.
    :param other_key: times as long where the key is text, or several columns.
    :param older_version: times as long where the table is of format version 2 or older.
    """

    fixed: float
    key: float
    candidate_row: float
    rewritten_row: float = 0.0
    other_key: float = 1.0
    older_version: float = 1.0

    def seconds(self, size: UpsertSize) -> float:
        """Return the estimate."""
        by_rows = self.candidate_row * size.rows + self.rewritten_row * size.rewritten_rows
        seconds = self.fixed + self.key * size.keys + by_rows / size.at_a_time
        seconds *= 1.0 if size.is_number_key else self.other_key
        return seconds * (1.0 if size.format_version >= 3 else self.older_version)


# Fitted on 2026-11-25 to tables of 1 M to 100 M rows (docs/benchmarks/strategy-costs-2026-11-25.json), the prices of
# other keys and older versions to tables of 10 M (strategy-costs-kinds-2026-11-25.json).
_POSITIONS = StrategyCost(fixed=0.44, key=2.6e-6, candidate_row=3.1e-8, other_key=1.46, older_version=0.82)
COSTS: Mapping[UpsertStrategy, StrategyCost] = {
    UpsertStrategy.POSITIONS: _POSITIONS,
    UpsertStrategy.COPY_ON_WRITE: replace(_POSITIONS, rewritten_row=7.7e-7, other_key=1.4, older_version=0.83),
    UpsertStrategy.MERGE: StrategyCost(
        fixed=0.44, key=1.9e-6, candidate_row=4.8e-7, other_key=1.39, older_version=1.08
    ),
}


def described(size: UpsertSize, chosen: UpsertStrategy, others: Sequence[UpsertStrategy]) -> str:
    """Return a sentence on what was compared."""
    files = f"{len(size.candidate_rows)} files of {size.files}, {_count(size.rows)} candidate rows"
    compared = [f"{other.value} about {_seconds(other, size)}" for other in others]
    return f"{files}, about {_seconds(chosen, size)}; {', '.join(compared)}"


def _seconds(strategy: UpsertStrategy, size: UpsertSize) -> str:
    return f"{COSTS[strategy].seconds(size):.1f} s"


def _count(rows: int) -> str:
    return f"{rows / 1e6:.1f} M" if rows >= 1_000_000 else f"{rows:,}"

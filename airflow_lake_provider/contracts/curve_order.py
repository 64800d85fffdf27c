"""Order of rows along a curve, which a compaction notes on its table, since files do not show it: ``lake.curve-order``.

Sorted files show by their lowest and highest values whether they are in order. Along a curve through several columns
they do not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionStrategy

CURVE_ORDER = "lake.curve-order"


@dataclass(frozen=True, kw_only=True)
class CurveOrder:
    """Rows that a compaction has put in order along a curve.

    :param by: curve and columns: ``hilbert(day, id)``.
    :param rows: that it has written.
    :param snapshot: id of its last commit, as text.
    :param added_since: rows that later commits have added, as far as the metadata knows.
    """

    by: str
    rows: int
    snapshot: str
    added_since: int = 0

    def as_property(self) -> str:
        """Return it as the table's property has it."""
        return json.dumps({name: value for name, value in asdict(self).items() if name != "added_since"})

    @classmethod
    def of_property(cls, text: str | None) -> CurveOrder | None:
        """Read a property, which strangers may have written; None of one that says nothing."""
        try:
            given = json.loads(text or "null")
            return cls(by=str(given["by"]), rows=max(0, int(given["rows"])), snapshot=str(given["snapshot"]))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None


def curve_of(strategy: CompactionStrategy, columns: Sequence[str]) -> str:
    """Return a curve and its columns in words."""
    return f"{strategy.value}({', '.join(columns)})"

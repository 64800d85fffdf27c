"""Captured tables of the shop: their events from the first snapshot to the last batch, and the rows of their server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from tests.shop_oracle import SHOP, keys_of, oracle, read_lines
from tests.spark.sources.debezium.shop_events import ddl_of

Row = dict[str, Any]
_LATER = SHOP / "later"


@dataclass(frozen=True)
class Captured:
    """The events of one table, and where its server's rows are.

    :param parts: files of lines, in the order of their capture.
    :param folder: with ``oracle/``.
    :param defaults: columns that the source added with a default, and the default then; no event tells of rows that
        were there.
    :param dropped: columns that the source dropped.
    """

    table: str
    parts: tuple[Path, ...]
    folder: Path
    defaults: Mapping[str, Any] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()

    def lines(self) -> tuple[Row, ...]:
        """All records of the table, tombstones included, as they were captured."""
        return _lines(self.parts, self.table)

    @property
    def keys(self) -> tuple[str, ...]:
        """Its primary key."""
        return tuple(keys_of(self.table, self.folder))

    @property
    def ddl(self) -> str:
        """Its columns after the last change of its schema, in Spark's types."""
        return ddl_of(self.table, self.folder)

    def refuse_other_rows(self, found: list[Row], told: str) -> None:
        """Compare all rows with the server's.

        :param told: what the rows are of.
        :raises AssertionError: a row is missing, too many, or another.
        """
        keyed = {tuple(row[key] for key in self.keys): row for row in found}
        assert len(keyed) == len(found), f"{told}: {len(found) - len(keyed)} rows have the key of another"
        expected = oracle(self.table, self.folder)
        wrong = [key for key in keyed.keys() | expected if not self._is_same(keyed.get(key), expected.get(key))]
        assert not wrong, (
            f"{told}: {len(wrong)} rows differ, one is {keyed.get(wrong[0])}, the server's {expected.get(wrong[0])}"
        )

    def _is_same(self, row: Row | None, expected: Row | None) -> bool:
        if row is None or expected is None:
            return False
        untold = {name for name, then in self.defaults.items() if row[name] is None and expected[name] == then}
        return {**expected, **dict.fromkeys(untold)} == row


_CRASHES = SHOP / "redelivered"
# Small, of a connector that was killed; the others are of one that ran through.
SMALL = Captured(
    "orders",
    tuple(sorted(_CRASHES.glob("part-*.jsonl.gz"))),
    _CRASHES,
    {"currency": "EUR", "channel": "web", "gift_wrap": False},
    ("item_count",),
)


# Most of the time that a table takes before its first delivery, for each of its ways.
@cache
def _lines(parts: tuple[Path, ...], table: str) -> tuple[Row, ...]:
    records = (record for part in parts for record in read_lines(part))
    return tuple(record for record in records if record["topic"].endswith(f".{table}"))


_FIRST = tuple(sorted(SHOP.glob("part-*.jsonl.gz")))


def _later(table: str, before: tuple[Path, ...] = ()) -> tuple[Path, ...]:
    return (*before, _LATER / f"{table}.jsonl.xz")


TABLES = (
    SMALL,
    Captured("products", _later("products", _FIRST), _LATER, {"eco_score": 50}, ("legacy_code",)),
    Captured("orders", _later("orders", _FIRST), _LATER, SMALL.defaults, SMALL.dropped),
    Captured("order_items", _later("order_items", _FIRST), _LATER, {"tax_rate": Decimal("0.2000")}),
    Captured("customers", _later("customers"), _LATER),
    Captured("refunds", _later("refunds"), _LATER),
)

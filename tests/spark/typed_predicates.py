"""Random predicates over key columns, in SQL and as Python functions over the keys of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.spark.key_types import KeyType

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Predicate:
    """A ``where`` and what it means.

    :param holds: of the keys and the value of a row.
    """

    sql: str
    holds: Callable[[Key, int], bool]


def drawn_predicate(random: Random, kinds: Sequence[KeyType]) -> Predicate:
    """Draw one about a key column, sometimes with a condition on the value."""
    place = random.randrange(len(kinds))
    kind = kinds[place]
    low, high = sorted((random.choice(kind.values), random.choice(kind.values)))
    column, first, last = f"k{place}", kind.literal(low), kind.literal(high)
    forms = [
        Predicate(f"{column} = {first}", lambda key, _: bool(key[place] == low)),
        Predicate(f"{column} IN ({first}, {last})", lambda key, _: key[place] in (low, high)),
        Predicate(f"NOT ({column} = {first})", lambda key, _: bool(key[place] != low)),
    ]
    if kind.name != "BOOLEAN":
        forms += [
            Predicate(f"{column} <= {last}", lambda key, _: bool(key[place] <= high)),
            Predicate(f"{column} > {first}", lambda key, _: bool(key[place] > low)),
            Predicate(f"{column} >= {first} AND {column} < {last}", lambda key, _: bool(low <= key[place] < high)),
        ]
    chosen = random.choice(forms)
    bound = random.randrange(50)
    return random.choice(
        [
            chosen,
            Predicate(f"({chosen.sql}) AND v < {bound}", lambda key, v: chosen.holds(key, v) and v < bound),
            Predicate(f"({chosen.sql}) OR v = {bound}", lambda key, v: chosen.holds(key, v) or v == bound),
        ]
    )

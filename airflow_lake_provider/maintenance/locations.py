"""Tables whose locations overlap: one look at all of them, in one order, without comparing each with each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """A location of a table that is, or lies in, one of another table.

    :param table: whose location lies inside.
    :param location: that lies inside.
    :param other: the nearest table around it.
    :param around: its location.
    """

    table: str
    location: str
    other: str
    around: str

    def __str__(self) -> str:
        what = "is that of" if self.location == self.around else "lies in that of"
        place = self.around if self.location == self.around else f"{self.location} in {self.around}"
        return f"the location of {self.table} {what} {self.other}: {place}"


def overlapping_locations(locations: Mapping[str, Iterable[str]]) -> list[Overlap]:
    """Return the overlaps of tables, one for each location that lies in another table's.

    :param locations: of each table, in the one spelling in which they are compared, without ``/`` at the end.
    """
    # By their parts: else "a-b" would stand between "a" and "a/b".
    placed = sorted({(tuple(each.split("/")), table) for table, own in locations.items() for each in own})
    overlaps: list[Overlap] = []
    around: list[tuple[tuple[str, ...], str]] = []
    for parts, table in placed:
        while around and parts[: len(around[-1][0])] != around[-1][0]:
            around.pop()
        other = next((each for each in reversed(around) if each[1] != table), None)
        if other is not None:
            overlaps.append(Overlap(table=table, location="/".join(parts), other=other[1], around="/".join(other[0])))
        around.append((parts, table))
    return overlaps

"""Folders of the tables of a catalog, and which of them overlap: a file there may be another table's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from airflow_lake_provider.contracts.file_locations import is_below, normalised_folder

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, kw_only=True)
class TableLocations:
    """Folders of a table, as its metadata says them.

    :param name: whole name.
    :param folders: where its files lie, or may be written; none where nobody knows.
    :param error: why the table cannot be read; its folders are then those of its metadata file, if that is known.
    :param uuid: its identity; empty where nobody asks.
    """

    name: str
    folders: tuple[str, ...] = ()
    error: str | None = None
    uuid: str = ""

    @cached_property
    def parts(self) -> tuple[tuple[str, str, str], ...]:
        """Store, authority and path of each folder; an empty store or authority may be any."""
        return tuple(_parts(folder) for folder in self.folders)


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """A folder of a table that contains a folder of another one, lies in it, or is the same.

    :param table: its name.
    :param folder: of the table.
    :param other: name of the other table.
    :param other_folder: of the other table.
    :param other_error: why that one cannot be read.
    :param is_same_table: both are entries of one table, whose files each of them reads.
    """

    table: str
    folder: str
    other: str
    other_folder: str
    other_error: str | None = None
    is_same_table: bool = False

    def __str__(self) -> str:
        broken = "" if self.other_error is None else ", which cannot be read"
        return f"{self.folder} overlaps {self.other_folder} of {self.other}{broken}"

    @property
    def remedy(self) -> str:
        """Return the advice to a person, as a part of a sentence."""
        return "drop one of them without PURGE" if self.is_same_table else "give each table a location of its own"

    def seen_by(self, table: str) -> Overlap:
        """Return it as one of the two tables sees it, whose other one is then the neighbour.

        :param table: its name.
        """
        if table == self.table:
            return self
        return replace(
            self,
            table=self.other,
            folder=self.other_folder,
            other=self.table,
            other_folder=self.folder,
            other_error=None,
        )


def overlapping_locations(table: TableLocations, others: Iterable[TableLocations]) -> list[Overlap]:
    """Return the folders of a table that overlap those of other tables.

    :param others: all tables of the catalog; an entry of the table's own name is left out.
    """
    return [
        Overlap(table=table.name, folder=folder, other=other.name, other_folder=theirs, other_error=other.error)
        for other in others
        if other.name != table.name
        for folder, mine in zip(table.folders, table.parts, strict=True)
        for theirs, part in zip(other.folders, other.parts, strict=True)
        if _meet(mine, part)
    ]


def overlaps_of_all(tables: Iterable[TableLocations]) -> list[Overlap]:
    """Return the overlaps of tables with another entry of the same one, or else with the nearest one around each."""
    # By parts of paths: else "a-b" would stand between "a" and "a/b".
    placed = sorted(
        (
            (tuple(part[2].rstrip("/").split("/")), table.name, place, part[:2], table)
            for table in tables
            for place, part in enumerate(table.parts)
        ),
        key=lambda each: each[:3],
    )
    overlaps: list[Overlap] = []
    around: list[tuple[tuple[str, ...], tuple[str, str], str, TableLocations]] = []
    entries: dict[tuple[object, ...], str] = {}
    for path, name, place, store, table in placed:
        folder = table.folders[place]
        while around and path[: len(around[-1][0])] != around[-1][0]:
            around.pop()
        twin = entries.setdefault((table.uuid, path, store), name) if table.uuid else name
        if twin != name:
            overlaps.append(Overlap(table=name, folder=folder, other=twin, other_folder=folder, is_same_table=True))
        for _, its_store, outer, other in reversed(around if twin == name else ()):
            if other.name != name and _may_be_one(store, its_store):
                overlaps.append(Overlap(table=name, folder=folder, other=other.name, other_folder=outer))
                break
        around.append((path, store, folder, table))
    return overlaps


def unknown_locations(table: TableLocations, others: Iterable[TableLocations]) -> Iterator[str]:
    """Yield the other tables that cannot be read and of which no folder is known, each with its error."""
    for other in others:
        if other.name != table.name and not other.folders:
            yield f"{other.name} ({other.error})"


def _meet(mine: tuple[str, str, str], theirs: tuple[str, str, str]) -> bool:
    is_nested = is_below(mine[2], theirs[2]) or is_below(theirs[2], mine[2])
    return is_nested and _may_be_one(mine[:2], theirs[:2])


def _may_be_one(mine: tuple[str, str], theirs: tuple[str, str]) -> bool:
    """Tell whether two stores may be one: an empty name may be any."""
    return all(not here or not there or here == there for here, there in zip(mine, theirs, strict=True))


def _parts(folder: str) -> tuple[str, str, str]:
    store, _, rest = normalised_folder(folder).partition("://")
    authority, _, path = rest.partition("/")
    # A path alone is on Hadoop's default file system, of which a worker knows nothing.
    return (store if _SCHEME.match(folder) else ""), authority, f"/{path}"

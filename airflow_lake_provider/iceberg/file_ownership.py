"""Tell whose a file is by where it lies: the table's own, another table's, or neither. Standard library only.

Whoever may alter a table sets its location and its declared paths. So a path that reaches around the table, such as
the warehouse or the root of a file system, proves nothing, and another table's location wins where it is deeper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from airflow_lake_provider.contracts.file_locations import is_below, is_root, normalised, normalised_folder

# Iceberg spec, table properties; the last two are names that older releases wrote to.
DECLARED_PATHS = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
OUTSIDE = ""
# Of a path, as Java and Python read it. No writer spells one so, and it may be a live file by another name.
AROUND = r"/\.{1,2}/"


@dataclass(frozen=True, kw_only=True)
class TableLocation:
    """Locations that a table says of itself.

    :param location: of its metadata.
    :param declared: values of its :data:`DECLARED_PATHS`.
    :param uuid: its identity.
    :param metadata_file: location of its current metadata file.
    """

    name: str
    location: str
    declared: tuple[str, ...] = ()
    uuid: str = ""
    metadata_file: str = ""

    @cached_property
    def context(self) -> str:
        """Folder by which Iceberg's object storage layout tells the tables of one path apart."""
        return "/" + "/".join(self.location.rstrip("/").split("/")[-2:]) + "/"


def declared_paths(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths that a table's properties declare."""
    return tuple(properties[name] for name in DECLARED_PATHS if properties.get(name))


@dataclass(frozen=True, kw_only=True)
class FileOwners:
    """Whose the files of a table's metadata are.

    :param table: the table.
    :param earlier: where it lay before, as its own earlier metadata says.
    :param others: the tables that were looked at.
    :param warehouse: of the catalog; None where it has none of its own.
    :param default_root: see :func:`normalised`.
    """

    table: TableLocation
    earlier: tuple[TableLocation, ...] = ()
    others: tuple[TableLocation, ...] = ()
    warehouse: str | None = None
    default_root: str = "file:///"

    def owner_of(self, location: str) -> str:
        """Return the name of the table that a file belongs to; :data:`OUTSIDE` for none that was looked at."""
        # No FileIO decodes a path. One that leaves the table when something on the way does is not trusted.
        owners = {self._owner(self._normalised(location), location, self._own_roots)}
        if (decoded := unquote(location)) != location:
            # A folder may have an escape in its name, and the files in it have it, too.
            owners.add(self._owner(self._normalised(decoded), location, (*self._own_roots, *self._decoded_roots)))
        foreign = sorted(owner for owner in owners if owner not in (OUTSIDE, self.table.name))
        if foreign:
            return foreign[0]
        return OUTSIDE if OUTSIDE in owners or re.search(AROUND, location) else self.table.name

    def twins(self) -> Iterator[tuple[str, str]]:
        """Yield the tables that are this one under another name, each with what they have in common."""
        mine = self._folder(self.table.location)
        for other in self.others:
            if other.uuid and other.uuid == self.table.uuid:
                yield other.name, "table uuid"
            elif self._folder(other.location) == mine:
                yield other.name, "location"
            elif other.metadata_file and other.metadata_file == self.table.metadata_file:
                yield other.name, "metadata file"

    def _owner(self, spelled: str, location: str, own_roots: Iterable[str]) -> str:
        mine = self._deepest(spelled, own_roots)
        for folder in _around(spelled):
            if len(folder) < mine:
                break
            # The tables of one object storage path are told apart by the folder of each.
            theirs = [
                name
                for name, context in self._foreign_roots.get(folder, ())
                if len(folder) > mine or not context or self.table.context not in location
            ]
            if theirs:
                return theirs[-1]
        return self.table.name if mine else OUTSIDE

    @staticmethod
    def _deepest(spelled: str, roots: Iterable[str]) -> int:
        # A path that a table declares and that is the file itself is no folder around it.
        return max((len(root) for root in roots if spelled != root and is_below(spelled, root)), default=0)

    @cached_property
    def _own_roots(self) -> tuple[str, ...]:
        main = self._folder(self.table.location)
        roots = [main, *(self._folder(each.location) for each in self.earlier)]
        declared = [self._folder(path) for each in (self.table, *self.earlier) for path in each.declared]
        kept = [root for root in roots if not self._is_too_wide(root)]
        return (*kept, *(root for root in declared if not self._is_too_wide(root) and not self._reaches(root, main)))

    @cached_property
    def _decoded_roots(self) -> tuple[str, ...]:
        """Return the own roots with their escapes decoded, but for those that then lead elsewhere."""
        main = self._folder(self.table.location)
        decoded = (unquote(root) for root in self._own_roots if unquote(root) != root)
        roots = (self._folder(root) for root in decoded if not re.search(AROUND, f"{root}/"))
        return tuple(root for root in roots if not self._is_too_wide(root) and not self._reaches(root, main))

    def _is_too_wide(self, root: str) -> bool:
        return is_root(root) or (self.warehouse is not None and is_below(self._folder(self.warehouse), root))

    @staticmethod
    def _reaches(root: str, inner: str) -> bool:
        return root != inner and is_below(inner, root)

    @cached_property
    def _foreign_roots(self) -> dict[str, list[tuple[str, str]]]:
        """Return, by root, the name of each table and, for a declared path, the folder of the table in it."""
        roots: dict[str, list[tuple[str, str]]] = {}
        for other in self.others:
            for path, context in ((other.location, ""), *((each, other.context) for each in other.declared)):
                if not self._is_too_wide(root := self._folder(path)):
                    roots.setdefault(root, []).append((other.name, context))
        return roots

    def _normalised(self, location: str) -> str:
        return normalised(location, self.default_root)

    def _folder(self, location: str) -> str:
        return normalised_folder(location, self.default_root)


def _around(location: str) -> Iterator[str]:
    """Yield a normalised location, and the folders that it lies in, the deepest first."""
    while location:
        yield location
        location = location.rpartition("/")[0]

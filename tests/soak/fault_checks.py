"""Checks of a table after every fault, by PyIceberg and plain Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from airflow_lake_provider.iceberg.orphan_files import QUARANTINE
from tests.soak.batches import Model
from tests.soak.lake import Lake


@dataclass(frozen=True)
class Seen:
    """A table at one moment.

    :param reached: files that a retained snapshot reaches, and the metadata itself.
    :param there: files below its location.
    :param logged: older metadata files that the newest lists, which Iceberg keeps.
    :param refs: names of its branches and tags.
    """

    rows: Model
    reached: frozenset[str] = frozenset()
    there: frozenset[str] = frozenset()
    logged: frozenset[str] = frozenset()
    refs: frozenset[str] = frozenset()

    @property
    def unreached(self) -> frozenset[str]:
        """Files that nothing reaches."""
        return self.there - self.reached - self.logged


@dataclass
class Checks:
    """Looks at tables; manifests and their lists never change, so each is read once."""

    lake: Lake
    read: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._catalog = self.lake.catalog()

    def look(self, name: str) -> Seen:
        """Read a table whole.

        :raises AssertionError: a live file is missing, a key is there twice, or a run was applied twice.
        """
        try:
            table = self._catalog.load_table(name)
        except NoSuchTableError:
            return Seen({})
        there = frozenset(str(path) for path in Path(_path(table.location())).rglob("*") if path.is_file())
        reached = self._reached(table)
        assert reached <= there, f"{name}: live files are missing: {sorted(reached - there)}"
        _refuse_applied_twice(table)
        logged = frozenset(_path(entry.metadata_file) for entry in table.metadata.metadata_log)
        return Seen(rows_of(table), reached, there, logged, frozenset(table.metadata.refs))

    def _reached(self, table: Table) -> frozenset[str]:
        found = {_path(table.metadata_location)}
        statistics = (*table.metadata.statistics, *table.metadata.partition_statistics)
        found |= {_path(each.statistics_path) for each in statistics}
        for snapshot in table.metadata.snapshots:
            if snapshot.manifest_list not in self.read:
                self.read[snapshot.manifest_list] = self._named_by(table, snapshot)
            found |= self.read[snapshot.manifest_list]
        return frozenset(found)

    def _named_by(self, table: Table, snapshot: Snapshot) -> frozenset[str]:
        named = {_path(snapshot.manifest_list)}
        for manifest in snapshot.manifests(table.io):
            path = manifest.manifest_path
            if path not in self.read:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                self.read[path] = frozenset(_path(entry.data_file.file_path) for entry in entries)
            named |= {_path(path), *self.read[path]}
        return frozenset(named)


def is_hidden(file: str) -> bool:
    """Tell whether Iceberg takes a file for hidden: by its name, or by that of the quarantine."""
    return Path(file).name.startswith(("_", ".")) or f"/{QUARANTINE}/" in file


def _path(location: str) -> str:
    return urlsplit(location).path


def _refuse_applied_twice(table: Table) -> None:
    history = ancestors_of(table.current_snapshot(), table.metadata)
    summaries = [snapshot.summary for snapshot in history if snapshot.summary is not None]
    keys = Counter(s["lake.run-key"] for s in summaries if s.operation is not Operation.REPLACE)
    twice = [key for key, number in keys.items() if key and number > 1]
    assert not twice, f"{table.name()}: runs were applied twice: {twice}"


def rows_of(table: Table) -> Model:
    """Return the rows by id.

    :raises AssertionError: a key is there twice.
    """
    head = table.current_snapshot()
    has_equality = (
        head is not None and head.summary is not None and head.summary["total-equality-deletes"] not in (None, "0")
    )
    found = _rows_without_equally_deleted(table) if has_equality else table.scan().to_arrow().to_pylist()
    rows: dict[int, Any] = {row["id"]: (row["name"], row["n"]) for row in found}
    assert len(rows) == len(found), f"{table.name()}: keys are there twice: {sorted(row['id'] for row in found)}"
    return rows


def _rows_without_equally_deleted(table: Table) -> list[dict[str, Any]]:
    """Apply position deletes and equality deletes of the column ``id``, which PyIceberg does not read."""
    head = table.current_snapshot()
    assert head is not None
    entries = [
        entry
        for manifest in head.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.status != ManifestEntryStatus.DELETED
    ]
    deleted_at: dict[int, int] = {}
    positions: set[tuple[str, int]] = set()
    for entry in entries:
        file = entry.data_file
        if file.content is DataFileContent.EQUALITY_DELETES:
            for id_ in pq.read_table(_path(file.file_path)).column("id").to_pylist():
                deleted_at[id_] = max(deleted_at.get(id_, 0), entry.sequence_number or 0)
        elif file.content is DataFileContent.POSITION_DELETES:
            content = pq.read_table(_path(file.file_path))
            pairs = zip(content.column("file_path").to_pylist(), content.column("pos").to_pylist(), strict=True)
            positions |= set(pairs)
    return [
        row
        for entry in entries
        if entry.data_file.content is DataFileContent.DATA
        for place, row in enumerate(pq.read_table(_path(entry.data_file.file_path)).to_pylist())
        if (entry.data_file.file_path, place) not in positions
        if deleted_at.get(row["id"], -1) <= (entry.sequence_number or 0)
    ]


def difference(rows: Model, wanted: Model) -> str:
    """Return the keys that differ, and how."""
    keys = sorted(key for key in rows.keys() | wanted.keys() if rows.get(key) != wanted.get(key))
    return "; ".join(f"key {key} is {rows.get(key)}, not {wanted.get(key)}" for key in keys)

"""Tables of metadata alone: metadata.json, a manifest list and manifests about files that are not there.

Manifests are written by PyIceberg. It has no writer for those of deletes, so its own is told to be one.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField

MIB = 1024**2
_SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", IntegerType()))
_BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"), spec_id=0)
# Of version 1 after its only field was dropped.
_VOID = PartitionSpec(PartitionField(2, 1000, VoidTransform(), "day"), spec_id=1)
_PLAIN = PartitionSpec(spec_id=0)
_PATH = 2147483546
_FILES = PyArrowFileIO()


@dataclass(frozen=True)
class MadeFile:
    """A data file.

    :param manifest: number of the manifest that lists it.
    :param snapshot: that added it; the head where 0.
    """

    bytes: int
    rows: int = 1000
    day: int = 0
    manifest: int = 0
    snapshot: int = 0


@dataclass(frozen=True)
class MadeDelete:
    """A delete file.

    :param kind: ``position``, ``vector`` or ``equality``.
    :param target: number of the data file it is on; None for all of its partition; -1 for one that is gone.
    """

    kind: str
    rows: int
    target: int | None = None
    day: int = 0


@dataclass(frozen=True, kw_only=True)
class MadeTable:
    """A table.

    :param ages: of its snapshots before ``now``, oldest first; each changes rows.
    :param sequence: number of the head; that of its snapshots where 0.
    :param summaries: entries of a snapshot's summary beside the totals, by its place.
    :param totals: of the head's summary in place of the true ones; None for no totals.
    :param is_dropped: whether deletes are of a later spec, whose only field is void.
    :param tags: names with the place of the snapshot that each is on.
    """

    files: Sequence[MadeFile]
    deletes: Sequence[MadeDelete] = ()
    ages: Sequence[timedelta] = tuple(timedelta(hours=hour) for hour in (5, 4, 3, 2, 1))
    sequence: int = 0
    version: int = 2
    is_partitioned: bool = True
    is_dropped: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    summaries: dict[int, dict[str, str]] = field(default_factory=dict)
    totals: dict[str, str] | None = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)

    def write(self, folder: Path, now: datetime) -> str:
        """Write its metadata below a folder, and return the location of metadata.json."""
        (folder / "metadata").mkdir(parents=True)
        snapshots = self._snapshots(folder, now)
        head = snapshots[-1] if snapshots else None
        refs = {name: {"snapshot-id": place + 1, "type": "tag"} for name, place in self.tags.items()}
        if head:
            write_list(folder, self._manifests(folder, head["snapshot-id"]), head, self.sequence)
            refs["main"] = {"snapshot-id": head["snapshot-id"], "type": "branch"}
        metadata: dict[str, Any] = {
            "format-version": self.version,
            "table-uuid": str(uuid.uuid4()),
            "location": f"file://{folder}",
            "last-sequence-number": self.sequence or len(snapshots),
            "last-updated-ms": _ms(now),
            "last-column-id": 2,
            "current-schema-id": 0,
            "schemas": [json.loads(_SCHEMA.model_dump_json())],
            "default-spec-id": int(self.is_dropped),
            "partition-specs": [json.loads(each.model_dump_json()) for each in self._specs],
            "last-partition-id": 1000,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": self.properties,
            "current-snapshot-id": head["snapshot-id"] if head else -1,
            "refs": refs,
            "snapshots": snapshots,
            "snapshot-log": [
                {"snapshot-id": each["snapshot-id"], "timestamp-ms": each["timestamp-ms"]} for each in snapshots
            ],
            "metadata-log": [],
            "next-row-id": 0,
        }
        if self.version == 1:
            metadata["schema"] = metadata["schemas"][0]
            metadata["partition-spec"] = metadata["partition-specs"][0]["fields"]
        file = folder / "metadata" / f"00001-{uuid.uuid4()}.metadata.json"
        file.write_text(json.dumps(metadata))
        return f"file://{file}"

    @property
    def _specs(self) -> list[PartitionSpec]:
        """Specs of the data, and of deletes where these have one of their own."""
        return [_BY_DAY if self.is_partitioned else _PLAIN, *([_VOID] if self.is_dropped else [])]

    def _snapshots(self, folder: Path, now: datetime) -> list[dict[str, Any]]:
        totals = self.true_totals() if self.totals is not None else {}
        last = len(self.ages) - 1
        return [
            {
                "snapshot-id": place + 1,
                **({"parent-snapshot-id": place} if place else {}),
                **({"sequence-number": self._sequence(place)} if self.version > 1 else {}),
                "timestamp-ms": _ms(now - age),
                "summary": {
                    "operation": "append",
                    "added-records": "1",
                    **totals,
                    **(self.totals or {} if place == last else {}),
                    **self.summaries.get(place, {}),
                },
                "manifest-list": f"file://{folder}/metadata/snap-{place + 1}.avro",
                "schema-id": 0,
            }
            for place, age in enumerate(self.ages)
        ]

    def _sequence(self, place: int) -> int:
        return (self.sequence or len(self.ages)) - len(self.ages) + place + 1

    def true_totals(self) -> dict[str, str]:
        """Return the totals of a summary as its writer counts them."""
        by_kind = {kind: [each for each in self.deletes if each.kind == kind] for kind in ("position", "vector")}
        positions = sum(each.rows for kind in by_kind.values() for each in kind)
        return {
            "total-data-files": str(len(self.files)),
            "total-files-size": str(sum(each.bytes for each in self.files) + 1000 * len(self.deletes)),
            "total-records": str(sum(each.rows for each in self.files)),
            "total-delete-files": str(len(self.deletes)),
            "total-position-deletes": str(positions),
            "total-equality-deletes": str(sum(each.rows for each in self.deletes if each.kind == "equality")),
        }

    def _manifests(self, folder: Path, snapshot: int) -> list[ManifestFile]:
        paths = [f"file://{folder}/data/{number}.parquet" for number in range(len(self.files))]
        of_data: dict[int, list[ManifestEntry]] = {}
        for path, file in zip(paths, self.files, strict=True):
            of_data.setdefault(file.manifest, []).append(
                self._entry(
                    file.snapshot or snapshot,
                    path,
                    file.day,
                    file.bytes,
                    file.rows,
                    DataFileContent.DATA,
                    FileFormat.PARQUET,
                )
            )
        of_deletes = [self._delete(snapshot, folder, number, paths) for number in range(len(self.deletes))]
        written = [
            self._manifest(folder, f"data-{number}", snapshot, entries, ManifestContent.DATA)
            for number, entries in of_data.items()
        ]
        if of_deletes:
            written.append(self._manifest(folder, "deletes", snapshot, of_deletes, ManifestContent.DELETES))
        return written

    def _delete(self, snapshot: int, folder: Path, number: int, paths: Sequence[str]) -> ManifestEntry:
        delete = self.deletes[number]
        target = None
        if delete.target is not None:
            target = (paths[delete.target] if delete.target >= 0 else f"file://{folder}/data/gone.parquet").encode()
        is_equality = delete.kind == "equality"
        return self._entry(
            snapshot,
            f"file://{folder}/data/delete-{number}",
            None if self.is_dropped else delete.day,
            1000,
            delete.rows,
            DataFileContent.EQUALITY_DELETES if is_equality else DataFileContent.POSITION_DELETES,
            FileFormat.PUFFIN if delete.kind == "vector" else FileFormat.PARQUET,
            **({"equality_ids": [1]} if is_equality else {}),
            **({"lower_bounds": {_PATH: target}, "upper_bounds": {_PATH: target}} if target else {}),
        )

    def _entry(
        self,
        snapshot: int,
        path: str,
        day: int | None,
        size: int,
        rows: int,
        content: DataFileContent,
        kind: FileFormat,
        **fields: Any,
    ) -> ManifestEntry:
        file = DataFile.from_args(
            content=content,
            file_path=path,
            file_format=kind,
            partition=Record(day) if self.is_partitioned else Record(),
            record_count=rows,
            file_size_in_bytes=size,
            **fields,
        )
        file.spec_id = 0
        # An equality delete reaches what was there before it.
        sequence = self._sequence(len(self.ages) - 1) + (0 if content == DataFileContent.DATA else 1)
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=snapshot,
            sequence_number=sequence,
            file_sequence_number=sequence,
            data_file=file,
        )

    def _manifest(
        self, folder: Path, name: str, snapshot: int, entries: Iterable[ManifestEntry], content: ManifestContent
    ) -> ManifestFile:
        output = _FILES.new_output(f"file://{folder}/metadata/{name}.avro")
        spec = self._specs[-1 if content == ManifestContent.DELETES else 0]
        with _Writer(content, spec, output, snapshot) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()


class _Writer(ManifestWriterV2):
    def __init__(self, content: ManifestContent, spec: PartitionSpec, output: Any, snapshot: int) -> None:
        super().__init__(spec, _SCHEMA, output, snapshot, "null")
        self._content = content

    def content(self) -> ManifestContent:
        return self._content

    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        return entry


def write_list(folder: Path, manifests: Iterable[ManifestFile], head: dict[str, Any], sequence: int) -> None:
    """Write the manifest list of a head."""
    output = _FILES.new_output(head["manifest-list"])
    number = sequence or head.get("sequence-number", 1)
    with write_manifest_list(2, output, head["snapshot-id"], None, number, "null") as writer:
        writer.add_manifests(list(manifests))


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def register(database: Path, catalog: str, namespace: str, locations: dict[str, str]) -> None:
    """Put tables into a PyIceberg SQL catalog on SQLite, all at once."""
    rows = [(catalog, namespace, name, location) for name, location in locations.items()]
    with sqlite3.connect(database) as connection:
        connection.executemany(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) "
            "VALUES (?, ?, ?, ?)",
            rows,
        )


def copied(location: str, name: str) -> str:
    """Copy a table that was written to a folder whose name has as many characters, and return where its metadata is.

    Paths in files of Avro are replaced as bytes: they are not packed, and lengths stay.
    """
    file = Path(location.removeprefix("file://"))
    source = file.parent.parent
    target = source.with_name(name)
    assert len(name) == len(source.name)
    (target / "metadata").mkdir(parents=True)
    was = f"{source}/".encode(), f'{source}"'.encode()
    now = f"{target}/".encode(), f'{target}"'.encode()
    for each in file.parent.iterdir():
        body = each.read_bytes().replace(was[0], now[0]).replace(was[1], now[1])
        (target / "metadata" / each.name).write_bytes(body)
    return f"file://{target}/metadata/{file.name}"


def spread(files: int, size: int, manifests: int = 3, **fields: Any) -> list[MadeFile]:
    """Return files of one size, evenly in days that are each in one manifest."""
    return [
        MadeFile(bytes=size, day=number * manifests // files, manifest=number * manifests // files, **fields)
        for number in range(files)
    ]


def well_table(number: int = 0) -> MadeTable:
    """Return a table without anything to mend, of one of six kinds."""
    big = spread(20, 450 * MIB)
    kinds = [
        MadeTable(files=big),
        MadeTable(files=big, version=1),
        MadeTable(files=big, is_partitioned=False),
        MadeTable(files=big, deletes=[MadeDelete("position", 10, target=3), MadeDelete("position", 5, day=1)]),
        MadeTable(files=spread(20, 120 * MIB), properties={"write.target-file-size-bytes": str(128 * MIB)}),
        MadeTable(files=big, version=3, deletes=[MadeDelete("vector", 20, target=5)]),
    ]
    return kinds[number % len(kinds)]


def _days(*ages: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(days=age) for age in ages)


_BIG = spread(20, 450 * MIB)
_MANY_OLD = _days(*(40 - number / 10 for number in range(300)), 0.1)
_MANY_YOUNG = tuple(timedelta(minutes=2600 - number) for number in range(2600))
# Ten ways to be ill, by the part of the score that says so.
ILL: dict[str, MadeTable] = {
    "small-files": MadeTable(files=spread(20, 1 * MIB)),
    "position-deletes": MadeTable(
        files=_BIG, deletes=[MadeDelete("position", 1500, day=0), MadeDelete("position", 1500, day=1)]
    ),
    "deletion-vectors": MadeTable(
        files=_BIG, version=3, deletes=[MadeDelete("vector", 400, target=number) for number in range(10)]
    ),
    "equality-deletes": MadeTable(files=_BIG, deletes=[MadeDelete("equality", 700, day=day) for day in (0, 1)]),
    "dangling-deletes": MadeTable(
        files=_BIG,
        deletes=[MadeDelete("position", 20, target=-1), MadeDelete("position", 20, target=2)],
        summaries={3: {"deleted-data-files": "1", "total-delete-files": "2"}},
    ),
    "snapshots": MadeTable(files=_BIG, ages=_MANY_OLD),
    "manifests": MadeTable(
        files=[MadeFile(450 * MIB, day=number, manifest=number) for number in range(150)], sequence=160
    ),
    "manifest-overlap": MadeTable(
        files=[MadeFile(450 * MIB, day=day, manifest=number) for number in range(20) for day in (0, 9)], sequence=25
    ),
    "metadata-size": MadeTable(
        files=_BIG, ages=_MANY_YOUNG, summaries={number: {"note": "x" * 500} for number in range(2600)}
    ),
    "consumers": MadeTable(files=_BIG, ages=_days(9, 8, 7, 2, 0.1), tags={"lake.consumer.report": 0}),
}

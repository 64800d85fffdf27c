"""Read a table's facts from its metadata in the JSON of Iceberg's spec, as Iceberg and PyIceberg write it.

A history that no writer can have made is refused: one in a circle, ids twice, times that are none.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.table_facts import (
    MAIN,
    REMEDY,
    Reference,
    Snapshot,
    TableFacts,
    TableShape,
    circular_history,
)
from airflow_lake_provider.contracts.table_properties import PICKED_FROM

_OURS = "lake."
_SCALARS = frozenset((str, int, float, bool))
# What reading of another shape than the spec's ends in.
_OF_SHAPE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)


@dataclass(frozen=True, kw_only=True)
class IcebergSnapshot(Snapshot):
    """A snapshot with what only Iceberg has of one.

    :param first_row_id: None of a snapshot without row lineage.
    """

    first_row_id: int | None = None
    manifest_list: str | None = None


@dataclass(frozen=True, kw_only=True)
class IcebergFacts(TableFacts):
    """Facts with what only Iceberg has of a table.

    :param metadata_log: when which earlier metadata file was written, oldest first.
    :param statistics: snapshot and path of each statistics file.
    """

    snapshots: Mapping[str, IcebergSnapshot]
    metadata_log: Sequence[tuple[int, str]] = ()
    statistics: Sequence[tuple[str, str]] = ()

    def newest(self, branch: str = MAIN) -> IcebergSnapshot | None:
        """Return the snapshot at the head of a branch; None where there is none."""
        head = self.head(branch)
        return None if head is None else self.snapshots.get(head)


def read_facts(name: str, metadata: bytes | object) -> IcebergFacts:
    """Return what metadata says that anybody may have written.

    The error shows nothing of it: a catalog may name any file of this machine.

    :param name: of the table.
    :param metadata: JSON, or what was read of it.
    :raises BrokenMetadataError: it is no JSON, or has another shape than the spec's.
    """
    try:
        parsed: Any = json.loads(metadata) if isinstance(metadata, bytes) else metadata
        return facts_of(name, parsed)
    except BrokenMetadataError:
        raise
    except _OF_SHAPE as error:
        raise BrokenMetadataError(
            f"{name}: its metadata does not have the form of Iceberg's spec ({type(error).__name__}). {REMEDY}."
        ) from None


def facts_of(name: str, metadata: Mapping[str, Any]) -> IcebergFacts:
    """Return what a table's metadata says.

    :param name: of the table.
    :param metadata: of any format version.
    :raises BrokenMetadataError: the snapshots are such as no writer makes.
    """
    given = metadata.get("snapshots") or ()
    moved = [
        (_number(entry["timestamp-ms"]), str(_number(entry["snapshot-id"])))
        for entry in metadata.get("snapshot-log") or ()
    ]
    written = [
        (_number(entry["timestamp-ms"]), str(entry["metadata-file"])) for entry in metadata.get("metadata-log") or ()
    ]
    refs = _references(metadata)
    history = [(each["snapshot-id"], each.get("parent-snapshot-id"), each["timestamp-ms"]) for each in given]
    refuse_broken_history(
        name,
        history,
        (at for at, _ in (*moved, *written)),
        {ref.name: int(ref.snapshot) for ref in refs},
    )
    updated = metadata.get("last-updated-ms")
    versions = [at for at, _ in written] + ([_number(updated)] if updated is not None else [])
    shared = shared_commits(history, versions)
    snapshots = [_snapshot(each, shares_commit=each["snapshot-id"] in shared) for each in given]
    shape = _shape(metadata)
    statistics = (*(metadata.get("statistics") or ()), *(metadata.get("partition-statistics") or ()))
    return IcebergFacts(
        name=name,
        uuid=str(metadata.get("table-uuid", "")),
        location=str(metadata["location"]),
        format_version=shape.format_version,
        properties=shape.properties,
        snapshots=with_originals(snapshots),
        references={ref.name: ref for ref in refs},
        main_log=moved,
        metadata_log=written,
        statistics=[(str(each["snapshot-id"]), each["statistics-path"]) for each in statistics],
        read_shape=lambda: shape,
    )


def with_originals(snapshots: Iterable[IcebergSnapshot]) -> dict[str, IcebergSnapshot]:
    """Return snapshots by id; a cherry-picked one says, too, what this package wrote about the original.

    Its rows are those of the original, and Iceberg copies nothing of that summary (``CherryPickOperation`` of 1.12).

    :param snapshots: in the order of their commits.
    """
    by_id: dict[str, IcebergSnapshot] = {}
    for snapshot in snapshots:
        original = by_id.get(snapshot.summary.get(PICKED_FROM, ""))
        by_id[snapshot.id] = snapshot
        if original is not None:
            ours = {name: value for name, value in original.summary.items() if name.startswith(_OURS)}
            by_id[snapshot.id] = replace(snapshot, summary={**ours, **snapshot.summary})
    return by_id


def shared_commits(snapshots: Iterable[tuple[int, int | None, int]], versions: Iterable[int]) -> set[int]:
    """Return the ids of snapshots whose parent may have been committed together with them.

    A commit makes one version of the metadata, whose time is that of its last snapshot. So there is none between two
    snapshots of one commit. Where the log does not go back far enough, nobody knows, and they may be of one.

    :param snapshots: id, parent's id and ``timestamp-ms`` of each.
    :param versions: times of the versions, in epoch milliseconds.
    """
    given, times = list(snapshots), sorted(versions)
    version_of = {snapshot: bisect_left(times, at) for snapshot, _, at in given}
    return {
        snapshot
        for snapshot, parent, _ in given
        if parent is not None and version_of.get(parent) == version_of[snapshot]
    }


def _number(value: Any) -> int:
    """Return a whole number of JSON.

    :raises TypeError: it is something else, of which truth values and fractions compare as numbers do.
    """
    if type(value) is not int:
        raise TypeError(f"expected a whole number, got {type(value).__name__}")
    return value


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Return entries as text, as PyIceberg reads them; those that are neither text nor number are left out."""
    return {
        name: value if type(value) is str else str(value).lower()
        for name, value in given.items()
        if type(value) in _SCALARS
    }


def _snapshot(given: Mapping[str, Any], *, shares_commit: bool) -> IcebergSnapshot:
    parent = given.get("parent-snapshot-id")
    return IcebergSnapshot(
        id=str(_number(given["snapshot-id"])),
        parent=None if parent is None else str(_number(parent)),
        at=_number(given["timestamp-ms"]),
        sequence_number=_number(given.get("sequence-number") or 0),
        summary=_texts(given.get("summary") or {}),
        schema_id=given.get("schema-id"),
        first_row_id=given.get("first-row-id"),
        manifest_list=given.get("manifest-list"),
        shares_commit=shares_commit,
    )


def _references(metadata: Mapping[str, Any]) -> list[Reference]:
    refs = dict(metadata.get("refs") or {})
    current = metadata.get("current-snapshot-id")
    if current not in (None, -1):
        # Writers of version 1 know no branches.
        refs.setdefault(MAIN, {"snapshot-id": current, "type": "branch"})
    return [
        Reference(
            name=name,
            snapshot=str(_number(ref["snapshot-id"])),
            is_branch=ref["type"] == "branch",
            min_snapshots=ref.get("min-snapshots-to-keep"),
            max_snapshot_age=ref.get("max-snapshot-age-ms"),
            max_ref_age=ref.get("max-ref-age-ms"),
        )
        for name, ref in refs.items()
    ]


def _shape(metadata: Mapping[str, Any]) -> TableShape:
    # Version 1 has one schema and one spec, beside the lists or in their place.
    schemas = metadata.get("schemas") or [metadata["schema"]]
    specs = metadata.get("partition-specs") or [{"spec-id": 0, "fields": metadata.get("partition-spec") or []}]
    orders = {order["order-id"]: order["fields"] for order in metadata.get("sort-orders") or ()}
    return TableShape(
        format_version=int(metadata["format-version"]),
        properties=_texts(metadata.get("properties") or {}),
        schemas={schema.get("schema-id", 0): schema for schema in schemas},
        schema_id=metadata.get("current-schema-id", 0),
        partition_specs={spec["spec-id"]: spec["fields"] for spec in specs},
        spec_id=metadata.get("default-spec-id", 0),
        sort_order=orders.get(metadata.get("default-sort-order-id"), ()),
    )


# Milliseconds from 1970 to the end of the year 9999, the last that Python's datetime knows.
_LAST_MS = 253_402_300_799_999
_LONG = 2**63


def refuse_broken_history(
    table: str,
    snapshots: Iterable[tuple[int, int | None, int]],
    logged_ms: Iterable[int] = (),
    refs: Mapping[str, int] | None = None,
) -> None:
    """Refuse snapshots that are their own ancestors, that are listed twice, or whose numbers are out of range.

    Whoever may alter a table or its catalog's answer chooses these numbers. A walk along parents would never end on
    them, neither ours nor Iceberg's own. Each snapshot is visited once, those of other branches and of none included.

    :param table: named in the error.
    :param snapshots: id, parent's id and ``timestamp-ms`` of each.
    :param logged_ms: times of the snapshot log and of the metadata log.
    :param refs: snapshot of each branch and tag.
    :raises BrokenMetadataError: naming the snapshot.
    """
    parents: dict[int, int | None] = {}
    for snapshot, parent, at in snapshots:
        if snapshot in parents:
            raise BrokenMetadataError(f"{table}: snapshot {_shown(snapshot)} is listed twice. {REMEDY}.")
        if not (0 <= snapshot < _LONG and 0 <= at <= _LAST_MS):
            raise BrokenMetadataError(
                f"{table}: snapshot {_shown(snapshot)} has timestamp-ms {_shown(at)}; expected an id of 63 bits and a "
                f"time from 1970 to 9999. {REMEDY}."
            )
        parents[snapshot] = parent
    _refuse_circle(table, parents)
    for name, snapshot in (refs or {}).items():
        if snapshot not in parents:
            raise BrokenMetadataError(
                f"{table}: ref {name!a} is on snapshot {_shown(snapshot)}, which the metadata lacks. {REMEDY}."
            )
    for at in logged_ms:
        if not 0 <= at <= _LAST_MS:
            raise BrokenMetadataError(
                f"{table}: a log of the metadata has timestamp-ms {_shown(at)}, expected a time from 1970 to 9999. "
                f"{REMEDY}."
            )


def _refuse_circle(table: str, parents: dict[int, int | None]) -> None:
    finished: set[int] = set()
    for start in parents:
        path: dict[int, None] = {}
        current: int | None = start
        while current in parents and current not in finished:
            if current in path:
                raise circular_history(table, str(current))
            path[current] = None
            current = parents[current]
        finished.update(path)


def _shown(number: int) -> str:
    # Python refuses to write integers of more than 4,300 digits.
    return str(number) if abs(number) < 10**30 else f"of {number.bit_length()} bits"

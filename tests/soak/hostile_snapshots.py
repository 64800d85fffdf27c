"""Changes that others may make to snapshots and refs of a table: each function alters one drawn thing, and says it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.soak.hostile_lake import NAMESPACE, HostileLake, Metadata

Mutation = Callable[[Random, Metadata, HostileLake], str]
# What stands where a number is expected.
NUMBERS: tuple[Any, ...] = (0, -1, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 1.5, "7", "x", None, [], {})
TEXTS: tuple[Any, ...] = (
    "",
    " ",
    "²",
    "٣",
    "9" * 5_000,
    "-1",
    "1e400",
    "NaN",
    "0x10",
    "\ud800",
    "\x00",
    "a" * 100_000,
    7,
    None,
)


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:40]}... of {len(text)}"


def _snapshot(draw: Random, metadata: Metadata) -> dict[str, Any]:
    found: dict[str, Any] = draw.choice(metadata.get("snapshots") or [{}])
    return found


def foreign(draw: Random, lake: HostileLake) -> str:
    """Return a location that is not the table's, or none at all."""
    victims = f"{lake.home}/victims"
    return draw.choice(
        (
            *(
                f"file://{victims}/{name}"
                for name in ("data.parquet", "manifests.avro", "v1.metadata.json", "notes.txt")
            ),
            f"{victims}/notes.txt",
            f"file://{lake.warehouse}/../victims/notes.txt",
            f"file://{lake.warehouse}/{NAMESPACE}/other/metadata",
            f"file://{lake.warehouse}/{NAMESPACE}/v2/../other/data",
            f"file://{lake.home}/nowhere/file",
            f"file://{victims}",
            "http://127.0.0.1:9/file",
            "s3://bucket/file",
            "nowhere/file",
            "unknown://host/file",
            "",
            "file:///etc/hosts",
        )
    )


def circle(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Let snapshots be their own parents, near or far."""
    snapshots = metadata["snapshots"]
    first, last = draw.choice(((0, 0), (-1, -1), (0, -1), (1, -1), (0, 2), (2, 3)))
    snapshots[first]["parent-snapshot-id"] = snapshots[last]["snapshot-id"]
    return f"snapshot {first} has snapshot {last} as its parent"


def parent(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Give a snapshot a parent that is none."""
    value = draw.choice((*NUMBERS, 4711, metadata["snapshots"][-1]["snapshot-id"]))
    _snapshot(draw, metadata)["parent-snapshot-id"] = value
    return f"a parent {shown(value)}"


def number_of_snapshot(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Put something where a snapshot has a number."""
    names = ("snapshot-id", "sequence-number", "timestamp-ms", "schema-id", "first-row-id", "added-rows")
    name, value = draw.choice(names), draw.choice(NUMBERS)
    _snapshot(draw, metadata)[name] = value
    return f"{name} {shown(value)} of a snapshot"


def time(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Move times beyond what clocks, Python and Java have."""
    value = draw.choice((253_402_300_800_000, -62_135_596_800_001, 2**63 - 1, -(2**63), 0, 10**15))
    place = draw.choice(("snapshots", "snapshot-log", "metadata-log"))
    for entry in metadata.get(place) or []:
        entry["timestamp-ms"] = value
    return f"all times of {place} are {value}"


def summary_count(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Let a summary count wrongly."""
    kinds = ["added-records", "deleted-records", "total-records", "total-data-files", "total-delete-files"]
    kinds += ("total-files-size", "total-position-deletes", "total-equality-deletes", "added-data-files")
    name, value = draw.choice(kinds), draw.choice(TEXTS)
    for snapshot in draw.choice((metadata["snapshots"], metadata["snapshots"][-1:])):
        snapshot.setdefault("summary", {"operation": "append"})[name] = value
    return f"summary {name} {shown(value)}"


def summary(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Take a summary away, or its operation, or put our own names into it."""
    value: Any = draw.choice(
        (
            None,
            {},
            {"operation": "unknown"},
            {"operation": None},
            {"operation": "append", "lake.run-key": "\x00"},
            {"operation": "overwrite", "lake.run-key": "²" * 16},
            {"operation": "append", "lake.position.inbox": "²"},
            [],
            "append",
        )
    )
    _snapshot(draw, metadata)["summary"] = value
    return f"summary {shown(value)}"


def manifest_list(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Let a snapshot name another file as its manifest list."""
    value = draw.choice((foreign(draw, lake), foreign(draw, lake), None, 7))
    place = draw.choice((0, -1))
    metadata["snapshots"][place]["manifest-list"] = value
    return f"manifest list {shown(value)} of snapshot {place}"


def log(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Let the metadata log name files of others, which old versions are deleted by."""
    values = [foreign(draw, lake) for _ in range(3)]
    metadata["metadata-log"] = [
        {"metadata-file": value, "timestamp-ms": metadata.get("last-updated-ms")} for value in values
    ]
    metadata["properties"] |= {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    return f"metadata log {values}"


def refs(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Alter branches and tags."""
    known = metadata["snapshots"]
    value: Any = draw.choice(
        (
            {},
            {"main": {"snapshot-id": 4711, "type": "branch"}},
            {"main": {"snapshot-id": known[0].get("snapshot-id"), "type": "tag"}},
            {"main": {"snapshot-id": known[0].get("snapshot-id"), "type": "branch"}},
            {**metadata["refs"], "../x": {"snapshot-id": known[0].get("snapshot-id"), "type": "branch"}},
            {**metadata["refs"], "kept": {"snapshot-id": 4711, "type": "tag"}},
            {**metadata["refs"], "kept": {"snapshot-id": known[0].get("snapshot-id"), "type": "no"}},
            {name: {**ref, "max-ref-age-ms": 1, "min-snapshots-to-keep": -1} for name, ref in metadata["refs"].items()},
            {name: {**ref, "max-snapshot-age-ms": 2**63} for name, ref in metadata["refs"].items()},
            None,
        )
    )
    metadata["refs"] = value
    return f"refs {shown(value)}"

"""Changes that others may make to a table's metadata: each function alters one drawn thing and says which."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.soak.hostile_lake import JAVA_CLASS, MODULE, NAMESPACE, HostileLake, Metadata
from tests.soak.hostile_snapshots import (
    NUMBERS,
    TEXTS,
    Mutation,
    circle,
    foreign,
    log,
    manifest_list,
    number_of_snapshot,
    parent,
    refs,
    shown,
    summary,
    summary_count,
    time,
)

POSITIONS = ("²", "9" * 5_000, "-1", "{", "[]", "null", '{"first": "²"}', "", "\x00", "\ud800", "1,2,3", "a" * 100_000)
TRANSFORMS = ["bucket[0]", "bucket[99999999999]", f"bucket[{'9' * 5_000}]", "truncate[-1]", "truncate[²]", "unknown"]
TRANSFORMS += ["day", "void", "identity", "", "bucket[4]"]
SETTINGS = ["write.target-file-size-bytes", "write.metadata.previous-versions-max", "write.delete.granularity"]
SETTINGS += ["history.expire.min-snapshots-to-keep", "history.expire.max-snapshot-age-ms", "gc.enabled"]
SETTINGS += ["history.expire.max-ref-age-ms", "commit.manifest.target-size-bytes", "write.distribution-mode"]
SETTINGS += ["read.split.target-size", "write.parquet.row-group-size-bytes", "commit.manifest.min-count-to-merge"]
SETTINGS += ["write.delete.mode", "write.merge.mode", "write.format.default", "write.parquet.compression-codec"]
SETTINGS += ["write.delete.format.default", "write.metadata.metrics.default", "schema.name-mapping.default"]
SETTINGS += ["write.metadata.compression-codec", "commit.retry.num-retries", "commit.retry.total-timeout-ms"]


def number(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Put something where the format has a number."""
    fields = ["last-sequence-number", "last-updated-ms", "last-column-id", "current-schema-id", "default-spec-id"]
    fields += ("last-partition-id", "default-sort-order-id", "current-snapshot-id", "format-version", "next-row-id")
    name, value = draw.choice(fields), draw.choice(NUMBERS)
    metadata[name] = value
    return f"{name} {shown(value)}"


def column(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Alter a column of the current schema."""
    fields = metadata["schemas"][-1]["fields"]
    types: tuple[Any, ...] = (
        "time",
        "timestamp_ns",
        "geometry(OGC:CRS84)",
        "variant",
        "unknown",
        "decimal(99,2)",
        "no",
    )
    types += ("fixed[99999999999]", {"type": "list"}, None, 7, "string", "double", "uuid")
    kind = draw.choice(("type", "name", "id", "add", "required", "gone", "many"))
    value: Any
    match kind:
        case "type":
            fields[-1]["type"] = value = draw.choice(types)
        case "name":
            fields[-1]["name"] = value = draw.choice(
                ("ID", "id", "", "a.b", "\x00", "`", "\ud800", "n" * 100_000, None)
            )
        case "id":
            fields[-1]["id"] = value = draw.choice((1, *NUMBERS))
        case "required":
            fields[-1]["required"] = value = draw.choice((True, None, "x"))
        case "add":
            value = {"id": 99, "name": "more", "required": True, "type": draw.choice(types)}
            fields.append(value)
        case "gone":
            value = fields.pop(draw.randrange(len(fields)))
        case _:
            value = 2_000
            fields.extend({"id": 100 + n, "name": f"c{n}", "required": False, "type": "int"} for n in range(value))
    return f"column {kind}: {shown(value)}"


def partition(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Alter the partition spec or the sort order."""
    value: dict[str, Any] = {
        "source-id": draw.choice((1, 2, 99, -1)),
        "field-id": draw.choice((1000, 1, 2**31)),
        "name": "p",
    }
    value["transform"] = draw.choice(TRANSFORMS)
    where = draw.choice(("partition-specs", "sort-orders", "partition-spec"))
    if where == "sort-orders":
        value |= {"direction": draw.choice(("asc", "up")), "null-order": "nulls-first"}
        metadata[where] = [{"order-id": metadata.get("default-sort-order-id"), "fields": [value]}]
    elif where == "partition-specs":
        metadata[where] = [{"spec-id": metadata.get("default-spec-id"), "fields": [value]}]
    else:
        metadata["default-spec-id"] = 5
        metadata["partition-specs"].append({"spec-id": 5, "fields": [value]})
    return f"{where} {shown(value)}"


def code(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Let a property name code of a stranger."""
    name, value = draw.choice(
        (
            ("py-io-impl", f"{MODULE}.Called"),
            ("py-io-impl", "no_such_module.Called"),
            ("py-io-impl", "os.system"),
            ("py-location-provider-impl", f"{MODULE}.Called"),
            ("write.py-location-provider.impl", f"{MODULE}.Called"),
            ("io-impl", JAVA_CLASS),
            ("write.location-provider.impl", JAVA_CLASS),
            ("write.location-provider.impl", "no.such.Provider"),
            ("encryption.kms-impl", JAVA_CLASS),
            ("encryption.kms-type", "custom"),
            ("metrics-reporter-impl", JAVA_CLASS),
            ("lock-impl", JAVA_CLASS),
            ("catalog-impl", JAVA_CLASS),
            ("s3.client-factory-impl", JAVA_CLASS),
            ("auth.type", "custom"),
        )
    )
    metadata["properties"][name] = value
    return f"property {name}={value}"


def redirected(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Let properties send files or requests elsewhere."""
    values = {"s3.endpoint": "http://127.0.0.1:9", "gcs.service.host": "http://127.0.0.1:9", "adls.token": "x"}
    places = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
    name = draw.choice((*values, *places))
    value = values.get(name) or foreign(draw, lake)
    metadata["properties"] |= {name: value, "write.object-storage.enabled": "true"}
    return f"property {name}={value}"


def setting(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Give a property of the format a value that is none."""
    name, value = draw.choice(SETTINGS), draw.choice(TEXTS)
    metadata["properties"][name] = value
    return f"property {name}={shown(value)}"


def position(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Alter what the package itself keeps in properties."""
    known = [name for name in metadata["properties"] if name.startswith("lake.")]
    others = ["lake.position.inbox", "lake.recent-run-keys", "lake.consumer.soak.snapshot", "lake.key-changes.inbox"]
    others += ("lake.run-keys-dropped-before", "lake.transform.soak")
    name, value = draw.choice((*known, *others)), draw.choice(POSITIONS)
    metadata["properties"][name] = value
    return f"property {name}={shown(value)}"


def statistics(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Let statistics name files of others, of a snapshot that expires."""
    name, value = draw.choice(("statistics", "partition-statistics")), foreign(draw, lake)
    entry: dict[str, Any] = {"snapshot-id": metadata["snapshots"][0].get("snapshot-id"), "statistics-path": value}
    entry |= {"file-size-in-bytes": draw.choice((100, -1, 2**63)), "file-footer-size-in-bytes": 5, "blob-metadata": []}
    metadata[name] = [entry]
    return f"{name} {value}"


def location(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Move the table's location."""
    value = draw.choice(
        (foreign(draw, lake), f"file://{lake.warehouse}/{NAMESPACE}/other", f"file://{lake.home}", "", None)
    )
    metadata["location"] = value
    return f"location {shown(value)}"


def identity(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Replace the table by another under its name, or share its files with one."""
    kind = draw.choice(("uuid", "other table", "no uuid", "twin", "newer version", "gone"))
    match kind:
        case "uuid":
            metadata["table-uuid"] = draw.choice(("00000000-0000-4000-8000-000000000000", "x", 7, None))
        case "other table":
            other = lake.metadata("other")
            metadata.clear()
            metadata.update(other)
        case "no uuid":
            metadata.pop("table-uuid", None)
        case "twin":
            (row,) = (row for row in lake.rows_of_catalog if str(metadata["location"]).endswith(f"/{row[2]}"))
            lake.query(f"INSERT INTO iceberg_tables VALUES ({', '.join('?' * len(row))})", *row[:2], "twin", *row[3:])
        case "newer version":
            metadata["format-version"] = draw.choice((4, 99, 0, 1, "2"))
        case _:
            metadata.pop(draw.choice(sorted(metadata)), None)
    return f"identity: {kind}"


def size(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Make the metadata large."""
    kind = draw.choice(("snapshots", "properties", "refs", "log", "nested"))
    newest = metadata["snapshots"][-1]
    match kind:
        case "snapshots":
            first = [{**newest, "snapshot-id": 10**6 + n, "parent-snapshot-id": 10**6 + n - 1} for n in range(20_000)]
            first[0].pop("parent-snapshot-id")
            metadata["snapshots"] = [*first, *metadata["snapshots"]]
            metadata["snapshots"][20_000]["parent-snapshot-id"] = first[-1]["snapshot-id"]
        case "properties":
            metadata["properties"] |= {f"lake.position.{n}": "x" * 100 for n in range(20_000)}
        case "refs":
            metadata["refs"] |= {f"tag{n}": {"snapshot-id": newest["snapshot-id"], "type": "tag"} for n in range(5_000)}
        case "log":
            entry = {"snapshot-id": newest["snapshot-id"], "timestamp-ms": metadata.get("last-updated-ms")}
            metadata["snapshot-log"] = [entry] * 50_000
        case _:
            nested: Any = "int"
            for n in range(400):
                nested = {"type": "list", "element-id": 1000 + n, "element-required": False, "element": nested}
            metadata["schemas"][-1]["fields"].append({"id": 999, "name": "deep", "required": False, "type": nested})
    return f"large {kind}"


def files(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Take files of the tables away, or break them."""
    folders = [lake.warehouse / NAMESPACE / name for name in ("v2", "v3", "foreign")]
    endings = ("*.parquet", "snap-*.avro", "*-m0.avro", "*.puffin", "*deletes.parquet")
    ending, kind = draw.choice(endings), draw.choice(("missing", "cut off", "of zeros", "empty"))
    for folder in folders:
        found = sorted(folder.rglob(ending))
        for file in draw.sample(found, min(len(found), draw.choice((1, 99)))):
            content = file.read_bytes()
            contents = {"cut off": content[: len(content) // 2], "of zeros": bytes(len(content)), "empty": b""}
            if kind == "missing":
                file.unlink()
            else:
                file.write_bytes(contents[kind])
    return f"files {ending} {kind}"


def text(draw: Random, metadata: Metadata, lake: HostileLake) -> str:
    """Put something anywhere in the metadata."""
    parts: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        pairs = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        for key, value in list(pairs):
            parts.append((part, key))
            walk(value)

    walk(metadata)
    part, key = draw.choice(parts)
    part[key] = value = draw.choice((*NUMBERS, *TEXTS, True))
    return f"{key} {shown(value)}"


MUTATIONS: Sequence[Mutation] = (
    *(circle, circle, parent, number, number_of_snapshot, time, summary_count, summary, manifest_list, manifest_list),
    *(column, column, partition, code, code, redirected, setting, setting, position, position, log, log, statistics),
    *(refs, location, identity, identity, size, files, files, text),
)
# What is no metadata at all, where a file of it is expected.
NO_METADATA: Sequence[bytes] = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b"{}",
    b"[" * 100_000,
    b" " * 20_000_000,
    b"\x1f\x8b\x08\x00",
)


def draw_metadata(draw: Random, name: str, lake: HostileLake) -> str:
    """Alter one table's metadata as a generator of random numbers says, register it, and say what was done."""
    if draw.random() < 0.06:
        kind = draw.choice(("content", "place", "no table"))
        if kind == "content":
            content = draw.choice(NO_METADATA)
            lake.register(name, content)
            return f"metadata is {shown(content)}"
        if kind == "place":
            place = foreign(draw, lake)
            lake.point(name, place)
            return f"metadata at {place}"
        lake.query("DELETE FROM iceberg_tables WHERE table_name = ?", name)
        return "the table is gone"
    metadata = lake.metadata(name)
    told = []
    for mutation in draw.sample(MUTATIONS, draw.choice((1, 1, 2))):
        # The second may need what the first has taken away.
        try:
            told.append(mutation(draw, metadata, lake))
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            told.append(f"no {mutation.__name__}")
    lake.register(name, metadata)
    return ", and ".join(told)

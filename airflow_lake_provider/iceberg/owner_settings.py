"""Settings that a table's owner has made for maintenance by Iceberg's properties, and those that cannot be used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice, product
from typing import Any

from airflow_lake_provider.contracts.author.maintenance_policy import OrphanMode
from airflow_lake_provider.contracts.commit_retries import LONGEST, LONGEST_WAIT, RETRIES, SHORTEST_WAIT
from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.policy_settings import NamedValue
from airflow_lake_provider.contracts.property_values import number_property, shown, whole_number
from airflow_lake_provider.contracts.setting_kinds import LONGEST_SPAN
from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.iceberg.compaction_rules import (
    DELETE_TARGET_BYTES,
    DELETE_TARGET_SIZE,
    TARGET_SIZE,
    followed_size,
    table_size,
)
from airflow_lake_provider.iceberg.foreign_times import NAME_MAPPING
from airflow_lake_provider.iceberg.manifest_rules import manifest_target
from airflow_lake_provider.iceberg.snapshot_retention import MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, check_settings
from airflow_lake_provider.iceberg.table_obstacles import GC_ENABLED, without_expiry
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy

FORMAT = "write.delete.format.default"
CODEC = "write.delete.parquet.compression-codec"
LEVEL = "write.delete.parquet.compression-level"
PAGE_BYTES = "write.delete.parquet.page-size-bytes"
DICTIONARY_BYTES = "write.delete.parquet.dict-size-bytes"
# What both PyArrow writes and every reader of Iceberg has. Others need a library that a reader may lack.
_CODECS = {"zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "uncompressed": "none"}
_LEVELS = {"zstd": 22, "gzip": 9}
# As Iceberg takes them, where the table does not say (TableProperties of 1.12).
_CODEC, _PAGE_BYTES, _DICTIONARY_BYTES = "zstd", 1 << 20, 2 << 20


@dataclass(frozen=True, kw_only=True)
class DeleteFileSettings:
    """Settings of Parquet delete files; those that the owner does not set are Iceberg's.

    :param codec: as PyArrow names it.
    :param target_bytes: size at which a file of keys is split.
    :param held: whose settings hold, clauses.
    """

    codec: str = _CODEC
    level: int | None = None
    page_bytes: int = _PAGE_BYTES
    dictionary_bytes: int = _DICTIONARY_BYTES
    target_bytes: int = DELETE_TARGET_BYTES
    held: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: str, properties: Mapping[str, str]) -> DeleteFileSettings:
        """Read the settings of a table.

        :param table: named in the error.
        :raises BrokenMetadataError: one is no number that Iceberg takes.
        """
        by_format = named(properties, FORMAT)
        by_codec = named(properties, CODEC)
        asked = properties[by_codec].strip().lower() if by_codec else _CODEC
        codec = _CODECS.get(asked, _CODEC)
        return cls(
            codec=codec,
            level=_level(table, properties, codec) if asked in _CODECS else None,
            page_bytes=_bytes(table, properties, PAGE_BYTES) or _PAGE_BYTES,
            dictionary_bytes=_bytes(table, properties, DICTIONARY_BYTES) or _DICTIONARY_BYTES,
            target_bytes=table_size(table, properties, DELETE_TARGET_SIZE) or DELETE_TARGET_BYTES,
            held=(
                *_held("the format of delete files", properties, by_format, "parquet", is_default="parquet"),
                *_held(
                    "the compression of delete files",
                    properties,
                    by_codec,
                    asked if asked in _CODECS else _CODEC,
                    _CODEC,
                ),
                *_held("the size of delete files", properties, named(properties, DELETE_TARGET_SIZE), None),
            ),
        )


def named(properties: Mapping[str, str], name: str) -> str | None:
    """Return the property that holds for delete files: their own, or that of data files; None where neither is set.

    :param name: of their own, which has one of data files beside it.
    """
    of_data = name.replace("write.delete.", "write.")
    if name == DELETE_TARGET_SIZE:
        # Iceberg does not take the size of data files for them.
        return name if name in properties else None
    return next((each for each in (name, of_data) if each in properties), None)


def _held(
    what: str, properties: Mapping[str, str], name: str | None, is_now: str | None, is_default: str = ""
) -> tuple[str, ...]:
    if name is None:
        return ()
    asked = properties[name].strip().lower()
    if is_now is None or asked == is_now:
        return () if asked == is_default else (f"{what} is {asked}, the table's {name}",)
    return (f"{what} is {is_now}, the only one written here, and not {shown(asked)}, the table's {name}",)


def _level(table: str, properties: Mapping[str, str], codec: str) -> int | None:
    name = named(properties, LEVEL)
    if name is None or codec not in _LEVELS:
        return None
    level = number_property(table, properties, name)
    if level is not None and not 1 <= level <= _LEVELS[codec]:
        raise BrokenMetadataError(
            f"{table}: property {name!r} is {level}, expected a level of {codec} from 1 to {_LEVELS[codec]}"
        )
    return level


def _bytes(table: str, properties: Mapping[str, str], name: str) -> int | None:
    spelled = named(properties, name)
    return None if spelled is None else table_size(table, properties, spelled)


DELETE_MODE, UPDATE_MODE = (f"write.{action}.mode" for action in ("delete", "update"))
COPY_ON_WRITE = "copy-on-write"
_SET_BY_ICEBERG = ("write.parquet.compression-codec", "zstd")
# Of data files, which Iceberg's own writer makes.
_OF_DATA = {
    TARGET_SIZE: "the size of data files",
    "write.parquet.compression-codec": "the compression of data files",
    "write.orc.compression-codec": "the compression of data files",
    "write.avro.compression-codec": "the compression of data files",
}


def owner_settings(
    table: str, properties: Mapping[str, str], mode: str, strategy: str, *, asked: bool, format_version: int
) -> str:
    """Return the clauses of what the table's owner has set; empty where nothing is.

    :param table: named in an error.
    :param mode: property that says how the owner wants the change to be made.
    :param strategy: by which it was made.
    :param asked: whether the DAG has named it.
    """
    clauses = [*_of_mode(properties, mode, strategy, asked=asked), *_of_data(properties)]
    # Version 3 has vectors for positions, in a format without such settings.
    if strategy == UpsertStrategy.EQUALITY.value or (strategy == UpsertStrategy.POSITIONS.value and format_version < 3):
        clauses += DeleteFileSettings.of(table, properties).held
    return "".join(f"; {clause}" for clause in clauses)


def _of_mode(properties: Mapping[str, str], mode: str, strategy: str, *, asked: bool) -> list[str]:
    owners = properties.get(mode)
    if asked:
        # Spark's MERGE is made as the owner says.
        by_files = strategy != UpsertStrategy.MERGE.value
        differs = (
            by_files
            and owners is not None
            and owners != (COPY_ON_WRITE if strategy == COPY_ON_WRITE else "merge-on-read")
        )
        return [f"strategy is the DAG's and not {owners}, the table's {mode}"] if differs else []
    return [f"strategy is {strategy}, the table's {mode}"] if owners == strategy == COPY_ON_WRITE else []


def _of_data(properties: Mapping[str, str]) -> list[str]:
    # Iceberg itself sets its default codec on each new table.
    set_by_owner = {name: value for name, value in properties.items() if (name, value) != _SET_BY_ICEBERG}
    return [
        f"{what} is {set_by_owner[name]}, the table's {name}" for name, what in _OF_DATA.items() if name in set_by_owner
    ]


# Of a mapping whose fields have many names each, the paths are their product.
_MOST_PATHS = 100_000
# Java's Integer.parseInt and Long.parseLong take digits of every script.
_INTEGER = re.compile(r"[+-]?\d{1,40}")
_INT, _LONG = 2**31 - 1, 2**63 - 1
# The same below write.delete., for delete files.
_OF_A_FORMAT = {
    **dict.fromkeys(
        (
            *("parquet.row-group-size-bytes", "parquet.page-size-bytes", "parquet.page-row-limit"),
            *("parquet.dict-size-bytes", "parquet.row-group-check-min-record-count"),
            *("parquet.row-group-check-max-record-count", "orc.vectorized.batch-size"),
        ),
        _INT,
    ),
    **dict.fromkeys(("orc.stripe-size-bytes", "orc.block-size-bytes", "target-file-size-bytes"), _LONG),
}
_COMMIT_RETRIES = (RETRIES, SHORTEST_WAIT, LONGEST_WAIT, LONGEST)
_MOST = {
    **{f"write.{name}": most for name, most in _OF_A_FORMAT.items()},
    **{f"write.delete.{name}": most for name, most in _OF_A_FORMAT.items()},
    **dict.fromkeys(
        (
            *_COMMIT_RETRIES,
            *("commit.status-check.num-retries", "commit.manifest.min-count-to-merge"),
            *("history.expire.min-snapshots-to-keep", "read.split.planning-lookback"),
            *("read.parquet.vectorization.batch-size", "read.orc.vectorization.batch-size"),
            "write.metadata.previous-versions-max",
            *("write.metadata.metrics.max-inferred-column-defaults", "write.summary.partition-limit"),
            "write.parquet.bloom-filter-max-bytes",
        ),
        _INT,
    ),
    **dict.fromkeys(
        (
            *("commit.status-check.min-wait-ms", "commit.status-check.max-wait-ms"),
            *("commit.status-check.total-timeout-ms", "commit.manifest.target-size-bytes"),
            *("history.expire.max-snapshot-age-ms", "history.expire.max-ref-age-ms", "read.split.target-size"),
            *("read.split.metadata-target-size", "read.split.open-file-cost"),
            "write.spark.advisory-partition-size-bytes",
        ),
        _LONG,
    ),
}
_ABOVE_ZERO = {"read.split.target-size", "read.split.planning-lookback", "write.parquet.page-row-limit"}
_FORMATS, _MODES = ("avro", "orc", "parquet"), ("copy-on-write", "merge-on-read")
_DISTRIBUTIONS, _CODEC_LEVELS = ("none", "hash", "range"), ("serializable", "snapshot")
_NAMED = {
    **dict.fromkeys(("write.format.default", "write.delete.format.default"), _FORMATS),
    **dict.fromkeys(("write.delete.mode", "write.update.mode", "write.merge.mode"), _MODES),
    **{f"write.{of}distribution-mode": _DISTRIBUTIONS for of in ("", "delete.", "update.", "merge.")},
    **{f"write.{of}.isolation-level": _CODEC_LEVELS for of in ("delete", "update", "merge")},
    "write.delete.granularity": ("file", "partition"),
    "write.metadata.compression-codec": ("none", "gzip"),
    "write.parquet.compression-codec": ("uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"),
    "write.orc.compression-codec": ("none", "zlib", "snappy", "lzo", "lz4", "zstd"),
    "write.avro.compression-codec": ("uncompressed", "snappy", "gzip", "zstd"),
}


def unusable_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what Iceberg cannot use, as a sentence for each property.

    :param properties: of a table.
    """
    checked = ((name, value, _expected(name, value)) for name, value in properties.items())
    return {
        name: f"property {name!r} is {shown(value)}, expected {expected}; set it, or remove it with ALTER TABLE ... "
        f"UNSET TBLPROPERTIES ('{name}')"
        for name, value, expected in checked
        if expected is not None
    }


def _expected(name: str, value: str) -> str | None:
    """Return what a property has to be; None where it is that, or where Iceberg has no such property."""
    if (most := _MOST.get(name)) is not None:
        least, words = (1, "from 1 to") if name in _ABOVE_ZERO else (-most - 1, "up to")
        is_number = _INTEGER.fullmatch(value) is not None and least <= int(value) <= most
        return None if is_number else f"a whole number {words} {most}"
    if name == NAME_MAPPING:
        words = "a list in JSON of fields, each with a 'field-id' and 'names' of its own"
        return None if _is_name_mapping(value) else words
    names = _NAMED.get(name, (value.lower(),))
    return None if value.lower() in names else f"one of {', '.join(names)}"


def _is_name_mapping(text: str) -> bool:
    try:
        # What follows, Iceberg does not read.
        fields, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return False
    levels = list(_levels_in(fields))
    if not all(map(_is_level, levels)):
        return False
    # One field may have none.
    ids = [field.get("field-id") for level in levels for field in level]
    # No path goes on below a field without a name.
    below = [field.get("fields", []) for level in levels for field in level if not field.get("names")]
    return len(ids) == len(set(ids)) and all(map(_are_named_apart, [fields, *below]))


def _levels_in(fields: object) -> Iterator[Any]:
    """Yield what stands for the fields of each struct; Java reads more levels than Python has calls in each other."""
    left = [fields]
    while left:
        level = left.pop()
        yield level
        if isinstance(level, list):
            left += [field.get("fields", []) for field in level if isinstance(field, dict)]


def _is_level(level: object) -> bool:
    return isinstance(level, list) and all(isinstance(field, dict) and _is_mapped(field) for field in level)


def _is_mapped(field: Mapping[str, object]) -> bool:
    id_, names = field.get("field-id"), field.get("names", [])
    is_named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return is_named and (id_ is None or type(id_) is int)


def _are_named_apart(fields: Sequence[Mapping[str, Any]]) -> bool:
    paths = list(islice(_paths_of(fields), _MOST_PATHS))
    return len(paths) == len(set(paths))


def _paths_of(fields: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what Iceberg looks fields up by, such as ``address.street``."""
    left = [product([""], fields)]
    while left:
        before, field = next(left[-1], ("", None))
        if field is None:
            left.pop()
            continue
        paths = [f"{before}{name}" for name in set(field.get("names", []))]
        yield from paths
        left.append(product([f"{path}." for path in paths], field.get("fields", [])))


# Read at each commit, and at those that add files.
_AT_COMMITS = {*_COMMIT_RETRIES, "write.metadata.previous-versions-max"}
_OF_MANIFESTS = {"commit.manifest.min-count-to-merge", "commit.manifest.target-size-bytes"}
_AT_COMMITS_OF_FILES = {*_OF_MANIFESTS, "write.summary.partition-limit"}


def broken_setting(facts: TableFacts, action: str) -> str | None:
    """Return which setting of its owner an action of maintenance cannot read, and why; None where it reads all.

    Iceberg reads those of its commits once all files are written, which was in vain then.

    :param facts: of the table.
    """
    asked = _AT_COMMITS | (_AT_COMMITS_OF_FILES if action in ("compaction", "expire-rows") else set())
    read = {name: value for name, value in facts.properties.items() if name in asked}
    if unusable := unusable_settings(read):
        return f"{facts.name}: {next(iter(unusable.values()))}"
    try:
        if action in ("compaction", "rewrite-manifests"):
            manifest_target(facts)
        if action == "compaction":
            for name in (TARGET_SIZE, DELETE_TARGET_SIZE):
                table_size(facts.name, facts.properties, name)
        elif action == "snapshot-expiry":
            check_settings(facts.name, facts.properties)
    except BrokenMetadataError as error:
        return str(error)
    return None


def owner_policy(properties: Mapping[str, str]) -> Iterator[NamedValue]:
    """Yield what the owner of a table has set. What Iceberg cannot read is refused by the action that reads it.

    :param properties: of the table.
    """
    if (age := _number(properties, MAX_SNAPSHOT_AGE)) is not None:
        longest = LONGEST_SPAN // timedelta(milliseconds=1)
        yield _owned("expiry.older_than", timedelta(milliseconds=min(age, longest)), MAX_SNAPSHOT_AGE)
    if number := _number(properties, MIN_SNAPSHOTS):
        yield _owned("expiry.retain_last", number, MIN_SNAPSHOTS)
    if size := followed_size(_number(properties, TARGET_SIZE)):
        yield _owned("compaction.target_file_size", size, TARGET_SIZE)
    if without_expiry(properties) is not None:
        # Its files may belong to other tables.
        yield _owned("expiry.enabled", False, GC_ENABLED, is_formats=False)
        yield _owned("orphans.mode", OrphanMode.OFF, GC_ENABLED, is_formats=False)


def _number(properties: Mapping[str, str], name: str) -> int | None:
    return whole_number(properties.get(name, "").strip())


def _owned(key: str, value: object, name: str, *, is_formats: bool = True) -> NamedValue:
    return NamedValue(key=key, value=value, origin=f"property {name!r} of the table", is_formats=is_formats)

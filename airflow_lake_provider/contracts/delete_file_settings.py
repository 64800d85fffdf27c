"""Settings of a table's delete files: ``write.delete.*``, else what says the same of its data files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_lake_provider.contracts.compaction_rules import DELETE_TARGET_BYTES, DELETE_TARGET_SIZE, table_size
from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.property_values import number_property, shown

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
    found = named(properties, name)
    return None if found is None else table_size(table, properties, found)

"""Properties of a table that say how its Parquet files are laid out, and what ``pyarrow`` makes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.contracts.errors import UnsupportedError

_PREFIX = "write.parquet."
# Defaults of ``TableProperties`` of Iceberg, by the name after the prefix.
_SIZES = {
    "row-group-size-bytes": 128 << 20,
    "page-size-bytes": 1 << 20,
    "page-row-limit": 20_000,
    "dict-size-bytes": 2 << 20,
}
# Levels of the Java writers. Those of ``pyarrow`` differ.
_LEVELS: dict[str, int | None] = {"zstd": 3, "gzip": 6, "snappy": None, "uncompressed": None}
# They say how often the Java writer compares sizes, or they are about variants and Bloom filters that no column has.
_WITHOUT_EFFECT = {
    "row-group-check-min-record-count",
    "row-group-check-max-record-count",
    "bloom-filter-max-bytes",
    "bloom-filter-adaptive-enabled",
    "shred-variants",
    "variant-inference-buffer-size",
}
_COUNT = re.compile(r"[1-9]\d{0,9}")


@dataclass(frozen=True, kw_only=True)
class ParquetLayout:
    """Layout of new files.

    :param level: of the codec; None for its own.
    """

    codec: str
    level: int | None
    row_group_bytes: int
    page_bytes: int
    page_rows: int
    dictionary_bytes: int

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ParquetLayout:
        """Return the layout that a table asks for.

        :param properties: of the table.
        :raises UnsupportedError: naming a property that is not followed alike.
        """
        given = {name.removeprefix(_PREFIX): value for name, value in properties.items() if name.startswith(_PREFIX)}
        _refuse_others(properties, given)
        codec = given.get("compression-codec", "zstd").lower()
        if codec not in _LEVELS:
            raise UnsupportedError(f"property '{_PREFIX}compression-codec' is {codec}")
        row_group, page, rows, dictionary = (_size(given, name) for name in _SIZES)
        return cls(
            codec=codec,
            level=_level(given, codec),
            row_group_bytes=row_group,
            page_bytes=page,
            page_rows=rows,
            dictionary_bytes=dictionary,
        )

    def options(self) -> dict[str, Any]:
        """Return arguments of ``ParquetWriter``."""
        return {
            "compression": None if self.codec == "uncompressed" else self.codec,
            "compression_level": self.level,
            "data_page_size": self.page_bytes,
            "max_rows_per_page": self.page_rows,
            "dictionary_pagesize_limit": self.dictionary_bytes,
            "store_schema": False,
            "store_decimal_as_integer": True,
            "write_page_index": True,
            "write_page_checksum": True,
        }


def _refuse_others(properties: Mapping[str, str], given: Mapping[str, str]) -> None:
    if given.get("page-version", "v1").lower() != "v1":
        raise UnsupportedError(f"property '{_PREFIX}page-version' is {given['page-version']}")
    followed = {*_SIZES, *_WITHOUT_EFFECT, "compression-codec", "compression-level", "page-version"}
    other = next((f"{_PREFIX}{name}" for name in given if name not in followed), None)
    # Iceberg's writer gives each property of the table to Parquet's own configuration, too.
    other = other or next((name for name in properties if name.startswith("parquet.")), None)
    if other is not None:
        raise UnsupportedError(f"property {other!r} is for the Java writer")


def _size(given: Mapping[str, str], name: str) -> int:
    value = given.get(name)
    if value is None:
        return _SIZES[name]
    if not _COUNT.fullmatch(value):
        raise UnsupportedError(f"property '{_PREFIX}{name}' is {value!r}, expected a number above 0")
    return int(value)


def _level(given: Mapping[str, str], codec: str) -> int | None:
    value, default = given.get("compression-level"), _LEVELS[codec]
    if value is None or default is None:
        return default
    if not _COUNT.fullmatch(value):
        raise UnsupportedError(f"property '{_PREFIX}compression-level' is {value!r}, expected a number above 0")
    return int(value)

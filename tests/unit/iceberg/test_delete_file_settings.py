"""Delete files are as a table's owner wants them, and the report says so."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.iceberg.owner_settings import DeleteFileSettings, owner_settings

OWN, DATA = "write.delete.parquet.", "write.parquet."
MEMBERS: dict[str, tuple[dict[str, str], dict[str, object], str]] = {
    "nothing is set": ({}, {"codec": "zstd", "level": None, "page_bytes": 1 << 20, "target_bytes": 64 << 20}, ""),
    "of delete files": (
        {f"{OWN}compression-codec": "SNAPPY"},
        {"codec": "snappy"},
        "snappy, the table's write.delete.",
    ),
    "of data files": ({f"{DATA}compression-codec": "gzip"}, {"codec": "gzip"}, "gzip, the table's write.parquet."),
    "of both": ({f"{OWN}compression-codec": "lz4", f"{DATA}compression-codec": "gzip"}, {"codec": "lz4"}, "lz4, the"),
    "no compression": ({f"{OWN}compression-codec": "uncompressed"}, {"codec": "none"}, "uncompressed"),
    "a codec that readers may lack": ({f"{OWN}compression-codec": "brotli"}, {"codec": "zstd"}, "and not 'brotli'"),
    "a level": ({f"{DATA}compression-level": "5"}, {"codec": "zstd", "level": 5}, ""),
    "a level of a codec without": (
        {f"{OWN}compression-codec": "lz4", f"{OWN}compression-level": "5"},
        {"level": None},
        "",
    ),
    "a page size": ({f"{DATA}page-size-bytes": "4096"}, {"page_bytes": 4096}, ""),
    "a dictionary size": ({f"{OWN}dict-size-bytes": "4096"}, {"dictionary_bytes": 4096}, ""),
    "a size": ({"write.delete.target-file-size-bytes": "100"}, {"target_bytes": 100}, "100, the table's write.delete."),
    "the size of data files": ({"write.target-file-size-bytes": "100"}, {"target_bytes": 64 << 20}, ""),
    "another format": (
        {"write.delete.format.default": "orc"},
        {},
        "is parquet, the only one written here, and not 'orc'",
    ),
    "the format of data files": (
        {"write.format.default": "avro"},
        {},
        "and not 'avro', the table's write.format.default",
    ),
    "the format that is written": ({"write.format.default": "parquet"}, {}, ""),
}


@pytest.mark.parametrize("member", MEMBERS)
def test_delete_files_are_written_as_the_owner_says(member: str) -> None:
    properties, wanted, said = MEMBERS[member]
    settings = DeleteFileSettings.of("shop.orders", properties)
    assert {name: getattr(settings, name) for name in wanted} == wanted
    assert said in "; ".join(settings.held)
    assert bool(said) is bool(settings.held) or member == "a level of a codec without"


@pytest.mark.parametrize(
    ("name", "value"),
    [("page-size-bytes", "many"), ("page-size-bytes", "0"), ("compression-level", "99"), ("dict-size-bytes", "²")],
)
def test_a_setting_that_is_no_number_of_iceberg_is_named(name: str, value: str) -> None:
    with pytest.raises(BrokenMetadataError, match=name):
        DeleteFileSettings.of("shop.orders", {f"{OWN}{name}": value})


MODE = "write.merge.mode"
HELD = [
    ({}, "positions", False, 2, ""),
    ({MODE: "merge-on-read"}, "positions", False, 2, ""),
    ({MODE: "copy-on-write"}, "copy-on-write", False, 2, f"; strategy is copy-on-write, the table's {MODE}"),
    ({MODE: "merge-on-read"}, "copy-on-write", False, 2, ""),
    (
        {MODE: "merge-on-read"},
        "copy-on-write",
        True,
        2,
        f"; strategy is the DAG's and not merge-on-read, the table's {MODE}",
    ),
    ({MODE: "copy-on-write"}, "merge", True, 2, ""),
    (
        {"write.target-file-size-bytes": "9"},
        "merge",
        False,
        2,
        "; the size of data files is 9, the table's write.target-",
    ),
    ({f"{OWN}compression-codec": "lz4"}, "positions", False, 2, "; the compression of delete files is lz4"),
    ({f"{OWN}compression-codec": "lz4"}, "positions", False, 3, ""),
    ({f"{OWN}compression-codec": "lz4"}, "equality", True, 3, "; the compression of delete files is lz4"),
]


@pytest.mark.parametrize(("properties", "strategy", "asked", "version", "said"), HELD)
def test_a_report_says_whose_settings_held(
    properties: dict[str, str], strategy: str, asked: bool, version: int, said: str
) -> None:
    found = owner_settings("shop.orders", properties, MODE, strategy, asked=asked, format_version=version)
    assert found.startswith(said)
    assert bool(found) is bool(said)

"""Declarations of a format that only tests have: tables of Parquet files, with few capabilities."""

from __future__ import annotations

from airflow_lake_provider.contracts.capabilities import FormatCapabilities, Gap, GapKind, Support

# [START declared]
TINY = FormatCapabilities(
    name="tiny",
    title="Tiny",
    driver="tests.spark.formats.tiny_format:TinyFormat",
    worker="tests.tiny_catalog:TinyCatalog",
    declared={
        "upsert": Support(),
        "merge-deduplicate": Support(),
        "create-table": Support(),
        "strategy-merge": Gap(GapKind.NEVER, "it has no statements"),
    },
)
# [END declared]

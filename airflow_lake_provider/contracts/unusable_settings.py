"""Find the table properties that Iceberg reads and whose values it cannot use: no numbers, out of range, unknown names.

Source: ``TableProperties`` of Iceberg 1.12, and how ``PropertyUtil``, ``FileFormat`` and the writers read them. What it
takes in silence is not listed: each text is a boolean, and a wrong metrics mode is replaced by the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_lake_provider.contracts.property_values import shown

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
_MOST = {
    **{f"write.{name}": most for name, most in _OF_A_FORMAT.items()},
    **{f"write.delete.{name}": most for name, most in _OF_A_FORMAT.items()},
    **dict.fromkeys(
        (
            *("commit.retry.num-retries", "commit.retry.min-wait-ms", "commit.retry.max-wait-ms"),
            *("commit.retry.total-timeout-ms", "commit.status-check.num-retries"),
            *("commit.manifest.min-count-to-merge", "history.expire.min-snapshots-to-keep"),
            *("read.split.planning-lookback", "read.parquet.vectorization.batch-size"),
            *("read.orc.vectorization.batch-size", "write.metadata.previous-versions-max"),
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
_FORMATS, _MODES = ("avro", "orc", "parquet"), ("copy-on-write", "merge-on-read")
_DISTRIBUTIONS, _LEVELS = ("none", "hash", "range"), ("serializable", "snapshot")
_NAMED = {
    **dict.fromkeys(("write.format.default", "write.delete.format.default"), _FORMATS),
    **dict.fromkeys(("write.delete.mode", "write.update.mode", "write.merge.mode"), _MODES),
    **{f"write.{of}distribution-mode": _DISTRIBUTIONS for of in ("", "delete.", "update.", "merge.")},
    **{f"write.{of}.isolation-level": _LEVELS for of in ("delete", "update", "merge")},
    "write.delete.granularity": ("file", "partition"),
    "write.metadata.compression-codec": ("none", "gzip"),
}


def unusable_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what Iceberg cannot use, as a sentence for each property.

    :param properties: of a table.
    """
    wrong = ((name, value, _expected(name, value)) for name, value in properties.items())
    return {
        name: f"property {name!r} is {shown(value)}, expected {expected}; set it, or remove it with ALTER TABLE ... "
        f"UNSET TBLPROPERTIES ('{name}')"
        for name, value, expected in wrong
        if expected is not None
    }


def _expected(name: str, value: str) -> str | None:
    """Return what a property has to be; None where it is that, or where Iceberg has no such property."""
    if (most := _MOST.get(name)) is not None:
        is_number = _INTEGER.fullmatch(value) is not None and -most - 1 <= int(value) <= most
        return None if is_number else f"a whole number up to {most}"
    names = _NAMED.get(name, (value.lower(),))
    return None if value.lower() in names else f"one of {', '.join(names)}"

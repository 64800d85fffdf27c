"""Refuse a table whose commits would delete foreign files: those that its metadata log names.

With ``write.metadata.delete-after-commit.enabled`` each commit deletes the oldest entries of the log, whatever they
name (``CatalogUtil.deleteRemovedMetadataFiles`` of Iceberg).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.table_locations import normalised
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError

DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_METADATA_FILE = re.compile(r"[^/]*\.metadata\.json(\.gz)?")


def refuse_foreign_metadata_log(
    table: str, metadata: Mapping[str, Any], current: str, uuid_in: Callable[[str], str]
) -> None:
    """Refuse a log that names anything but metadata files beside the current one, and earlier ones of the table.

    :param metadata: of the table, as JSON.
    :param current: location of its metadata file.
    :param uuid_in: returns the table uuid of a metadata file; empty for what is none.
    :raises UnsupportedError: a commit could delete another file.
    """
    if str(metadata.get("properties", {}).get(DELETE_AFTER_COMMIT, "false")).lower() != "true":
        return
    foreign = [entry for entry in _elsewhere(metadata, current) if not _is_earlier(entry, metadata, uuid_in)]
    if foreign:
        raise UnsupportedError(
            f"{table}: its metadata log names {', '.join(foreign[:3])}, which is no earlier metadata of the table, and "
            f"{DELETE_AFTER_COMMIT} would make a commit delete it; nothing was changed. See who wrote the log, then "
            f"ALTER TABLE {table} SET TBLPROPERTIES ('{DELETE_AFTER_COMMIT}'='false')"
        )


def uuid_in_file(spark: SparkSession, io: Any, location: str) -> str:
    """Return the table uuid of a metadata file; empty for what is none.

    :param io: ``org.apache.iceberg.io.FileIO`` of the table.
    """
    iceberg = jvm_of(spark).org.apache.iceberg
    try:
        return str(iceberg.TableMetadataParser.read(io, location).uuid())
    except GatewayError:
        return ""


def _elsewhere(metadata: Mapping[str, Any], current: str) -> Iterator[str]:
    """Yield the entries that are no metadata files beside the current one."""
    folder = normalised(current).rpartition("/")[0]
    for entry in metadata.get("metadata-log", ()):
        location = str(entry["metadata-file"])
        beside, _, name = normalised(location).rpartition("/")
        if beside != folder or not _METADATA_FILE.fullmatch(name):
            yield location


def _is_earlier(entry: str, metadata: Mapping[str, Any], uuid_in: Callable[[str], str]) -> bool:
    if not _METADATA_FILE.fullmatch(entry.rpartition("/")[2]):
        return False
    return uuid_in(entry) == metadata["table-uuid"]

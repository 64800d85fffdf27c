"""Finish an expiry that was cut off between its commit and the deletion of its files.

The commit that forgets snapshots notes on the table the metadata file from before it, and the note goes once all files
are deleted. Without it nobody could tell which files only the forgotten snapshots reached.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.snapshot_expiry_spec import ForeignFiles
from airflow_lake_provider.contracts.table_locations import FileOwners
from airflow_lake_provider.contracts.table_properties import UNFINISHED_EXPIRY
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import root_message
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.expired_files import expired_files
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError


def note_unfinished(transaction: Any) -> None:
    """Add the note to the transaction of an expiry; an older one stays, as its metadata reaches more."""
    before = transaction.startMetadata()
    if not before.properties().containsKey(UNFINISHED_EXPIRY):
        transaction.updateProperties().set(UNFINISHED_EXPIRY, before.metadataFileLocation()).commit()


def finish_expiry(table: IcebergTable, owners: FileOwners, foreign: ForeignFiles) -> tuple[dict[str, int], list[str]]:
    """Delete the files that an earlier expiry has left, and remove its note where all could be deleted.

    :return: files deleted, by kind, and warnings; nothing without a note.
    """
    location = table.properties().get(UNFINISHED_EXPIRY)
    if location is None:
        return {}, []
    try:
        deleted, not_deleted, warnings = _delete_left(table, owners, foreign, location)
    except UnsupportedError as error:
        deleted, not_deleted, warnings = {}, [], [_cannot_be_told(error)]
    return deleted, [*warnings, *(not_deleted or remove_note(table))]


def _cannot_be_told(why: UnsupportedError) -> str:
    return (
        "an earlier expiry was cut off before it had deleted its files, and what is left of them cannot be told: "
        f"{why}. "
        "Iceberg's remove_orphan_files finds it"
    )


def remove_note(table: IcebergTable) -> list[str]:
    """Say on the table that the files are deleted; where that fails, the next expiry looks for them again.

    :return: warnings.
    """
    try:
        table.refresh().java.updateProperties().remove(UNFINISHED_EXPIRY).commit()
    except JavaError as error:
        return [f"the files are deleted, and {UNFINISHED_EXPIRY} could not be removed: {root_message(error)}"]
    finally:
        with suppress(Exception):
            table.refresh()
    return []


def _delete_left(
    table: IcebergTable, owners: FileOwners, foreign: ForeignFiles, location: str
) -> tuple[dict[str, int], list[str], list[str]]:
    io = table.java.io()
    # A property can name any file that the driver may read.
    if f"{location.rpartition('/')[0]}/" not in table.metadata_folders():
        raise UnsupportedError(f"{table.name}: {UNFINISHED_EXPIRY} names {location}, which is no metadata of the table")
    if not io.newInputFile(location).exists():
        raise UnsupportedError(f"{table.name}: {location}, the metadata of before it, is gone")
    before, after = table.iceberg.TableMetadataParser.read(io, location), table.java.operations().current()
    if str(before.uuid()) != table.uuid:
        raise UnsupportedError(f"{table.name}: {location} is metadata of another table")
    with expired_files(table, owners, foreign, before, after) as files:
        # What may be another table's is kept, and said.
        return *files.delete(), files.warnings()

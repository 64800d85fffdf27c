"""Metadata of other catalogs and formats in the folders of a table: where there is some, nothing is removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.iceberg.file_ownership import FileOwners
from airflow_lake_provider.iceberg.orphan_files import metadata_version, name_key
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.unreached_files import Listing
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError

# Metadata files of a doubtful history that are read.
_READ = 20


def metadata_folders(owners: FileOwners, metadata_files: Iterable[str]) -> set[str]:
    """Return the folders that have, or may have, metadata files of a table.

    :param metadata_files: locations of those that it names.
    """
    folders = {each.rpartition("/")[0] for each in metadata_files}
    for place in (owners.table, *owners.earlier):
        folders |= {f"{place.location.rstrip('/')}/metadata", *place.declared}
    return folders


def refuse_foreign_metadata(table: IcebergTable, listing: Listing, metadata_files: Sequence[str]) -> None:
    """Refuse a table that another catalog, or another format, may have too.

    A commit that is being made has written the next number, so a young file may have that.

    :param metadata_files: locations of those of the log, oldest first, and of the current one.
    :raises UnsupportedError: its metadata, or the other format's log, lies in the table's folders.
    """
    current = metadata_version(metadata_files[-1])
    if listing.other_format is not None:
        raise UnsupportedError(
            f"{table.name}: {listing.other_format} is of the log of another table format, so files that Iceberg does "
            "not reach may be that table's. Nothing was removed"
        )
    if listing.other_metadata is not None:
        raise UnsupportedError(
            f"{table.name}: {listing.other_metadata} is metadata of a table, and this one has none in that folder. "
            "Another catalog may have a table there. Nothing was removed. Move that table, or its folder where nobody "
            "reads it any more, to another place"
        )
    is_passed = current is not None and (
        (listing.newest_old_version or 0) > current or (listing.newest_version or 0) > current + 1
    )
    if is_passed:
        raise UnsupportedError(
            f"{table.name}: the catalog has version {current} of its metadata, and beside it lies version "
            f"{max(listing.newest_version or 0, listing.newest_old_version or 0)}. Another catalog may have the "
            "table, or had one there, and its files look like orphans here. Nothing was removed. Move the newer "
            "metadata files away once nobody reads them"
        )
    _refuse_other_history(table, listing.unlogged_metadata, metadata_files)


def _refuse_other_history(table: IcebergTable, unlogged: Sequence[str], logged: Sequence[str]) -> None:
    """Refuse a table that another catalog has too and has left behind, by metadata whose base is not in the log.

    Metadata of a commit that failed has a base there. So only what has another such file before it is read.
    """
    numbered = sorted((metadata_version(each) or 0, each) for each in unlogged)
    numbers, names = {number for number, _ in numbered}, {name_key(each) for each in logged}
    for location in [each for number, each in numbered if number - 1 in numbers][-_READ:]:
        try:
            metadata = table.iceberg.TableMetadataParser.read(table.java.io(), location)
        except GatewayError:
            continue
        earlier = metadata.previousFiles()
        base = str(earlier[-1].file()) if earlier else None
        if base is not None and name_key(base) not in names:
            raise UnsupportedError(
                f"{table.name}: {location} is metadata that follows {base}, and neither is in this table's "
                "history. Another catalog may have the table, or had one there, and its files look like orphans here. "
                "Nothing was removed. Move these metadata files away once nobody reads them"
            )

"""Compare the files of a table's folders with those that its metadata reaches, on the cluster.

A file is compared by its path first, then by its name. One whose path ends like that of a live file may be that
file, by another root or mount. So may one of the same name on a disk, which has links. It stays, as nothing about it is
settled. Where metadata of another catalog or format lies in the folders, nothing is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.durations import epoch_millis
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.file_locations import SAME_STORES
from airflow_lake_provider.iceberg.file_ownership import AROUND, FileOwners
from airflow_lake_provider.iceberg.orphan_files import (
    ESCAPED,
    ESCAPES,
    METADATA_FILE,
    METADATA_NAME,
    OTHER_FORMATS,
    SLASHES,
    STORE,
    metadata_version,
    name_key,
    plain_path,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import GatewayError

# Of a location on this machine's disk, or on Hadoop's default file system, which may be one.
_DISKS = ("", "file")
UNSETTLED, ORPHAN = "unsettled", "orphan"
# Metadata files of a doubtful history that are read.
_READ = 20


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Numbers of a listing, hidden files left out but where they are named.

    :param files: of all ages.
    :param bytes: of them.
    :param newest_version: highest number of a metadata file beside the current one.
    :param newest_old_version: of those that are old enough to go.
    :param other_format: a file of another format's log, which may be hidden.
    :param other_metadata: a metadata file in a folder that has none of the table's.
    :param unlogged_metadata: metadata files beside the current one whose numbers the log spans, and which it lacks.
    """

    files: int
    bytes: int
    newest_version: int | None
    newest_old_version: int | None
    other_format: str | None
    other_metadata: str | None
    unlogged_metadata: tuple[str, ...]


@dataclass(frozen=True)
class ListedFiles:
    """Files below the folders of a table.

    :param rows: location, size, and last change in epoch milliseconds.
    :param folders: that were listed.
    :param hidden: pattern of paths below them that are no files of the table.
    :param before: moment before which a file was written that may go.
    """

    rows: DataFrame
    folders: Sequence[str]
    hidden: str
    before: datetime

    def listing(self, metadata_files: Sequence[str], metadata_folders: Iterable[str]) -> Listing:
        """Return the numbers of the listing.

        :param metadata_files: locations of those of the log, oldest first, and of the current one.
        :param metadata_folders: that may have such files of the table.
        """
        oldest, current = (metadata_version(metadata_files[place]) or 0 for place in (0, -1))
        folder = plain_path(metadata_files[-1]).rpartition("/")[0]
        name = sf.element_at(sf.split(path_of_location(), "/"), -1)
        is_metadata = name.rlike(METADATA_FILE) & (path_of_location() == sf.concat(sf.lit(f"{folder}/"), name))
        version = sf.when(is_metadata, sf.regexp_extract(name, METADATA_FILE, 1)).cast("bigint")
        own = [plain_path(each).rstrip("/") for each in metadata_folders]
        place = path_of_location().substr(sf.lit(1), sf.length(path_of_location()) - sf.length(name) - 1)
        is_other = name.rlike(METADATA_NAME) & ~self._is_hidden & ~place.isin(own)
        is_logged = name_of_location().isin([name_key(each) for each in metadata_files])
        is_unlogged = (version > oldest) & (version <= current) & ~is_logged
        shown = sf.when(~self._is_hidden, sf.lit(True))
        row = (
            self._below.agg(
                sf.count(shown).alias("files"),
                sf.sum(sf.when(~self._is_hidden, sf.col("size"))).alias("bytes"),
                sf.max(version).alias("version"),
                sf.max(sf.when(self._is_old, version)).alias("old_version"),
                sf.max(sf.when(sf.col("below").rlike(OTHER_FORMATS), sf.col("location"))).alias("other_format"),
                sf.max(sf.when(is_other, sf.col("location"))).alias("other_metadata"),
                sf.collect_set(sf.when(is_unlogged, sf.col("location"))).alias("unlogged_metadata"),
            )
        ).collect()[0]
        return Listing(
            files=row["files"],
            bytes=row["bytes"] or 0,
            newest_version=row["version"],
            newest_old_version=row["old_version"],
            other_format=row["other_format"],
            other_metadata=row["other_metadata"],
            unlogged_metadata=tuple(row["unlogged_metadata"]),
        )

    def unreached(self, live: DataFrame) -> Iterator[tuple[str, str, int, int]]:
        """Yield status, location, size and last change of the files that are old enough and not reached.

        :param live: locations that the metadata reaches.
        """
        place = sf.struct(_store().alias("store"), _authority().alias("authority"), _key().alias("key"))
        # Both ways to compare them read all metadata of the table.
        places = live.select(name_of_location().alias("name"), _key().alias("key"), place.alias("place")).persist()
        collected = sf.collect_set("place").alias("places")
        by_key, by_name = (places.groupBy(each).agg(collected) for each in ("key", "name"))
        mine = self._below.filter(self._is_old & ~self._is_hidden).withColumns(
            {"store": _store(), "authority": _authority(), "key": _key(), "name": name_of_location(), "end": _end()}
        )
        # Hive gives the files of all partitions one name: only a file that is not live is compared with all of them.
        is_live = sf.coalesce(sf.exists("places", _is_same), sf.lit(False))
        unknown = mine.join(by_key, "key", "left").filter(~is_live).drop("places")
        compared = unknown.join(by_name, "name", "left").withColumn("status", _status())
        try:
            for row in compared.select("status", "location", "size", "modified").toLocalIterator():
                yield row["status"], row["location"], row["size"], row["modified"]
        finally:
            places.unpersist()

    @property
    def _below(self) -> DataFrame:
        """The files with their paths below the folder that each is in."""
        path, below = path_of_location(), sf.lit(None).cast("string")
        for folder in self.folders:
            root = f"{plain_path(folder).rstrip('/')}/"
            inner = path.substr(sf.lit(len(root) + 1), sf.length(path))
            below = sf.when(path.startswith(root), inner).otherwise(below)
        return self.rows.withColumn("below", below).filter("below IS NOT NULL")

    @property
    def _is_hidden(self) -> Column:
        hidden = self.hidden
        return sf.col("below").rlike(hidden)

    @property
    def _is_old(self) -> Column:
        # A store that does not know the time says 0.
        modified = sf.col("modified")
        return sf.coalesce((modified > 0) & (modified < epoch_millis(self.before)), sf.lit(False))


def _is_same(place: Column) -> Column:
    """Tell whether a live file of the same path is in the same store, as far as both name it."""
    return _may_be_equal(place["store"], sf.col("store")) & _may_be_equal(place["authority"], sf.col("authority"))


def _status() -> Column:
    """Return the status of a file that is not live, by the live files of its name."""

    def ends_alike(place: Column) -> Column:
        return place["key"].endswith(sf.col("end"))

    def leads_elsewhere(place: Column) -> Column:
        """Tell whether the folder may be another one: by ``.`` and ``..``, or by a link of a disk."""
        is_on_disk = place["store"].isin(*_DISKS) & sf.col("store").isin(*_DISKS)
        return place["key"].rlike(AROUND) | is_on_disk

    may_be_live = sf.exists("places", ends_alike) | sf.exists("places", leads_elsewhere)
    return sf.when(sf.coalesce(may_be_live, sf.lit(False)), UNSETTLED).otherwise(ORPHAN)


def _may_be_equal(there: Column, here: Column) -> Column:
    return (there == here) | (there == "") | (here == "")


def without_escapes(path: Column) -> Column:
    """Replace the escapes of a path, and what may be escaped, as ``file_key`` does."""
    return sf.regexp_replace(sf.regexp_replace(path, ESCAPED, "?"), ESCAPES, "?")


def path_of_location() -> Column:
    """Return the same as ``plain_path`` of a column ``location``."""
    return sf.regexp_replace(sf.regexp_replace("location", STORE, ""), SLASHES, "/")


def _key() -> Column:
    return without_escapes(path_of_location())


def name_of_location() -> Column:
    """Return the same as ``name_key`` of a column ``location``."""
    return sf.element_at(sf.split(_key(), "/"), -1)


def _end() -> Column:
    return sf.concat(sf.lit("/"), without_escapes(sf.col("below")))


def _store() -> Column:
    scheme = sf.lower(sf.regexp_extract("location", "^([A-Za-z][A-Za-z0-9+.-]*):", 1))
    same = sf.create_map(*(sf.lit(each) for pair in SAME_STORES.items() for each in pair))
    return sf.coalesce(same[scheme], scheme)


def _authority() -> Column:
    given = sf.lower(sf.regexp_extract("location", "^[A-Za-z][A-Za-z0-9+.-]*://([^/]*)", 1))
    return sf.replace(given, sf.lit(".blob.core."), sf.lit(".dfs.core."))


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

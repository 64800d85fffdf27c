"""The files that only expired snapshots reach: found and checked before the commit, deleted after it.

Iceberg's own action commits first, so what it cannot read then is never deleted. And it deletes whatever the metadata
names, which whoever may write to the table decides.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.errors import CommitConflictError, LakeProviderError, UnsupportedError
from airflow_lake_provider.contracts.specs.maintenance import FOREIGN_FILES_REMEDY, ForeignFiles
from airflow_lake_provider.iceberg.file_ownership import OUTSIDE, FileOwners
from airflow_lake_provider.iceberg.orphan_files import plain_path
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import messages_with_path
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.reachable_files import (
    DATA,
    DELETES,
    MANIFEST,
    MANIFEST_LIST,
    STATISTICS,
    content_files,
    delete_files,
    few_manifests,
    files_in,
    frame_of,
    listed_files,
    other_files,
    reachable_files,
    static_table,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.unreached_files import path_of_location
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, guava, list_of_texts, texts_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, java_names

# Of deletion: what names a file goes after it.
_ORDER = ((DATA, DELETES, STATISTICS), (MANIFEST,), (MANIFEST_LIST,))
# Files of one command, and of one request where a store takes several.
_BATCH = 1_000
_NAMED = 3
# Files of a manifest that are looked for: an expiry has deleted all of them, or none yet.
_LOOKED_AT = 100
_MISSING = frozenset({"NotFoundException", "FileNotFoundException", "NoSuchFileException", "NoSuchKeyException"})
_BROKEN = frozenset({"InvalidAvroMagicException", "AvroRuntimeException", "EOFException"})


@dataclass
class ExpiredFiles:
    """Files that the metadata no longer names after an expiry, noted on this machine's disk.

    :param counts: by kind, of those to delete.
    :param foreign_counts: by kind and owner, of those that are not the table's.
    :param examples: locations of some of them.
    :param had_gone: manifests or their lists were gone already.
    """

    table: IcebergTable
    owners: FileOwners
    foreign: ForeignFiles
    _noted: IO[str]
    counts: Counter[str] = field(default_factory=Counter)
    foreign_counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    had_gone: bool = False

    def note(self, kind: str, location: str) -> None:
        """Take a file for one to delete, or count it as foreign.

        A data file outside of all tables' locations is what ``add_files`` or a migration has brought.
        """
        owner = self.owners.owner_of(location)
        if owner == self.owners.table.name or self.foreign is ForeignFiles.DELETE:
            self.counts[kind] += 1
            self._noted.write(json.dumps([kind, location]) + "\n")
            return
        whose = f"{kind}s outside of the table's locations" if owner == OUTSIDE else f"{kind}s of {owner}"
        self.foreign_counts[whose] += 1
        examples = self.examples.setdefault(whose, [])
        if len(examples) < _NAMED:
            examples.append(location)

    def refuse_foreign(self) -> None:
        """Refuse what is not the table's own, but for data files that lie in no table that was looked at.

        :raises UnsupportedError: there is such a file.
        """
        brought = f"{DATA}s outside of the table's locations"
        refused = [self._foreign_in_words(whose) for whose in sorted(self.foreign_counts) if whose != brought]
        if refused and self.foreign is ForeignFiles.REFUSE:
            raise UnsupportedError(
                f"{self.table.name}: the expiry would delete what may not be the table's: {'; '.join(refused)}. "
                f"Nothing was changed. See who wrote these names into its metadata. {FOREIGN_FILES_REMEDY}"
            )

    def warnings(self) -> list[str]:
        """Say which files were kept, and what could not be looked into."""
        kept = [
            f"kept, though no snapshot reaches them: {self._foreign_in_words(whose)}"
            for whose in sorted(self.foreign_counts)
        ]
        gone = (
            "manifests of expired snapshots were gone already, as an expiry leaves them that is cut off; if none has "
            "taken them, Iceberg's remove_orphan_files finds what they named"
        )
        return [*kept, gone] if self.had_gone else kept

    def delete(self, still_named: Collection[str] = ()) -> tuple[dict[str, int], list[str]]:
        """Delete the files: first those that manifests name, then manifests, then their lists.

        Where one cannot be deleted, what names it stays: the next expiry finds it again.

        :param still_named: locations that a snapshot names after all.
        :return: files deleted, by kind, and warnings of what could not be deleted.
        """
        deleted, named = Counter[str](), {plain_path(each) for each in still_named}
        for kinds in _ORDER:
            failed: Counter[str] = Counter()
            for kind, locations in self._batches(kinds, named):
                failed[kind] += (left := delete_files(self.table, locations))
                deleted[kind] += len(locations) - left
            if failed.total():
                return dict(deleted), [_not_deleted(failed)]
        return dict(deleted), []

    def _batches(self, kinds: Collection[str], named: Collection[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield kind and locations of the noted files of some kinds, but for those of some paths."""
        self._noted.seek(0)
        while batch := [json.loads(line) for line in islice(self._noted, _BATCH)]:
            for kind in kinds:
                if locations := [each for of, each in batch if of == kind and plain_path(each) not in named]:
                    yield kind, locations

    def _foreign_in_words(self, whose: str) -> str:
        return f"{self.foreign_counts[whose]:,} {whose}, such as {', '.join(self.examples[whose])}"


@contextmanager
def expired_files(
    table: IcebergTable, owners: FileOwners, foreign: ForeignFiles, before: Any, after: Any, *, was_begun: bool = False
) -> Iterator[ExpiredFiles]:
    """Find the files that ``before`` names and ``after`` does not.

    :param before: ``org.apache.iceberg.TableMetadata`` of the table.
    :param after: the same without the expired snapshots, not committed yet.
    :param was_begun: an earlier expiry may have deleted part of them.
    :raises UnsupportedError: a file of the metadata is missing.
    :raises CommitConflictError: another expiry has deleted it meanwhile.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as noted:
        expired = ExpiredFiles(table, owners, foreign, noted)
        try:
            for kind, location in _unreachable(table, before, after):
                expired.note(kind, location)
        except SPARK_ERRORS as error:
            left = _left_of(table, before, after) if was_begun and is_missing(error, _MISSING) else None
            if left is None and not is_missing(error):
                raise
            if left is None:
                # What an earlier expiry had is forgotten since then.
                raise unreadable_files(table, error, after if was_begun else before) from error
            noted.seek(0)
            noted.truncate()
            expired = ExpiredFiles(table, owners, foreign, noted, had_gone=True)
            for kind, location in left:
                expired.note(kind, location)
        yield expired


def is_missing(error: Exception, kinds: frozenset[str] = _MISSING | _BROKEN) -> bool:
    """Tell whether an error says that a file is missing or broken."""
    # An executor's error has its cause as text alone.
    names = java_names(error)
    return any(name in names or name in str(error) for name in kinds)


def unreadable_files(table: IcebergTable, error: Exception, read: Any) -> LakeProviderError:
    """Return the refusal of what needs every file of the metadata, one of which is missing or broken.

    :param read: ``org.apache.iceberg.TableMetadata`` whose files were read. Where the table has lost snapshots of it,
        their files are gone by right.
    """
    ids = texts_of(table.spark, read.snapshots(), java_functions(table.spark).snapshot_id)
    if not table.refresh().facts.snapshots.keys() >= set(ids):
        return CommitConflictError(
            f"{table.name}: another expiry has forgotten snapshots and deleted their files while these were looked "
            "at. Nothing was changed. Run it again"
        )
    return UnsupportedError(
        f"{table.name}: a file that a snapshot names is missing or broken, so it cannot be told which files no "
        f"other snapshot reaches; nothing was changed: {messages_with_path(error)}. Bring the file back from a copy. "
        "Where there is none, drop the branches and tags that keep the snapshot. Iceberg's expire_snapshots then "
        "forgets it, and remove_orphan_files finds what it leaves"
    )


def _left_of(table: IcebergTable, before: Any, after: Any) -> list[tuple[str, str]] | None:
    """Return what an expiry has left that had begun to delete manifests; None where that cannot be told.

    It deletes them once all is deleted that they name. Where something of that is there, somebody else has taken them.
    """
    try:
        named = reachable_files(table, after, before.metadataFileLocation())
        expired = _without(table, before, after)
        static = static_table(table, expired, before.metadataFileLocation())
        manifests, files = _manifests_of(table, expired, static)
        left = [each for each in _unnamed(frame_of(table, files), named) if _exists(table, each[1])]
        manifests_left = [manifests[location] for kind, location in left if kind == MANIFEST]
        content = files_in(table, manifests_left, before.specsById(), _LOOKED_AT)
        is_taken = any(_exists(table, location) for _, location in _unnamed(frame_of(table, content), named))
    except SPARK_ERRORS:
        return None
    return None if is_taken else left


def _manifests_of(table: IcebergTable, expired: Any, static: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return manifests by location, and kind and location of them, of their lists and of statistics.

    A list goes last, so of a snapshot without one nothing is left.
    """
    manifests: dict[str, Any] = {}
    lists = []
    for snapshot in JavaItems(table.spark, expired.snapshots()):
        listed = snapshot.manifestListLocation()
        if listed is None or _exists(table, str(listed)):
            lists += [] if listed is None else [(MANIFEST_LIST, str(listed))]
            of_list = JavaItems(table.spark, snapshot.allManifests(table.java.io()))
            manifests.update((str(each.path()), each) for each in of_list)
    statistics = table.iceberg.ReachableFileUtil.statisticsFilesLocations(static)
    files = [*((MANIFEST, each) for each in manifests), *lists, *((STATISTICS, str(each)) for each in statistics)]
    return manifests, files


def _exists(table: IcebergTable, location: str) -> bool:
    return bool(table.java.io().newInputFile(location).exists())


def _not_deleted(failed: Counter[str]) -> str:
    kinds = ", ".join(f"{kind}s: {number:,}" for kind, number in sorted(failed.items()) if number)
    return f"storage did not delete all files ({kinds} are left); the next expiry tries again"


def _unreachable(table: IcebergTable, before: Any, after: Any) -> Iterator[tuple[str, str]]:
    """Yield kind and location of the files that only ``before`` names.

    A location is one file, whatever names it and however it is spelled. So a statistics file that is named like a live
    data file is not yielded.
    """
    location, expired = before.metadataFileLocation(), _without(table, before, after)
    gone = static_table(table, expired, location)
    few = few_manifests(table, expired, after)
    if few is None:
        files = content_files(table, gone).unionAll(other_files(table, gone))
        yield from _unnamed(files, reachable_files(table, after, location))
        return
    of_expired, of_left = few
    # What is in a manifest of both is named.
    alone = [manifest for path, manifest in of_expired.items() if path not in of_left]
    files_gone = files_in(table, alone, before.specsById()) + [(MANIFEST, path) for path in of_expired]
    named = files_in(table, of_left.values(), before.specsById()) + [(MANIFEST, path) for path in of_left]
    files_gone += listed_files(table, gone)
    named += listed_files(table, static_table(table, after, location), [location, *table.metadata_log()])
    kept = {plain_path(path) for _, path in named}
    yield from {each: None for each in files_gone if plain_path(each[1]) not in kept}


def _unnamed(files: DataFrame, named: DataFrame) -> Iterator[tuple[str, str]]:
    """Yield kind and location of the files that are not named."""
    # hdfs://nn/x and /x are one file, and a store has several names.
    file = path_of_location()
    unnamed = files.withColumn("file", file).join(named.select(file.alias("file")), "file", "left_anti")
    for row in unnamed.distinct().toLocalIterator():
        yield row["kind"], row["location"]


def _without(table: IcebergTable, before: Any, after: Any) -> Any:
    """Return the metadata with the expired snapshots alone."""
    ids = texts_of(table.spark, after.snapshots(), java_functions(table.spark).snapshot_id)
    builder = table.iceberg.TableMetadata.buildFrom(before)
    return builder.removeSnapshots(_numbers(table, ids)).build() if ids else before


def _numbers(table: IcebergTable, texts: Collection[str]) -> Any:
    """Return numbers as a Java set; py4j would make an Integer of a small one."""
    library = guava(table.spark)
    longs = library.collect.Lists.transform(
        list_of_texts(table.spark, texts), library.primitives.Longs.stringConverter()
    )
    return library.collect.Sets.newHashSet(longs)

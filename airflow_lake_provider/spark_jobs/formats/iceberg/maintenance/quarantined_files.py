"""Files that were moved aside, in a hidden folder of the table's location, and how they come back.

A file is copied, its size compared, and only then deleted. What is to be moved is written to a journal before. So
whatever moment a driver is killed at, the file is whole in one of both places, and the journal names both.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.durations import epoch_millis
from airflow_lake_provider.contracts.errors import BrokenInvariantError, UnsupportedError
from airflow_lake_provider.contracts.file_locations import is_below, normalised, normalised_folder
from airflow_lake_provider.iceberg.file_ownership import FileOwners
from airflow_lake_provider.iceberg.orphan_files import QUARANTINE, name_key
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import root_message
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.expired_files import is_missing
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.listed_files import chunks_of_listing
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.moved_files import NOT_OWN, OCCUPIED, MovedFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.reachable_files import (
    delete_files,
    reachable_files,
    sizes_of_content,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.unreached_files import name_of_location
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, JavaError
from airflow_lake_provider.spark_jobs.sql.older_pyspark import dataframe_of

_JOURNAL = ".moves.jsonl"
# What a run of ours has put there: a file that it moved, or a journal.
_MOVED = re.compile(rf"/{QUARANTINE}/\d{{8}}T\d{{6}}-[0-9a-f]{{8}}/\d{{6}}(?:-\d{{4}}-[^/]*|{re.escape(_JOURNAL)})$")
# Iceberg's writers give a UUID. A task of Spark without Iceberg gives one, too, but to its files of all partitions.
_GIVEN_ONCE = re.compile(r"^(?!part-).*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Before the name that a moved file had: the numbers of its journal, and of the file in it.
_PREFIX = len("000001-0000-")
# For each the metadata is read once; storage takes fewer at a time.
_BATCH = 100_000
_NAMED = 3


def _begins_with(spark: SparkSession, one: Any, other: Any, size: int) -> bool:
    """Tell whether the first bytes of a stream of Java are those of another one.

    :param size: of the other one.
    """
    io = jvm_of(spark).org.apache.commons.io
    return bool(io.IOUtils.contentEquals(io.input.BoundedInputStream(one, size), other))


def _journal_of(moved: str) -> str:
    """Return the journal of a moved file."""
    folder, _, name = moved.rpartition("/")
    return f"{folder}/{re.split('[-.]', name)[0]}{_JOURNAL}"


def _new_run() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def _quarantine_of(location: str) -> str:
    return f"{location.rstrip('/')}/{QUARANTINE}"


def _earlier_quarantines(owners: FileOwners) -> Iterator[str]:
    """Yield the quarantines of where the table lay before, but for those where another table is now."""
    for folder in (_quarantine_of(each.location) for each in owners.earlier):
        if owners.owner_of(f"{folder}/_") == owners.table.name:
            yield folder


def _is_own(folder: str, aside: str, home: str, owners: FileOwners) -> bool:
    """Tell whether a move is of the table's own files, into this quarantine: anybody may have written it."""
    root = owners.default_root
    is_here = is_below(normalised(aside, root), normalised_folder(folder, root))
    return is_here and owners.owner_of(home) == owners.table.name


@dataclass
class QuarantinedFiles:
    """Files of a table that lie in its quarantine.

    :param run: folder of what this run moves.
    """

    table: IcebergTable
    run: str = field(default_factory=_new_run)
    _journals: int = 0

    @property
    def folder(self) -> str:
        """Folder of the table's location that has them all."""
        return _quarantine_of(self.table.facts.location)

    def put(self, files: Sequence[tuple[str, int]]) -> MovedFiles:
        """Move files there. One that is gone was not moved, and is no failure.

        :param files: location and size.
        """
        self._journals += 1
        start = f"{self.folder}/{self.run}/{self._journals:06}"
        moves: list[dict[str, Any]] = [
            {"from": location, "to": f"{start}-{place:04}-{location.rpartition('/')[2]}", "size": size}
            for place, (location, size) in enumerate(files)
        ]
        self._write(f"{start}{_JOURNAL}", moves)
        moved = MovedFiles()
        for move in moves:
            if (length := self._length(move["from"])) is not None:
                moved.note(self._move(move["from"], move["to"], move["size"], length))
        return moved

    def restore(self, owners: FileOwners) -> MovedFiles:
        """Move all files back.

        :param owners: a journal can name any file; only the table's own come back.
        """
        restored = MovedFiles()
        for folder in self._folders(owners):
            for journal in [location for location, *_ in self._listed(folder) if location.endswith(_JOURNAL)]:
                moved = MovedFiles()
                self._restore(journal, folder, owners, moved)
                if not moved.failures:
                    self.table.java.io().deleteFile(journal)
                elif folder not in restored.left_in:
                    restored.left_in.append(folder)
                restored.add(moved)
        return restored

    def _folders(self, owners: FileOwners) -> Iterable[str]:
        """Return the quarantine, and those of where the table lay before."""
        return dict.fromkeys((self.folder, *_earlier_quarantines(owners)))

    def _restore(
        self,
        journal: str,
        folder: str,
        owners: FileOwners,
        restored: MovedFiles,
        only: Collection[str] | None = None,
    ) -> None:
        """Move the files of a journal back.

        :param only: names of some in the quarantine. They stay there, too: another run may be reading them. None for
            all.
        """
        for move in self._read(journal):
            home, aside, size = str(move["from"]), str(move["to"]), int(move["size"])
            if (only is not None and aside.rpartition("/")[2] not in only) or self._length(aside) != size:
                # Nobody asked for it, it was not moved, or is back already.
                continue
            is_own = _is_own(folder, aside, home, owners)
            why = self._bring_back(aside, home, size) if is_own else NOT_OWN
            if why is None and only is None:
                self.table.java.io().deleteFile(aside)
            restored.note(why)

    def _bring_back(self, aside: str, home: str, size: int) -> str | None:
        """Bring a file back, or return why not. What came there since, by another writer, stays.

        The beginning of the file is what a restore leaves that was killed, or could not write on.
        """
        there = self._length(home)
        if there is None:
            return self._copy(aside, home, size)
        if there > size or not self._is_beginning(home, aside, there):
            return OCCUPIED
        return None if there == size else self._copy(aside, home, size)

    def _is_beginning(self, home: str, aside: str, length: int) -> bool:
        """Tell whether a file of a length is the beginning of another one, which is as long at least."""
        io = self.table.java.io()
        with (
            closing(io.newInputFile(aside).newStream()) as one,
            closing(io.newInputFile(home).newStream()) as other,
        ):
            return _begins_with(self.table.spark, one, other, length)

    @contextmanager
    def brought_back_if_refused(self, owners: FileOwners) -> Iterator[None]:
        """Bring back what a commit has named since, where a removal is refused; nothing is deleted then.

        :param owners: as of :meth:`purge`.
        :raises BrokenInvariantError: as :meth:`purge`.
        """
        try:
            yield
        except UnsupportedError:
            # What cannot be read is mostly what was refused.
            with suppress(*SPARK_ERRORS):
                self.purge(None, owners)
            raise

    def purge(self, before: datetime | None, owners: FileOwners) -> int:
        """Delete what was moved before a moment, and return the number of files.

        What has another name than files that were moved, or no time, stays. A file that a writer has committed since,
        and that the quarantine alone has whole, comes back, whenever it was moved. A journal goes after its files,
        which come back by it.

        :param before: None deletes nothing.
        :param owners: of the folders where the table lay before.
        :raises BrokenInvariantError: there are such files, which a writer may bring again; those of old moves are gone.
        """
        quarantines, old_journals, kept = dict[str, str](), list[str](), set[str]()
        needed, purged = dict[str, str](), 0
        end = 0 if before is None else epoch_millis(before)
        moved = self._moved(end, owners, quarantines, old_journals, kept)
        while batch := list(islice(moved, _BATCH)):
            needed |= (live := self._live_alone([(location, size) for location, size, _ in batch]))
            purged += self._deleted([location for location, _, is_old in batch if is_old and location not in live])
        kept.update(map(_journal_of, needed))
        self._deleted([journal for journal in old_journals if journal not in kept])
        if needed:
            raise self._named_since(needed, purged, self._brought_back(needed, quarantines, owners))
        return purged

    def _named_since(self, needed: dict[str, str], purged: int, back: MovedFiles) -> BrokenInvariantError:
        stay = len(needed) - back.moved
        advice = f"copy them by hand: below {self.folder} their names end as in the metadata"
        left = f"; {stay:,} could not be copied ({back.causes or 'no journal names them'}), {advice}" if stay else ""
        return BrokenInvariantError(
            f"{self.table.name}: a commit has named {len(needed):,} files after they were moved to the quarantine, "
            f"such as {', '.join(list(needed.values())[:_NAMED])}. {back.moved:,} are back at their place{left}. "
            f"{purged:,} others were deleted after their time there, and no orphan file was removed. No writer names "
            "files of its own that are a day old: find it, and make older_than longer than it takes"
        )

    def _brought_back(
        self, needed: Mapping[str, str], quarantines: Mapping[str, str], owners: FileOwners
    ) -> MovedFiles:
        """Move some files of the quarantine back, to where their journals say; or the metadata, where those are gone.

        :param needed: location there, and in the metadata.
        :param quarantines: folders by the journals in them.
        """
        back, names = MovedFiles(), dict[str, set[str]]()
        for location in needed:
            names.setdefault(_journal_of(location), set()).add(location.rpartition("/")[2])
        for journal in names.keys() & quarantines.keys():
            self._restore(journal, quarantines[journal], owners, back, names[journal])
        unlisted = {aside: home for aside, home in needed.items() if _journal_of(aside) not in quarantines}
        for aside, size in self._sizes_of_sure(unlisted, owners).items():
            back.note(self._bring_back(aside, unlisted[aside], size))
        return back

    def _sizes_of_sure(self, needed: Mapping[str, str], owners: FileOwners) -> dict[str, int]:
        """Return the sizes of those that are the very files of the metadata: a name given once, and its size."""
        own = {
            aside: home
            for aside, home in needed.items()
            if _GIVEN_ONCE.search(home.rpartition("/")[2]) and owners.owner_of(home) == owners.table.name
        }
        sizes = sizes_of_content(self.table, set(own.values())) if own else {}
        return {aside: sizes[home] for aside, home in own.items() if self._length(aside) == sizes.get(home, -1)}

    def _deleted(self, locations: list[str]) -> int:
        """Delete files and return how many are gone."""
        return len(locations) - delete_files(self.table, locations)

    def _moved(
        self, end: int, owners: FileOwners, quarantines: dict[str, str], old_journals: list[str], kept: set[str]
    ) -> Iterator[tuple[str, int, bool]]:
        """Yield the files that were moved, their sizes, and whether that was before a moment.

        :param end: epoch milliseconds.
        :param quarantines: filled with the journals, and the folders in which they lie.
        :param old_journals: filled with those that are as old.
        :param kept: filled with the journals of files that are not.
        """
        for folder in self._folders(owners):
            for location, size, at in self._listed(folder):
                if not _MOVED.search(location):
                    continue
                # A store that does not know the time says 0.
                is_old = 0 < at < end
                if not is_old:
                    kept.add(_journal_of(location))
                if not location.endswith(_JOURNAL):
                    yield location, size, is_old
                    continue
                quarantines[location] = folder
                if is_old:
                    old_journals.append(location)

    def _live_alone(self, moved: Sequence[tuple[str, int]]) -> dict[str, str]:
        """Return those of some files of the quarantine that a snapshot names, and that are not whole at their place.

        :param moved: location and size.
        """
        table = self.table.refresh()
        current = table.java.operations().current()
        live = reachable_files(table, current, str(current.metadataFileLocation()))
        places, sizes = zip(*moved, strict=True)
        names = pa.table({"name": [name_key(each)[_PREFIX:] for each in places], "moved": places, "size": sizes})
        # Most writers give a name once. Hive gives it in each partition: all files of such a name then stay.
        aside = dataframe_of(table.spark, names)
        rows = live.withColumn("name", name_of_location()).join(aside, "name")
        pairs = rows.select("moved", "location", "size").distinct().toLocalIterator()
        return {moved: home for moved, home, size in pairs if self._is_missing_in_part(home, moved, size)}

    def _is_missing_in_part(self, home: str, aside: str, size: int) -> bool:
        """Tell whether a file is not at its place, or its beginning alone, which a run leaves that is killed."""
        there = self._length(home)
        return there is None or (there < size and self._is_beginning(home, aside, there))

    def _listed(self, folder: str) -> Iterator[tuple[str, int, int]]:
        """Yield location, size and last change of the files of a quarantine."""
        for chunk in chunks_of_listing(self.table, folder):
            yield from zip(*(chunk[column].to_pylist() for column in ("location", "size", "modified")), strict=True)

    def _move(self, source: str, target: str, size: int, length: int) -> str | None:
        """Move a file, or return why that failed."""
        if length != size:
            return "its size is not the listed one"
        if (why := self._copy(source, target, size)) is not None:
            return why
        try:
            self.table.java.io().deleteFile(source)
        except JavaError as error:
            return root_message(error)
        return None

    def _copy(self, source: str, target: str, size: int) -> str | None:
        """Copy a file, or return why the copy is not as long as the file was."""
        io = self.table.java.io()
        try:
            with (
                closing(io.newInputFile(source).newStream()) as given,
                closing(io.newOutputFile(target).createOrOverwrite()) as taken,
            ):
                given.transferTo(taken)
        except JavaError as error:
            return root_message(error)
        return None if self._length(target) == size else "the copy has another size"

    def _length(self, location: str) -> int | None:
        """Return the bytes of a file; None where there is none."""
        try:
            return int(self.table.java.io().newInputFile(location).getLength())
        except JavaError as error:
            if is_missing(error):
                return None
            raise

    def _write(self, location: str, moves: Sequence[dict[str, Any]]) -> None:
        text = "".join(f"{json.dumps(move)}\n" for move in moves)
        with closing(self.table.java.io().newOutputFile(location).create()) as stream:
            stream.write(bytearray(text.encode()))

    def _read(self, location: str) -> list[dict[str, Any]]:
        with closing(self.table.java.io().newInputFile(location).newStream()) as stream:
            lines = bytes(stream.readAllBytes()).decode(errors="replace").splitlines()
        moves: list[dict[str, Any]] = []
        for line in lines:
            # No move begins before its journal is whole.
            with suppress(ValueError):
                moves.append(json.loads(line))
        return moves

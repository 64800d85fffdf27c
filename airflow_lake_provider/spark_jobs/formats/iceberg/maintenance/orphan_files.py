"""Orphan files of an Iceberg table: found, checked, and then removed, quarantined or restored.

The files are listed first, and only then is it read what the metadata reaches. It is read again before each batch that
goes, so that a writer who commits an old file in between keeps it.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import IO, Any

from airflow_lake_provider.contracts.errors import BrokenInvariantError, CommitConflictError, UnsupportedError
from airflow_lake_provider.contracts.file_locations import is_below, normalised
from airflow_lake_provider.contracts.reports.job import OrphanFilesReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import (
    MINIMUM_AGE,
    OrphanFilesSpec,
    PrefixMismatchMode,
    RemovalMode,
)
from airflow_lake_provider.contracts.table_properties import UNFINISHED_EXPIRY
from airflow_lake_provider.iceberg.file_ownership import OUTSIDE, FileOwners, declared_paths
from airflow_lake_provider.iceberg.orphan_files import (
    OTHER,
    hidden,
    kind_of,
    metadata_version,
    name_key,
    removable_before,
)
from airflow_lake_provider.iceberg.table_obstacles import unfit_for, without_expiry
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.expired_files import is_missing, unreadable_files
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.file_owners import file_owners
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.listed_files import inventory_files, listed_files
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.moved_files import MovedFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.quarantined_files import QuarantinedFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.reachable_files import (
    delete_files,
    frame_of,
    named_by,
    reachable_files,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.unreached_files import (
    UNSETTLED,
    ListedFiles,
    Listing,
    metadata_folders,
    refuse_foreign_metadata,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.progress import Progress

# Files between two looks at the table; a copy takes longer than a request to delete a thousand.
_BATCHES = {RemovalMode.DELETE: 1_000, RemovalMode.QUARANTINE: 100}
_EXAMPLES = 10
_NOT_DELETED = "storage did not delete it, as the driver's log says"
_NAMED = 3


@dataclass
class _Orphans:
    """Files that the metadata does not reach, noted on this machine's disk.

    :param left: those that stay, by why; examples of each.
    :param unsettled: locations that may be those of live files.
    """

    owners: FileOwners
    noted: IO[str]
    by_kind: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    oldest: int | None = None
    newest: int | None = None
    examples: list[str] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    left_examples: dict[str, list[str]] = field(default_factory=dict)
    unsettled: int = 0
    unsettled_examples: list[str] = field(default_factory=list)

    def note(self, status: str, location: str, size: int, modified: int) -> None:
        """Take a file for an orphan, or say why it stays."""
        if status == UNSETTLED:
            self.unsettled += 1
            if len(self.unsettled_examples) < _NAMED:
                self.unsettled_examples.append(location)
            return
        kind = kind_of(location)
        if (why := self._why_left(kind, location)) is not None:
            self.left[why] += 1
            self.left_examples.setdefault(why, []).append(location)
            del self.left_examples[why][_NAMED:]
            return
        self.by_kind[kind] += 1
        self.bytes += size
        self.oldest = modified if self.oldest is None else min(self.oldest, modified)
        self.newest = modified if self.newest is None else max(self.newest, modified)
        if len(self.examples) < _EXAMPLES:
            self.examples.append(location)
        self.noted.write(json.dumps([location, size]) + "\n")

    def _why_left(self, kind: str, location: str) -> str | None:
        owner = self.owners.owner_of(location)
        if owner == OUTSIDE:
            return "a link or a path leads out of the table's locations"
        if owner != self.owners.table.name:
            return f"they lie in a location of {owner}"
        return "no writer of Iceberg gives such names" if kind == OTHER else None

    def batches(self, size: int) -> Iterator[list[tuple[str, int]]]:
        """Yield location and size of the orphans, some at a time."""
        self.noted.seek(0)
        while batch := [json.loads(line) for line in islice(self.noted, size)]:
            yield [(location, length) for location, length in batch]

    def warnings(self) -> Iterator[str]:
        """Say which files stay."""
        for why, count in sorted(self.left.items()):
            yield f"{count:,} files stay, as {why}: {', '.join(self.left_examples[why])}"


def remove_orphans(table: IcebergTable, spec: OrphanFilesSpec, progress: Progress) -> OrphanFilesReport:
    """Find the orphan files of a table, and do with them what the mode says.

    :return: the outcome ``skipped`` where the table says ``gc.enabled=false``, or its files cannot be told.
    :raises UnsupportedError: a file may be another table's, or a live one by another name; or too many would go.
    :raises CommitConflictError: another expiry has deleted files of the metadata meanwhile.
    :raises BrokenInvariantError: a commit has named files that are orphans, or that were.
    :raises JobFailedError: storage took none of the files.
    """
    before = table.refresh().state()
    if (why := unfit_for(table.facts.shape, "remove-orphans")) is not None:
        return OrphanFilesReport(table=spec.table, outcome=Outcome.SKIPPED, reason=why, before=before, after=before)
    with progress.phase("check owners"):
        owners, _ = file_owners(table)
    with QuarantinedFiles(table).brought_back_if_refused(owners) if spec.mode.removes else nullcontext():
        _refuse_twins(table, owners)
        if spec.mode is RemovalMode.RESTORE:
            report = _restored(table, spec, owners, progress)
        else:
            with tempfile.TemporaryFile("w+", encoding="utf-8") as noted:
                report = _removed(table, spec, _Orphans(owners, noted), progress)
    return replace(report, before=before, after=table.state(), seconds=dict(progress.seconds))


def _restored(table: IcebergTable, spec: OrphanFilesSpec, owners: FileOwners, progress: Progress) -> OrphanFilesReport:
    with progress.phase("restore files") as facts:
        restored = QuarantinedFiles(table).restore(owners)
        facts["files"] = restored.moved
    left = f"{restored.failures.total():,} files could not be moved back, and stay in {' and '.join(restored.left_in)}"
    if restored.failures and not restored.moved:
        raise restored.error(f"{table.name}: {left}")
    return OrphanFilesReport(
        table=spec.table,
        outcome=Outcome.DONE if restored.moved else Outcome.NOTHING_DUE,
        reason=f"{restored.moved:,} files were moved back from the quarantine",
        mode=spec.mode.value,
        files_restored=restored.moved,
        warnings=(f"{left}: {restored.causes}",) if restored.failures else (),
    )


def _removed(table: IcebergTable, spec: OrphanFilesSpec, orphans: _Orphans, progress: Progress) -> OrphanFilesReport:
    now = datetime.now(UTC)
    before, later = removable_before(table.facts, spec.remove_before, now, MINIMUM_AGE, spec.flink_jobs_older_than)
    version_before = metadata_version(_metadata_file(table)) or 0
    with progress.phase("list files") as facts:
        files = _listed(table, spec, orphans.owners.default_root, before)
        current = _metadata_file(table.refresh())
        metadata_files = [*table.metadata_log(), current]
        listing = files.listing(metadata_files, metadata_folders(orphans.owners, metadata_files))
        facts["files"] = listing.files
    refuse_foreign_metadata(table, listing, metadata_files)
    with progress.phase("find orphan files") as facts:
        reached = _Reached(table)
        _compare(table, files, orphans)
        facts["files"] = (count := orphans.by_kind.total())
    share = count / listing.files if listing.files else 0.0
    refusals = list(_refusals(spec, orphans, listing, share, version_before))
    if refusals and spec.mode.removes:
        raise UnsupportedError(f"{table.name}: {'; '.join(refusals)}. Nothing was removed")
    removed, purged, warnings = 0, 0, list[str]()
    if spec.mode.removes:
        with progress.phase("remove files") as facts:
            # A file there that came late is a reason to remove no more.
            purged = QuarantinedFiles(table).purge(now - spec.quarantine_for, orphans.owners)
            removed = (result := _remove(table, spec, orphans, reached)).moved
            facts.update({"files": removed, "purged files": purged})
        warnings = _left_over(table, result, is_nothing_gone=not removed + purged)
    return OrphanFilesReport(
        table=spec.table,
        outcome=_outcome(spec, count, removed + purged),
        reason=_sentence(spec, count, orphans, removed, before),
        mode=spec.mode.value,
        written_before=before,
        files_listed=listing.files,
        bytes_listed=listing.bytes,
        orphans=dict(sorted(orphans.by_kind.items())),
        orphan_bytes=orphans.bytes,
        oldest=_moment(orphans.oldest),
        newest=_moment(orphans.newest),
        share=round(share, 6),
        examples=tuple(orphans.examples),
        files_removed=removed,
        files_purged=purged,
        warnings=(*([later] if later else []), *_refused_removals(refusals, spec), *orphans.warnings(), *warnings),
    )


def _refused_removals(refusals: list[str], spec: OrphanFilesSpec) -> list[str]:
    unknown = (f"the folders of {each} are not known" for each in spec.unknown_tables)
    return [f"a removal would be refused: {refusal}" for refusal in (*refusals, *unknown)]


def _left_over(table: IcebergTable, result: MovedFiles, *, is_nothing_gone: bool) -> list[str]:
    """Warn of files that could not be removed, or raise where none was."""
    if not result.failures:
        return []
    left = f"{result.failures.total():,} orphan files could not be removed; the next run tries again"
    if is_nothing_gone:
        raise result.error(f"{table.name}: {left}")
    return [f"{left}: {result.causes}"]


def _outcome(spec: OrphanFilesSpec, count: int, removed: int) -> Outcome:
    if not spec.mode.removes:
        return Outcome.PLANNED if count else Outcome.NOTHING_DUE
    return Outcome.DONE if removed else Outcome.NOTHING_DUE


def _sentence(spec: OrphanFilesSpec, count: int, orphans: _Orphans, removed: int, before: datetime) -> str:
    started = (
        f"{count:,} files with {orphans.bytes:,} bytes that no metadata names were written before "
        f"{before:%Y-%m-%d %H:%M} UTC"
    )
    if not spec.mode.removes:
        return f"{started}; a dry run removes none"
    what = "moved to the quarantine" if spec.mode is RemovalMode.QUARANTINE else "deleted"
    return f"{started}; {removed:,} were {what}"


def _moment(millis: int | None) -> datetime | None:
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)


def _listed(table: IcebergTable, spec: OrphanFilesSpec, default_root: str, before: datetime) -> ListedFiles:
    facts = table.facts
    folders = _outermost([facts.location, *declared_paths(facts.properties)], default_root)
    if spec.inventory is None:
        rows = listed_files(table, folders)
    else:
        rows = inventory_files(table, spec.inventory, _metadata_file(table).rpartition("/")[0])
    fields = facts.shape.partition_fields(of_all_specs=True)
    return ListedFiles(rows, folders, hidden(each.name for each in fields), before)


def _outermost(folders: list[str], default_root: str) -> list[str]:
    """Return folders without those that lie in another one, which would be listed twice."""
    kept: dict[str, str] = {}
    for spelled, folder in sorted((normalised(f"{each}/_", default_root), each) for each in folders):
        if not any(is_below(spelled, root.removesuffix("/_")) for root in kept):
            kept[spelled] = folder
    return list(kept.values())


def _metadata_file(table: IcebergTable) -> str:
    return str(table.java.operations().current().metadataFileLocation())


def _refuse_twins(table: IcebergTable, owners: FileOwners) -> None:
    if twins := [f"{name} has the same {what}" for name, what in owners.twins()]:
        raise UnsupportedError(
            f"{table.name}: {'; '.join(twins)}, so what one does not reach may be what the other one reads. Nothing "
            "was removed. Drop one of them without PURGE"
        )


def _compare(table: IcebergTable, files: ListedFiles, orphans: _Orphans) -> None:
    current = table.java.operations().current()
    live = reachable_files(table, current, _metadata_file(table))
    unfinished = table.properties().get(UNFINISHED_EXPIRY)
    if unfinished is not None:
        live = live.unionAll(frame_of(table, [("metadata file", unfinished)]))
    # A catalog of a folder alone says by it which metadata is the newest.
    hint = f"{table.facts.location.rstrip('/')}/metadata/version-hint.text"
    live = live.unionAll(frame_of(table, [("metadata file", hint)]))
    try:
        for status, location, size, modified in files.unreached(live):
            orphans.note(status, location, size, modified)
    except SPARK_ERRORS as error:
        if is_missing(error):
            raise unreadable_files(table, error, current) from error
        raise


def _refusals(
    spec: OrphanFilesSpec, orphans: _Orphans, listing: Listing, share: float, version_before: int
) -> Iterator[str]:
    if orphans.unsettled and spec.prefix_mismatch_mode is PrefixMismatchMode.ERROR:
        yield (
            f"{orphans.unsettled:,} files may be live ones, which the metadata names by another scheme, authority or "
            f"root, such as {', '.join(orphans.unsettled_examples)}; prefix_mismatch_mode='ignore' leaves them"
        )
    if share > spec.max_share:
        yield (
            f"{orphans.by_kind.total():,} of {listing.files:,} files are orphans, {share:.1%}, and max_share allows "
            f"{spec.max_share:.1%}; look at a dry run's examples, and raise it if they are right"
        )
    if spec.inventory is not None and (listing.newest_version or 0) < version_before:
        yield (
            f"inventory {spec.inventory!r} is older than version {version_before} of the metadata, and the table's "
            "FileIO lists no files, so nobody sees whether another catalog has the table since; take a new inventory"
        )


def _remove(table: IcebergTable, spec: OrphanFilesSpec, orphans: _Orphans, reached: _Reached) -> MovedFiles:
    """Delete or move the files, with a look at the table before each batch of them."""
    quarantine, removed, kept = QuarantinedFiles(table), MovedFiles(), set[str]()
    for batch in orphans.batches(_BATCHES[spec.mode]):
        named = reached.names_since()
        going = [(location, size) for location, size in batch if name_key(location) not in named]
        kept |= named.intersection(name_key(location) for location, _ in batch)
        if not going:
            continue
        if spec.mode is RemovalMode.QUARANTINE:
            removed.add(quarantine.put(going))
            continue
        left = delete_files(table, [location for location, _ in going])
        removed.note(None, len(going) - left)
        if left:
            removed.note(_NOT_DELETED, left)
    # Those that stay have been said, and what is gone is gone.
    with suppress(CommitConflictError):
        if removed.moved:
            _refuse_reached(table, spec, orphans, reached.names_since() - kept)
    return removed


def _refuse_reached(table: IcebergTable, spec: OrphanFilesSpec, orphans: _Orphans, new: set[str]) -> None:
    """Refuse to have removed what a commit has named since the last look before it went.

    :param new: names of files that have become reachable since then.
    :raises BrokenInvariantError: naming some of them, and the way back.
    """
    if not new:
        return
    lost = [place for batch in orphans.batches(1_000) for place, _ in batch if name_key(place) in new]
    if lost:
        back = "run mode='restore'" if spec.mode is RemovalMode.QUARANTINE else "roll back, or write these rows again"
        raise BrokenInvariantError(
            f"{table.name}: a commit has named {len(lost):,} files while they were removed as orphans, such as "
            f"{', '.join(lost[:_NAMED])}. No writer names files of its own that are a day old: find it, and {back}"
        )


class _Reached:
    """Names of files that commits reach which came after the comparison began."""

    def __init__(self, table: IcebergTable) -> None:
        self._table, self._uuid = table, table.uuid
        self._snapshots = set(table.facts.snapshots)
        self._seen, self._names = _metadata_file(table), set[str]()

    def names_since(self) -> set[str]:
        """Return the names of all files that have become reachable.

        :raises CommitConflictError: the table is another one now, or does not allow it any more, or has lost snapshots.
        """
        table = self._table.refresh()
        location = _metadata_file(table)
        if location == self._seen:
            return self._names
        if table.uuid != self._uuid or without_expiry(table.facts.properties) is not None:
            raise CommitConflictError(
                f"{table.name}: the table was replaced, or got gc.enabled=false, while its orphan files were removed; "
                "the others stay"
            )
        facts = table.facts
        new = set(facts.snapshots) - self._snapshots
        parents = {facts.snapshots[id_].parent for id_ in new}
        # PyIceberg's expiry erases the parent, and a first snapshot has none.
        if (parents - {None}) - set(facts.snapshots) or (None in parents and self._snapshots):
            raise CommitConflictError(
                f"{table.name}: snapshots that were committed while orphan files were removed are expired already, so "
                "the files that they added are not known; the others stay"
            )
        java: list[Any] = [table.java.snapshot(int(id_)) for id_ in new]
        files = [location, *table.metadata_log(), *(path for _, path in facts.statistics), *named_by(table, java)]
        files += [each.manifest_list for each in facts.snapshots.values() if each.manifest_list]
        self._names |= {name_key(file) for file in files}
        self._seen, self._snapshots = location, self._snapshots | new
        return self._names

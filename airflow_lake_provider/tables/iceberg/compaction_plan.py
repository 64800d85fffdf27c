"""Plan a compaction from metadata alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.property_values import whole_number
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.iceberg.compaction_rules import (
    DELETE_TARGET_BYTES,
    DELETE_TARGET_SIZE,
    EQUALITY_DELETES,
    MANY_EQUALITY_DELETES,
    TARGET_SIZE,
    UNTIDIED,
    RewriteRules,
    choose_level,
    counted_deletes,
    followed_size,
    in_one_commit,
    is_of_part,
    is_untidied,
    refuse_endangered_part,
    refuse_verification_without_keys,
    resolves_equality_deletes,
    rules_for,
    surely_nothing_due,
    table_size,
    target_size_owner,
)
from airflow_lake_provider.iceberg.manifest_rules import manifest_target
from airflow_lake_provider.tables.iceberg.file_groups import FileRecord, deletes_on, plan_groups

# By which a summary proves that nothing is due.
_TOTALS = ("total-data-files", "total-files-size", "total-delete-files")

if TYPE_CHECKING:
    from airflow_lake_provider.contracts.table_facts import TableFacts, TableState
    from airflow_lake_provider.tables.iceberg.live_files import LiveFiles


class _Table(Protocol):
    """Table as the plan asks it, such as :class:`.LoadedIcebergTable`."""

    @property
    def facts(self) -> TableFacts: ...
    def state(self) -> TableState: ...
    def columns_in(self, where: str) -> list[str]: ...
    def live_files(self, where: str | None) -> LiveFiles: ...
    def endangered_deletes(self) -> str | None: ...
    def partition_name(self, spec_id: int, values: Hashable) -> str: ...
    def listed_files(self, snapshot: str) -> tuple[int, int] | None: ...
    def manifest_sizes(self, snapshot: str) -> Mapping[int, Sequence[Sequence[int]]]: ...


def plan_compaction(table: _Table, spec: CompactionSpec) -> CompactionReport:
    """Tell which files a compaction would rewrite and why; nothing is written and no data file is opened.

    The head's summary is asked first and often proves that nothing is due; otherwise the manifests are read.
    ``delete_files_removed`` counts the delete files whose every data file is rewritten.

    :raises UnreadPredicateError: ``where`` is not read here, or does not fit the table.
    :raises InvalidSpecError: keys are to be compared, and the table has none.
    :raises BrokenMetadataError: a target size of the table is no number.
    :raises UnsupportedError: files of a part are due, and only the whole table can be rewritten without a loss.
    """
    refuse_verification_without_keys(spec, table.facts)
    if spec.where is not None:
        # Whatever is due.
        table.columns_in(spec.where)
    before = table.state()
    listed = table.listed_files(before.snapshot) if before.snapshot is not None else None
    level, why = choose_level(spec, before, _equality_deletes_of_head(table.facts, listed))
    run_key, endangered = spec.run.run_key(spec.digest_text(), ()), table.endangered_deletes()
    if endangered is not None and not is_of_part(spec):
        spec, level, why = in_one_commit(spec, endangered)
    size = table_size(spec.table, table.facts.properties, TARGET_SIZE)
    rules = rules_for(spec, level, size)
    # Refused also where nothing would ask for it.
    manifest_target(table.facts)
    untidied = is_untidied(table.facts, spec, run_key, table.manifest_sizes)
    if surely_nothing_due(rules, before) and not untidied and _counts_all_files(table.facts, listed):
        due, what = _Due(), f"{before.data_files:,} data files without deletes are too few to merge"
    else:
        due = _due(table, spec, rules, level, untidied=untidied)
        what = due.sentence
    if due:
        refuse_endangered_part(spec, endangered)
    return CompactionReport(
        table=spec.table,
        outcome=Outcome.PLANNED if due else Outcome.NOTHING_DUE,
        reason=f"level {level.value} ({why}): {what}{target_size_owner(spec, size)}",
        before=before,
        level=level.value,
        files_rewritten=len(due.rewritten),
        bytes_rewritten=sum(file.bytes for file in due.rewritten),
        delete_files_removed=due.deletes_gone,
        groups_rewritten=len(due.groups),
    )


@dataclass(frozen=True, kw_only=True)
class _Due:
    """Work that a compaction would do.

    :param to_resolve: equality delete files that become positions first.
    :param to_merge: position delete files that are merged, or become vectors.
    :param untidied: manifests that an earlier compaction has left.
    """

    groups: Sequence[Sequence[FileRecord]] = ()
    deletes_gone: int = 0
    to_resolve: int = 0
    to_merge: int = 0
    untidied: bool = False

    def __bool__(self) -> bool:
        return bool(self.groups or self.to_resolve or self.to_merge or self.untidied)

    @property
    def rewritten(self) -> list[FileRecord]:
        return [file for group in self.groups for file in group]

    @property
    def sentence(self) -> str:
        parts = []
        if self.to_resolve:
            parts.append(
                f"{self.to_resolve:,} equality delete files would become positions first, where their keys allow it"
            )
        if self.groups:
            files = self.rewritten
            parts.append(
                f"{len(files):,} data files of {sum(file.bytes for file in files):,} bytes in {len(self.groups):,} "
                f"groups would be rewritten, {sum(1 for file in files if file.delete_files):,} of them have deletes"
            )
        if self.to_merge:
            parts.append(f"{self.to_merge:,} position delete files would be merged or turned into deletion vectors")
        if self.untidied and not self.groups:
            parts.append(UNTIDIED)
        return "; ".join(parts) or "no file is due"


def _due(table: _Table, spec: CompactionSpec, rules: RewriteRules, level: CompactionLevel, *, untidied: bool) -> _Due:
    files = _outside(table, spec, table.live_files(spec.where))
    groups = plan_groups(files.data, rules, table.facts.shape.spec_id)
    return _Due(
        groups=groups,
        deletes_gone=_deletes_gone(files, [file for group in groups for file in group]),
        to_resolve=_equality_deletes(files) if resolves_equality_deletes(spec, level) else 0,
        to_merge=0 if level is CompactionLevel.FULL else _deletes_to_merge(table, spec, files, groups),
        untidied=untidied,
    )


def _equality_deletes_of_head(facts: TableFacts, listed: tuple[int, int] | None) -> int | None:
    head = facts.newest()
    return 0 if head is None else counted_deletes(head.summary, EQUALITY_DELETES, listed and listed[1])


def _counts_all_files(facts: TableFacts, listed: tuple[int, int] | None) -> bool:
    """Tell whether the head's summary says how many files there are; the spec asks for no count.

    The first snapshot of a branch may have counted from zero, and main may have been moved on to it.

    :param listed: data and delete files by the head's manifest list; None where that does not say.
    """
    head = facts.newest()
    if head is None:
        return True
    data, size, deletes = (whole_number(head.summary.get(name)) for name in _TOTALS)
    return None not in (data, size, deletes) and listed in (None, (data, deletes))


def _outside(table: _Table, spec: CompactionSpec, files: LiveFiles) -> LiveFiles:
    """Leave out the data files in partitions that are left alone.

    Iceberg groups files of earlier specs with those that have no value in any partition field of the current one.
    """
    if not spec.skip_partitions:
        return files
    shape = table.facts.shape
    without_values = (None,) * len(shape.partition_fields())

    def partition_of(file: FileRecord) -> str:
        values = file.partition if file.spec_id == shape.spec_id else without_values
        return table.partition_name(shape.spec_id, values)

    return replace(files, data=[file for file in files.data if partition_of(file) not in spec.skip_partitions])


def _equality_deletes(files: LiveFiles) -> int:
    """Return how many equality delete files there are; few ones are applied by the rewrite."""
    count = sum(1 for delete in files.deletes if delete.is_equality)
    return count if count >= MANY_EQUALITY_DELETES else 0


def _deletes_gone(files: LiveFiles, rewritten: list[FileRecord]) -> int:
    paths = {file.path for file in rewritten}
    held_back = deletes_on(file for file in files.data if file.path not in paths)
    released = deletes_on(rewritten)
    # A delete file of a whole partition or table may lie on files that ``where`` has left out of the plan.
    live_paths = {file.path for file in files.data}
    surely = {d.id for d in files.deletes if d.target is None or d.target in live_paths}
    return len((released - held_back) & surely)


def _deletes_to_merge(table: _Table, spec: CompactionSpec, files: LiveFiles, groups: list[list[FileRecord]]) -> int:
    """Count position delete files, besides those that the rewritten data files take along, that would be rewritten."""
    applied = deletes_on(file for group in groups for file in group)
    left = [d for d in files.deletes if not (d.is_equality or d.is_vector or d.id in applied)]
    if not left or is_of_part(spec):
        return 0
    asked = table_size(spec.table, table.facts.properties, DELETE_TARGET_SIZE)
    target = followed_size(asked) or DELETE_TARGET_BYTES
    to_vectors = table.facts.format_version >= 3
    rules = RewriteRules(target_bytes=target, min_input_files=spec.min_input_files, rewrite_all=to_vectors)
    records = [
        FileRecord(path=d.id, spec_id=0, partition=(d.spec_id, d.partition), bytes=d.bytes, records=d.records)
        for d in left
    ]
    return sum(len(group) for group in plan_groups(records, rules, 0))

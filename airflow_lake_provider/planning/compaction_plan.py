"""Plan a compaction from metadata alone."""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from airflow_lake_provider.contracts.compaction_rules import (
    DELETE_TARGET_BYTES,
    DELETE_TARGET_SIZE,
    TARGET_SIZE,
    RewriteRules,
    choose_level,
    held_target,
    rules_for,
    surely_nothing_due,
    table_size,
)
from airflow_lake_provider.contracts.compaction_spec import CompactionLevel, CompactionSpec
from airflow_lake_provider.contracts.job_report import CompactionReport, Outcome
from airflow_lake_provider.contracts.untidied_compaction import (
    UNTIDIED,
    is_untidied,
    manifest_target,
    would_be_fewer,
)
from airflow_lake_provider.planning.file_groups import FileRecord, plan_groups
from airflow_lake_provider.planning.table_state import state_of, total
from airflow_lake_provider.tables.iceberg.ancestors import ancestors
from airflow_lake_provider.tables.iceberg.live_files import DeleteIndex, parsed_where, read_files


def plan_compaction(table: Table, spec: CompactionSpec) -> CompactionReport:
    """Tell which files a compaction would rewrite and why; nothing is written and no data file is opened.

    The head's summary is asked first and often proves that nothing is due; otherwise the manifests are read.
    ``delete_files_removed`` counts the delete files whose every data file is rewritten.

    :raises InvalidSpecError: ``where`` does not parse or does not fit the table.
    :raises BrokenMetadataError: a target size of the table is no number.
    """
    parsed_where(spec.where, spec.table)
    before = state_of(table)
    level, why = choose_level(spec, before, total(table.current_snapshot(), "total-equality-deletes"))
    size = table_size(spec.table, table.properties, TARGET_SIZE)
    rules = rules_for(spec, level, size)
    untidied = _is_untidied(table, spec)
    if surely_nothing_due(rules, before) and not untidied:
        reason = f"level {level.value} ({why}): {before.data_files:,} data files without deletes are too few to merge"
        return CompactionReport(
            table=spec.table,
            outcome=Outcome.NOTHING_DUE,
            reason=f"{reason}{held_target(spec, size)}",
            before=before,
            level=level.value,
        )
    files, deletes = read_files(table, spec.where)
    groups = plan_groups(files, rules, table.spec().spec_id)
    to_merge = 0 if level is CompactionLevel.FULL else _deletes_to_merge(table, spec, deletes, groups)
    rewritten = [file for group in groups for file in group]
    is_due = groups or to_merge or untidied
    return CompactionReport(
        table=spec.table,
        outcome=Outcome.PLANNED if is_due else Outcome.NOTHING_DUE,
        reason=f"level {level.value} ({why}): {_sentence(groups, rewritten, to_merge, untidied)}"
        f"{held_target(spec, size)}",
        before=before,
        level=level.value,
        files_rewritten=len(rewritten),
        bytes_rewritten=sum(file.bytes for file in rewritten),
        delete_files_removed=_deletes_gone(files, rewritten, deletes),
        groups_rewritten=len(groups),
    )


def _is_untidied(table: Table, spec: CompactionSpec) -> bool:
    target, spec_id = manifest_target(spec.table, table.properties), table.metadata.default_spec_id

    def has_small_manifests(snapshot: Snapshot) -> bool:
        sizes: dict[int, list[int]] = {}
        for manifest in snapshot.manifests(table.io):
            if manifest.partition_spec_id == spec_id:
                sizes.setdefault(manifest.content, []).append(manifest.manifest_length)
        return any(would_be_fewer(each, target) for each in sizes.values())

    run_key = spec.run.run_key(spec.digest_text(), ())
    main = ancestors(table.metadata, table.current_snapshot())
    commits = ((each, each.summary.additional_properties if each.summary else {}) for each in main)
    return is_untidied(spec, run_key, table.format_version, commits, has_small_manifests)


def _sentence(groups: list[list[FileRecord]], files: list[FileRecord], to_merge: int, untidied: bool) -> str:
    parts = []
    if groups:
        deleted = sum(1 for file in files if file.delete_files)
        size = sum(file.bytes for file in files)
        parts.append(
            f"{len(files):,} data files of {size:,} bytes in {len(groups):,} groups would be rewritten, "
            f"{deleted:,} of them have deletes"
        )
    if to_merge:
        parts.append(f"{to_merge:,} position delete files would be merged or turned into deletion vectors")
    if untidied and not groups:
        parts.append(UNTIDIED)
    return "; ".join(parts) or "no file is due"


def _deletes_gone(files: list[FileRecord], rewritten: list[FileRecord], deletes: DeleteIndex) -> int:
    paths = {file.path for file in rewritten}
    held_back = {id_ for file in files if file.path not in paths for id_ in file.delete_files}
    released = {id_ for file in rewritten for id_ in file.delete_files}
    # A delete file of a whole partition or table may lie on files that ``where`` has left out of the plan.
    known = {file.path for file in files}
    surely = {d.id for d in deletes.all if d.target is None or d.target in known}
    return len((released - held_back) & surely)


def _deletes_to_merge(table: Table, spec: CompactionSpec, deletes: DeleteIndex, groups: list[list[FileRecord]]) -> int:
    """Count position delete files, besides those that the rewritten data files take along, that would be rewritten."""
    applied = {id_ for group in groups for file in group for id_ in file.delete_files}
    left = [d for d in deletes.all if not (d.is_equality or d.is_vector or d.id in applied)]
    if not left or spec.where is not None:
        return 0
    target = table_size(spec.table, table.properties, DELETE_TARGET_SIZE) or DELETE_TARGET_BYTES
    to_vectors = table.format_version >= 3
    rules = RewriteRules(target_bytes=target, min_input_files=spec.min_input_files, rewrite_all=to_vectors)
    records = [
        FileRecord(path=d.id, spec_id=0, partition=(d.spec_id, d.partition), bytes=d.bytes, records=d.records)
        for d in left
    ]
    return sum(len(group) for group in plan_groups(records, rules, 0))

"""Merge small manifests of each partition spec, where fewer would be left; alone, or at the end of a compaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from airflow_lake_provider.contracts.reports.job import Outcome, RewriteManifestsReport
from airflow_lake_provider.contracts.specs.maintenance import RewriteManifestsSpec
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY
from airflow_lake_provider.iceberg.manifest_rules import manifest_target, manifests_sentence, specs_due
from airflow_lake_provider.iceberg.table_obstacles import specs_without_source
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_invariants import (
    commits_since,
    refuse_broken_invariants,
    sum_of,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_status_check import (
    METADATA,
    execute,
    run_action,
    with_commit_status_check,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.reachable_files import MOST_BYTES, MOST_FILES
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import as_number_list
from airflow_lake_provider.spark_jobs.progress import Progress


def merge_manifests(table: IcebergTable, spec: RewriteManifestsSpec, progress: Progress) -> RewriteManifestsReport:
    """Merge what is due, a commit for each partition spec, and report what the table's metadata says was done.

    Iceberg itself tries again where a writer has added manifests. One that has removed some wins.

    :raises UnknownOutcomeError: the answer to a commit was lost; no file was removed.
    :raises BrokenInvariantError: a commit of it has changed rows.
    """
    run_key = spec.run.run_key(spec.digest_text(), ())
    with progress.phase("plan") as facts:
        before, head = table.state(), table.head()
        sizes = {} if head is None else manifest_sizes(table, head)
        due = _specs_due(table, sizes, sort=spec.sort)
        facts.update({"manifests": before.manifests, "specs": len(due)})
    refusal = None
    if due:
        with progress.phase("rewrite") as facts:
            refusal = rewrite_manifests(table, {ACTION: spec.action, RUN_KEY: run_key}, due)
            facts["conflict"] = refusal is not None
    ours, _ = commits_since(table, before.snapshot, run_key)
    refuse_broken_invariants(table, {id_ for id_, _ in ours})
    report = RewriteManifestsReport(
        table=spec.table,
        outcome=Outcome.DONE if ours else Outcome.NOTHING_DUE,
        reason=manifests_sentence(sizes, due),
        before=before,
        after=table.state(),
        committed=tuple(id_ for id_, _ in ours),
        seconds=dict(progress.seconds),
        manifests_rewritten=sum_of(ours, "manifests-replaced"),
        manifests_added=sum_of(ours, "manifests-created"),
    )
    if refusal is None:
        return report
    return replace(report, outcome=Outcome.CONFLICT, reason=f"{report.reason}; a writer was in the way: {refusal}")


def manifest_specs_due(table: IcebergTable) -> list[int]:
    """Return the partition specs of whose manifests merging would leave fewer."""
    head = table.head()
    return [] if head is None else _specs_due(table, manifest_sizes(table, head))


def _specs_due(table: IcebergTable, sizes: dict[int, list[list[int]]], *, sort: bool = False) -> list[int]:
    """Return the specs that are due, without those whose partitions a new manifest would not keep."""
    lost = specs_without_source(table.facts.shape)
    return [id_ for id_ in specs_due(table.facts, sizes, sort=sort) if id_ not in lost]


def rewrite_manifests(table: IcebergTable, summary: dict[str, str], specs: Iterable[int]) -> str | None:
    """Merge manifests of partition specs up to their target size, sorted by partition.

    :param summary: of the snapshots that are committed, one for each spec.
    :return: what another commit refused, after which no other spec is tried; None where it worked.
    """
    for id_ in specs:
        if _is_small(table, id_):
            refusal = _merge_here(table, summary, id_)
        else:
            action = table.java_actions.rewriteManifests(with_commit_status_check(table)).specId(id_)
            refusal = run_action(table, action, summary)
        if refusal is not None:
            return refusal
    return None


def _is_small(table: IcebergTable, spec_id: int) -> bool:
    """Tell whether all manifests of a spec make one of data files, and are read before a Spark job has begun."""
    head = table.head()
    data, deletes = ([], []) if head is None else manifest_sizes(table, head).get(spec_id, ([], []))
    most = min(MOST_BYTES, manifest_target(table.facts))
    return len(deletes) <= 1 and len(data) <= MOST_FILES and sum(data) <= most


def _merge_here(table: IcebergTable, summary: dict[str, str], spec_id: int) -> str | None:
    """Merge the manifests of data files of one spec in the driver; one manifest has no order to keep."""
    if spec_id not in manifest_specs_due(table.refresh()):
        return "another commit has merged them"
    update = with_commit_status_check(table).rewriteManifests()
    functions = java_functions(table.spark)
    update = update.rewriteIf(functions.is_of_spec(spec_id)).clusterBy(functions.spec_id)
    for name, value in summary.items():
        update = update.set(name, value)
    return execute(table, update.commit, METADATA)


def manifest_sizes(table: IcebergTable, snapshot_id: int) -> dict[int, list[list[int]]]:
    """Return the bytes of manifests by the partition spec that they are of, those of data and of deletes apart."""
    snapshot, io, functions = table.java.snapshot(snapshot_id), table.java.io(), java_functions(table.spark)
    sizes: dict[int, list[list[int]]] = {}
    for place, manifests in enumerate((snapshot.dataManifests(io), snapshot.deleteManifests(io))):
        specs = as_number_list(table.spark, manifests, functions.spec_id_of_manifest)
        lengths = as_number_list(table.spark, manifests, functions.bytes_of_manifest)
        for spec_id, length in zip(specs, lengths, strict=True):
            sizes.setdefault(spec_id, [[], []])[place].append(length)
    return sizes

"""Check commits of maintenance on metadata alone, by the summaries of their snapshot and of the one before.

A rewrite brings and takes no row. A change of rows takes those that matched and no others. An expiry keeps the refs.
Where the author of a compaction asks for it, its rows are compared too, at pinned snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.author.maintenance_policy import Verification
from airflow_lake_provider.contracts.errors import BrokenInvariantError
from airflow_lake_provider.contracts.property_values import count_of, whole_number
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.contracts.table_properties import RUN_KEY
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, as_number_list
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name

_UNCHANGED = ("total-records", "total-data-files")
# A sum of hashes of 64 bits of any number of rows that a table may have.
_SUM = "decimal(38,0)"
_MOST_NAMED = 5


def refuse_broken_invariants(table: IcebergTable, ours: Collection[str]) -> None:
    """Refuse commits of a rewrite that changed rows.

    :param ours: ids of its snapshots on main.
    :raises BrokenInvariantError: naming the first of them, and the snapshot to go back to.
    """
    snapshots = table.facts.snapshots
    for id_ in sorted(ours, key=lambda each: snapshots[each].order):
        parent = snapshots.get(snapshots[id_].parent or "")
        broken = parent and broken_invariant(snapshots[id_], parent, lambda each: _deletes_of(table, each))
        if parent and broken:
            raise BrokenInvariantError(
                f"{table.name}: snapshot {id_} of this rewrite may have changed rows: {broken}. Do not run it "
                f"again. Compare the rows with those of snapshot {parent.id}, and roll back to it if they differ"
            )


def refuse_broken_change(table: IcebergTable, snapshot: str, deleted: int) -> None:
    """Refuse a commit that took other rows than those that matched.

    :param deleted: rows that matched, and are to be gone.
    :raises BrokenInvariantError: naming it, and the snapshot to go back to.
    """
    parent, broken = None, None
    # It is committed: what nobody can look at any more has not failed.
    with suppress(Exception):
        snapshots = table.refresh().facts.snapshots
        done = snapshots[snapshot]
        parent = snapshots.get(done.parent or "")
        broken = parent and broken_change(done, parent, deleted, lambda each: _deletes_of(table, each))
    if parent and broken:
        raise BrokenInvariantError(
            f"{table.name}: snapshot {snapshot} may have taken other rows than it was to: {broken}. Do not run it "
            f"again. Compare the rows with those of snapshot {parent.id}, and roll back to it if they differ"
        )


def _deletes_of(table: IcebergTable, snapshot: Snapshot) -> int | None:
    manifests = JavaItems(table.spark, table.java.snapshot(int(snapshot.id)).deleteManifests(table.java.io()))
    counts = [each for one in manifests for each in (one.existingRowsCount(), one.addedRowsCount())]
    return None if None in counts else sum(map(int, counts))


def broken_invariant(snapshot: Snapshot, parent: Snapshot, deletes_of: Callable[[Snapshot], int | None]) -> str | None:
    """Return which invariant a rewrite of files or manifests breaks, a sentence; None where it breaks none.

    A rewrite applies deletes, so it may have fewer rows than the files it replaced: at most as many as are deleted by
    position. Keys of equality deletes may delete any number, so nothing is lost there by these counts.

    :param snapshot: that the rewrite has committed.
    :param parent: of it.
    :param deletes_of: returns how many deletes the delete files of a snapshot have by its manifest list; None where the
        list does not say. It is asked where rows went, as summaries of some writers count no deletes.
    """
    files = count_of(snapshot.summary, "added-data-files"), count_of(snapshot.summary, "deleted-data-files")
    if not any(files):
        return _changed_total(snapshot, parent)
    gone = count_of(snapshot.summary, "deleted-records") - count_of(snapshot.summary, "added-records")
    if gone < 0:
        return f"it has {-gone:,} rows more than the {files[1]:,} files that it replaced"
    if gone == 0 or count_of(parent.summary, "total-equality-deletes"):
        return None
    deleted = count_of(parent.summary, "total-position-deletes")
    if gone <= deleted or deletes_of(parent) != deleted:
        return None
    return f"it has {gone:,} rows fewer than the {files[1]:,} files that it replaced, and {deleted:,} were deleted"


def broken_change(
    snapshot: Snapshot, parent: Snapshot, deleted: int, deletes_of: Callable[[Snapshot], int | None]
) -> str | None:
    """Return how a commit took other rows than those that matched, a sentence; None where it did not.

    A file that went may have had rows that were deleted before, which its records count. Keys of equality deletes may
    delete any number of rows.

    :param deleted: rows that matched, and are to be gone.
    :param deletes_of: as of :func:`broken_invariant`.
    """
    if count_of(parent.summary, "total-equality-deletes"):
        return None
    gone, before = -snapshot.rows_gained, count_of(parent.summary, "total-position-deletes")
    # A vector in place of several delete files has a position once that these may have had twice.
    least = deleted - count_of(snapshot.summary, "removed-position-deletes")
    if least <= gone <= deleted + before or (gone > deleted and deletes_of(parent) != before):
        return None
    return f"{deleted:,} rows matched, and {gone:,} went, of which at most {before:,} were deleted before"


def _changed_total(snapshot: Snapshot, parent: Snapshot) -> str | None:
    for name in _UNCHANGED:
        now, before = (whole_number(each.summary.get(name, "")) for each in (snapshot, parent))
        if now is not None and before is not None and now != before:
            return f"it replaced no data file, and {name} went from {before:,} to {now:,}"
    return None


def refuse_lost_refs(table: IcebergTable, expiry: Any, leaving: Callable[[], Collection[str]]) -> None:
    """Refuse an expiry, before its commit, that would remove or move a branch or a tag that is to stay.

    :param expiry: ``org.apache.iceberg.Transaction``.
    :param leaving: returns the names of branches and tags that are to go by now; asked where one goes.
    :raises BrokenInvariantError: naming them; nothing changed.
    """
    before, after = (_refs(table, each) for each in (expiry.startMetadata(), expiry.currentMetadata()))
    snapshots = expiry.currentMetadata().snapshots()
    kept = set(as_number_list(table.spark, snapshots, java_functions(table.spark).snapshot_id))
    lost = [name for name, snapshot in before.items() if after.get(name) != snapshot or snapshot not in kept]
    if lost and (lost := sorted(set(lost).difference(leaving()))):
        raise BrokenInvariantError(
            f"{table.name}: the expiry would remove or move {', '.join(lost)}, which are to stay. Nothing changed. Do "
            "not run it again before somebody knows why"
        )


def _refs(table: IcebergTable, metadata: Any) -> dict[str, int]:
    refs = metadata.refs()
    return {str(name): int(refs.get(name).snapshotId()) for name in JavaItems(table.spark, refs.keySet())}


def commits_since(
    table: IcebergTable, before: str | None, run_key: str
) -> tuple[list[tuple[str, Mapping[str, str]]], list[str]]:
    """Return the run's snapshots of main since one, oldest first, and the ids of other writers' ones.

    :param before: snapshot that main was at.
    :return: of the run's, id and summary.
    """
    ours, foreign = [], []
    for snapshot in table.ancestors():
        if snapshot.id == before:
            break
        if snapshot.summary.get(RUN_KEY) == run_key:
            ours.append((snapshot.id, snapshot.summary))
        else:
            foreign.append(snapshot.id)
    return ours[::-1], foreign[::-1]


def sum_of(commits: Sequence[tuple[str, Mapping[str, str]]], name: str) -> int:
    """Return the sum of a count in the summaries of :func:`commits_since`."""
    return sum(count_of(summary, name) for _, summary in commits)


def refuse_changed_rows(table: IcebergTable, spec: CompactionSpec, ours: list[str]) -> None:
    """Refuse commits after which a partition has other rows: another number, or another checksum of their keys.

    The checksum is the sum of a hash of each row's key, so that the order of rows does not matter. Commits of others in
    between are left out: each stretch of own commits is compared by itself. Partitions are told apart where the table
    has had one partition spec alone, as a rewrite moves files to the newest.

    :param ours: ids of the snapshots that the compaction has committed, oldest first.
    :raises BrokenInvariantError: naming the partitions.
    """
    if spec.verify is None:
        return
    for before, after in _stretches(table, ours):
        columns = _rows(table, spec.verify, before, -1).unionAll(_rows(table, spec.verify, after, 1))
        sums = columns.groupBy("partition").agg(sf.sum("side").alias("rows"), sf.sum("hash").alias("hash"))
        changed = sums.where("rows <> 0 OR hash <> 0").orderBy("partition").limit(_MOST_NAMED).collect()
        if changed:
            named = "; ".join(f"{row['partition'] or 'the table'}: {row['rows']:+,} rows" for row in changed)
            raise BrokenInvariantError(
                f"{table.name}: the rows of snapshot {after} are not those of snapshot {before}, from which this "
                f"compaction made them, by number or keys: {named}. Do not run it again. Roll back to {before}"
            )


def _stretches(table: IcebergTable, ours: list[str]) -> list[tuple[str, str]]:
    """Return the snapshot before each stretch of own commits, and the last one of it."""
    stretches: list[tuple[str, str]] = []
    for id_ in ours:
        parent = table.facts.snapshots[id_].parent
        if stretches and stretches[-1][1] == parent:
            stretches[-1] = (stretches[-1][0], id_)
        elif parent is not None and parent in table.facts.snapshots:
            stretches.append((parent, id_))
    return stretches


def _rows(table: IcebergTable, verify: Verification, snapshot: str, side: int) -> DataFrame:
    has_one_spec = table.java.specs().size() == 1 and table.java.spec().isPartitioned()
    partition = sf.col("_partition").cast("string") if has_one_spec else sf.lit("")
    digest = sf.lit(0)
    if verify is Verification.KEYS:
        then = table.java.schemas().get(table.java.snapshot(int(snapshot)).schemaId()) or table.java.schema()
        ids = sorted(int(each) for each in table.java.schema().identifierFieldIds())
        digest = sf.xxhash64(*(sf.col(_quoted(then.findColumnName(each))) for each in ids))
    hashed = digest.cast(_SUM) * sf.lit(side)
    rows = table.rows_at(int(snapshot))
    return rows.select(partition.alias("partition"), sf.lit(side).alias("side"), hashed.cast(_SUM).alias("hash"))


def _quoted(path: str) -> str:
    return ".".join(map(quoted_name, path.split(".")))

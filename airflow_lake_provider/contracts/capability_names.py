"""Names of what table formats can do, each with its sentence; ``capabilities.py`` says which format can do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Capability:
    """Something that a format may be able to do.

    :param group: of those that may stand in for each other.
    :param sentence: what it does.
    :param is_asked: whether tasks ask for it, and are refused where it is lacking. Others describe tables.
    :param asked_with: names of others: a task that asks for all of them asks for this one, too.
    """

    group: str
    sentence: str
    is_asked: bool = True
    asked_with: frozenset[str] = frozenset()


# What a table is like, or how a change reaches it: no task fails where it is lacking.
_DESCRIPTIVE = {"row-lineage", "deletion-vectors", "metadata-changes-on-worker"}
CAPABILITIES: Mapping[str, Capability] = {
    name: Capability(group, sentence, is_asked=name not in _DESCRIPTIVE)
    for group, capabilities in {
        "loads": {
            "upsert": "apply the last change of each key of a batch in one atomic commit, once",
            "append": "add the rows of a batch in one atomic commit, once",
            "overwrite-partitions": "put the rows of a batch in place of whole partitions, in one atomic commit",
            "create-table": "create a missing table with partitioning, order and properties",
            "schema-evolution": "add and widen columns so that a batch fits",
            "soft-deletes": "keep deleted rows, with a column that says so",
            "kept-values": "keep or compare values of the rows that the table has",
            "change-events": "apply a stream of change events, with what a table has to remember of its keys",
            "lake-table-source": "read the rows of a batch from another table",
        },
        "merge engines": {
            "merge-deduplicate": "keep the last row of a key",
            "merge-first-row": "keep the first row of a key",
            "merge-partial-update": "keep the last value of each column that is not NULL",
            "merge-aggregation": "apply a function to all values of a column",
            "merge-history": "keep each version of a key, with the time for which it was valid",
        },
        "strategies": {
            "strategy-positions": "find the rows to replace, and delete them by position",
            "strategy-copy-on-write": "write the files of the rows to replace anew",
            "strategy-merge": "leave all of it to Spark's MERGE INTO",
            "strategy-equality": "write the keys as deletes, and look for no row",
        },
        "branches": {
            "branches": "write to a branch, and publish it",
            "audits": "publish a batch only when assertions hold for it",
            "tags": "name a snapshot, which expiry then keeps",
            "rollback": "take main back to an earlier snapshot, with what it says it has applied",
        },
        "row changes": {
            "delete-rows": "delete rows that match",
            "update-rows": "update rows that match",
            "row-expiry": "remove rows by their age, whole files without reading them",
            "erasure-proof": "say which snapshots still hold deleted rows",
        },
        "incremental reads": {
            "read-changes": "read the net changes between two snapshots, deletes included",
            "changelog": "read each step between two snapshots",
            "consumer-tags": "keep what a consumer has not read from expiry",
            "row-lineage": "keep the id of a row through updates and compactions",
        },
        "maintenance": {
            "compaction": "rewrite small files and files with deletes",
            "compaction-sort": "sort rows while they are rewritten",
            "compaction-zorder": "sort rows by several columns at once while they are rewritten",
            "compaction-hilbert": "the same along a Hilbert curve, whose neighbours are neighbours in every column",
            "file-lists": "merge the small lists that name a table's files, sorted by partition",
            "statistics": "count distinct values of columns, and rows and files of partitions",
            "deletion-vectors": "keep the deletes of a data file in one bitmap",
            "snapshot-expiry": "forget old snapshots, and delete the files that only they reach",
            "remove-orphans": "find the files that nothing of a table names, and remove or restore them",
            "health": "judge a table by its metadata alone, without Spark",
        },
        "metadata": {
            "metadata-changes": "change branches, tags, properties and format version in one commit",
            "metadata-changes-on-worker": "make these changes without Spark, in any catalog",
            "format-upgrade": "upgrade a table to the newest version of its format",
        },
    }.items()
    for name, sentence in capabilities.items()
}

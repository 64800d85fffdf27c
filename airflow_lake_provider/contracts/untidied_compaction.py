"""Tell that a compaction was cut off between its commits: worker and driver ask here. Standard library only.

A compaction rewrites data files first, then removes and merges what this leaves of delete files, and merges manifests
last. Each is a commit of its own, and only the first removes data files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from airflow_lake_provider.contracts.compaction_spec import CompactionSpec
from airflow_lake_provider.contracts.property_values import count_of, number_property
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY

UNTIDIED = "an earlier compaction was cut off before the metadata was tidied"
_TARGET = "commit.manifest.target-size-bytes"
# As Iceberg takes it, where the table does not say (TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT).
_DEFAULT_BYTES = 8 * 1024**2
_OF_FILES = ("deleted-data-files", "added-delete-files", "removed-delete-files")
S = TypeVar("S")


def is_untidied(
    spec: CompactionSpec,
    run_key: str,
    format_version: int,
    commits: Iterable[tuple[S, Mapping[str, str]]],
    has_small_manifests: Callable[[S], bool],
) -> bool:
    """Tell whether the newest compaction of main has not gone on to what it does last.

    :param run_key: of this run, whose own earlier try may have had a ``where``.
    :param commits: snapshots of main with their summaries, newest first.
    :param has_small_manifests: whether merging would leave fewer manifests of a snapshot.
    """
    compactions = ((snapshot, summary) for snapshot, summary in commits if summary.get(ACTION) == spec.action)
    snapshot, summary = next(compactions, (None, {}))
    if snapshot is None or not any(count_of(summary, name) for name in _OF_FILES):
        # It has merged manifests, which is done last.
        return False
    # Version 2 cannot tell which position deletes lie on files that are gone, so these are always written anew.
    is_rewrite = spec.where is None and count_of(summary, "deleted-data-files") > 0
    is_own = summary.get(RUN_KEY) == run_key
    if format_version == 2 and (is_rewrite or is_own) and count_of(summary, "total-position-deletes"):
        return True
    return spec.rewrite_manifests and has_small_manifests(snapshot)


def manifest_target(table: str, properties: Mapping[str, str]) -> int:
    """Return the bytes that a manifest of a table is to have."""
    return number_property(table, properties, _TARGET) or _DEFAULT_BYTES


def would_be_fewer(sizes: Collection[int], target: int) -> bool:
    """Tell whether merging manifests of these sizes would leave fewer.

    :param target: bytes of a manifest.
    """
    return len(sizes) > -(-sum(sizes) // target)

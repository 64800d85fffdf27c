"""Tell that a compaction was cut off between its commits: worker and driver ask here. Standard library only.

A compaction rewrites data files first, then removes and merges what this leaves of delete files, and merges manifests
last. Each is a commit of its own, and only the first removes data files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from airflow_lake_provider.contracts.compaction_spec import CompactionSpec
from airflow_lake_provider.contracts.property_values import count_of, number_property
from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY

UNTIDIED = "an earlier compaction was cut off before the metadata was tidied"
_TARGET = "commit.manifest.target-size-bytes"
# As Iceberg takes it, where the table does not say (TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT).
_DEFAULT_BYTES = 8 * 1024**2
_OF_FILES = ("deleted-data-files", "added-delete-files", "removed-delete-files")


def is_untidied(
    facts: TableFacts, spec: CompactionSpec, run_key: str, manifest_sizes: Callable[[int], Iterable[Collection[int]]]
) -> bool:
    """Tell whether the newest compaction of main has not gone on to what it does last.

    :param run_key: of this run, whose own earlier try may have had a ``where``.
    :param manifest_sizes: reads the manifests of a snapshot, see :func:`would_be_fewer`.
    """
    newest = next((each for each in facts.ancestors() if each.summary.get(ACTION) == spec.action), None)
    if newest is None or not any(count_of(newest.summary, name) for name in _OF_FILES):
        # It has merged manifests, which is done last.
        return False
    # Version 2 cannot tell which position deletes lie on files that are gone, so these are always written anew.
    is_rewrite = spec.where is None and count_of(newest.summary, "deleted-data-files") > 0
    is_own = newest.summary.get(RUN_KEY) == run_key
    is_left = facts.format_version == 2 and count_of(newest.summary, "total-position-deletes") > 0
    if is_left and (is_rewrite or is_own):
        return True
    return spec.rewrite_manifests and would_be_fewer(facts, manifest_sizes(newest.id))


def would_be_fewer(facts: TableFacts, sizes: Iterable[Collection[int]]) -> bool:
    """Tell whether merging manifests would leave fewer.

    :param sizes: bytes of those that may be merged, those of data and those of deletes apart.
    """
    target = number_property(facts.name, facts.properties, _TARGET) or _DEFAULT_BYTES
    return any(len(each) > -(-sum(each) // target) for each in sizes)

"""Choose the manifests that are merged, by rules that worker and driver share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from airflow_lake_provider.contracts.property_values import number_or, number_property
from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.contracts.table_properties import ACTION

_TARGET = "commit.manifest.target-size-bytes"
# As Iceberg takes it, where the table does not say (TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT).
_DEFAULT_BYTES = 8 * 1024**2
_REWRITE = "rewrite-manifests"


def manifest_target(facts: TableFacts) -> int:
    """Return the bytes that a manifest should have.

    :raises BrokenMetadataError: the property is no number.
    """
    return number_property(facts.name, facts.properties, _TARGET) or _DEFAULT_BYTES


def manifest_target_bytes(properties: Mapping[str, str]) -> int:
    """Return the bytes that a manifest should have; Iceberg's where the property is no number, which others refuse."""
    return number_or(properties, _TARGET, _DEFAULT_BYTES)


def fewest_manifests(facts: TableFacts, sizes: Collection[int]) -> int:
    """Return how many manifests a merge would leave.

    :param sizes: bytes of those that are merged.
    """
    return -(-sum(sizes) // manifest_target(facts))


def specs_due(facts: TableFacts, sizes: Mapping[int, Iterable[Collection[int]]], *, sort: bool = False) -> list[int]:
    """Return the ids of the partition specs whose manifests a merge would make fewer.

    :param sizes: bytes of manifests by the id of their spec, those of data and those of deletes apart.
    :param sort: also where no fewer would be left, unless main's head is such a rewrite; never where more would be.
    """
    newest = facts.newest()
    is_sorted = newest is not None and newest.summary.get(ACTION) == _REWRITE

    def is_due(of_a_kind: Collection[int]) -> bool:
        left = fewest_manifests(facts, of_a_kind)
        return len(of_a_kind) > left or (sort and not is_sorted and 1 < len(of_a_kind) == left)

    return [id_ for id_, kinds in sorted(sizes.items()) if any(map(is_due, kinds))]


def manifests_sentence(sizes: Mapping[int, Sequence[Sequence[int]]], due: Collection[int]) -> str:
    """Say how many manifests there are, and of how many specs they are merged."""
    count = sum(len(each) for kinds in sizes.values() for each in kinds)
    of = f"{count:,} manifests of {len(sizes):,} partition specs"
    return f"{of}; those of {len(due):,} are due" if due else f"{of} are as few as their target size allows"

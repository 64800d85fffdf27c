"""Count the files of a head from its manifests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from airflow_lake_provider.contracts.property_values import number_or
from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.iceberg.compaction_rules import DEFAULT_TARGET_BYTES, TARGET_SIZE, followed_size
from airflow_lake_provider.tables.head_files import (
    FEWEST_MERGED,
    AddedFiles,
    HeadFiles,
    by_size,
    gone_by_merge,
    is_small,
    squared_distance,
)
from airflow_lake_provider.tables.iceberg.file_groups import FileRecord, deletes_on
from airflow_lake_provider.tables.iceberg.live_files import DeleteRecord, LiveFiles

# A head with more files is judged by its summary and its manifest list: reading them would take minutes.
MOST_FILES = 100_000
# Pairs grow with the square.
_MOST_COMPARED = 100
_MOST_PARTITIONS = 5
# Characters that are left of a bound: truncate(16), the metrics mode of Iceberg where a table names none.
_FEWEST_LEFT = 16

Partition = tuple[int, Hashable]


@dataclass(frozen=True, kw_only=True)
class ManifestRecord:
    """One manifest of a head.

    :param is_of_current_spec: whether it lists files of the table's current partition spec.
    :param files: live ones that it lists.
    :param ranges: lowest and highest value of each partition field; None where it does not say.
    """

    bytes: int
    is_of_deletes: bool
    is_of_current_spec: bool
    spec_id: int
    files: int
    ranges: tuple[tuple[Any, Any] | None, ...] = ()


def target_bytes(facts: TableFacts) -> int:
    """Return the bytes that a data file should have."""
    return followed_size(number_or(facts.properties, TARGET_SIZE, DEFAULT_TARGET_BYTES)) or DEFAULT_TARGET_BYTES


def count_head(
    manifests: Sequence[ManifestRecord],
    read: Callable[[], LiveFiles],
    named: Callable[[int, Hashable], str],
    recent: Collection[str],
    *,
    target: int,
    manifest_target: int,
    fewest: int = FEWEST_MERGED,
    sorted_by: str | None = None,
) -> HeadFiles:
    """Count what manifests say.

    :param read: reads the files that they list, unless there are too many.
    :param named: returns the name of a partition, by its spec.
    :param recent: snapshots whose files and deletes are counted by partition.
    :param target: bytes that a data file should have.
    :param manifest_target: bytes that a manifest should have.
    :param fewest: small files of a partition that are merged.
    :param sorted_by: column that files have the bounds of; None for no order.
    """
    of_manifests: dict[str, Any] = {
        "manifests": len(manifests),
        "manifest_bytes": sum(each.bytes for each in manifests),
        "mergeable_manifests": _mergeable_manifests(manifests, manifest_target),
        "overlap": _overlap(manifests),
    }
    if sum(each.files for each in manifests) > MOST_FILES:
        return HeadFiles(are_counted=False, **of_manifests)
    live = read()
    small = [file for file in live.data if is_small(file.bytes, target)]
    spared = _spared_by_merges(small, target)
    in_groups = {place: gone for place, (files, size, gone) in spared.items() if files >= fewest or size >= target}
    dangling = _dangling(live)
    return HeadFiles(
        are_counted=True,
        **_sizes(live.data, small, target),
        mergeable_files=sum(gone for _, _, gone in spared.values()),
        mergeable_in_groups=sum(in_groups.values()),
        delete_files=len(live.deletes),
        **_rows_deleted(live.deletes),
        dangling_files=len(dangling),
        deleted_by_partition=_deleted_by_partition(named, live),
        sorted_by=sorted_by,
        sorted_share=_sorted_share(live.data) if sorted_by is not None and live.data else None,
        added=_added(named, live, dangling, recent, in_groups),
        **of_manifests,
    )


def _sizes(files: Sequence[FileRecord], small: Sequence[FileRecord], target: int) -> dict[str, Any]:
    return {
        "data_files": len(files),
        "data_bytes": sum(file.bytes for file in files),
        "records": sum(file.records for file in files),
        "small_files": len(small),
        "small_bytes": sum(file.bytes for file in small),
        "by_size": by_size((file.bytes for file in files), target),
        "squared_distance": sum(squared_distance(file.bytes, target) for file in files) / max(1, len(files)),
    }


def _rows_deleted(deletes: Sequence[DeleteRecord]) -> dict[str, Any]:
    rows = {"position_deletes": 0, "vector_deletes": 0, "equality_deletes": 0}
    for delete in deletes:
        kind = "equality" if delete.is_equality else "vector" if delete.is_vector else "position"
        rows[f"{kind}_deletes"] += delete.records
    return rows


def _spared_by_merges(small: Iterable[FileRecord], target: int) -> dict[Partition, tuple[int, int, int]]:
    """Return the number of small files of each partition, their bytes, and how many a merge would spare."""
    sizes: dict[Partition, list[int]] = defaultdict(list)
    for file in small:
        sizes[file.spec_id, file.partition].append(file.bytes)
    return {place: (len(each), sum(each), gone_by_merge(len(each), sum(each), target)) for place, each in sizes.items()}


def _sorted_share(files: Sequence[FileRecord]) -> float | None:
    """Return the share of files in order; None where their bounds are missing, or end where values begin to differ."""
    bounds: dict[Partition, list[tuple[Any, Any]]] = defaultdict(list)
    for file in files:
        if file.bounds is not None:
            bounds[file.spec_id, file.partition].append(file.bounds)
        elif file.records:
            return None
    apart = sum(map(_apart, bounds.values()))
    at_most = sum(_apart([(low, _least_high(low, high)) for low, high in each]) for each in bounds.values())
    return round(apart / len(files), 4) if apart == at_most else None


def _least_high(low: Any, high: Any) -> Any:
    """Return what a highest value may have been before it was cut: Iceberg raises the last character that it leaves."""
    if not isinstance(high, (str, bytes)) or len(high) < _FEWEST_LEFT:
        return high
    cut: str | bytes = high[:-1]
    if isinstance(high, str) and ord(high[-1]):
        cut = high[:-1] + chr(ord(high[-1]) - 1)
    elif isinstance(high, bytes) and high[-1]:
        cut = high[:-1] + bytes([high[-1] - 1])
    return max(low, cut)


def _apart(bounds: list[tuple[Any, Any]]) -> int:
    """Return how many ranges meet no other one; ranges that touch do not meet."""
    count = 0
    try:
        ordered = sorted(bounds)
        highest = None
        for place, (low, high) in enumerate(ordered):
            meets_earlier = highest is not None and low < highest
            meets_later = place + 1 < len(ordered) and ordered[place + 1][0] < high
            count += not (meets_earlier or meets_later)
            highest = high if highest is None else max(highest, high)
    except TypeError:
        # A column of two types in its time has values that cannot be compared.
        return 0
    return count


def _dangling(live: LiveFiles) -> set[str]:
    return {delete.id for delete in live.deletes} - deletes_on(live.data)


def _deleted_by_partition(named: Callable[[int, Hashable], str], live: LiveFiles) -> tuple[tuple[str, float], ...]:
    deleted: dict[Partition, int] = defaultdict(int)
    records: dict[Partition, int] = defaultdict(int)
    for delete in live.deletes:
        if delete.partition and not delete.is_equality:
            deleted[delete.spec_id, delete.partition] += delete.records
    for file in live.data if deleted else ():
        records[file.spec_id, file.partition] += file.records
    # Deletes of a partition without data files lie on nothing, which is counted elsewhere.
    shares = [(min(1.0, rows / records[place]), place) for place, rows in deleted.items() if records.get(place, 0) > 0]
    largest = sorted(shares, key=lambda each: (-each[0], repr(each[1])))[:_MOST_PARTITIONS]
    return tuple((named(*place), round(share, 4)) for share, place in largest)


def _added(
    named: Callable[[int, Hashable], str],
    live: LiveFiles,
    dangling: Collection[str],
    recent: Collection[str],
    mergeable: Mapping[Partition, int],
) -> tuple[AddedFiles, ...]:
    added: dict[Partition, list[str]] = defaultdict(list)
    deletes: dict[Partition, list[DeleteRecord]] = defaultdict(list)
    changed: dict[Partition, set[str]] = defaultdict(set)
    for file in live.data:
        if file.snapshot in recent and file.snapshot is not None and file.partition != ():
            added[file.spec_id, file.partition].append(file.snapshot)
            changed[file.spec_id, file.partition].add(file.snapshot)
    for delete in live.deletes:
        if delete.partition and delete.snapshot in recent and delete.snapshot is not None:
            changed[delete.spec_id, delete.partition].add(delete.snapshot)
        if delete.partition and delete.id not in dangling:
            deletes[delete.spec_id, delete.partition].append(delete)
    return tuple(
        AddedFiles(
            partition=named(*place),
            snapshots=frozenset(snapshots),
            files=len(added.get(place, ())),
            mergeable_files=mergeable.get(place, 0),
            delete_files=len(deletes.get(place, ())),
            equality_deletes=sum(each.records for each in deletes.get(place, ()) if each.is_equality),
            deleted_rows=sum(each.records for each in deletes.get(place, ()) if not each.is_equality),
        )
        for place, snapshots in changed.items()
    )


def _mergeable_manifests(manifests: Iterable[ManifestRecord], target: int) -> int:
    sizes: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for each in manifests:
        sizes[each.spec_id, each.is_of_deletes].append(each.bytes)
    return sum(gone_by_merge(len(each), sum(each), target) for each in sizes.values())


def _overlap(manifests: Iterable[ManifestRecord]) -> float | None:
    compared = [each for each in manifests if each.is_of_current_spec and not each.is_of_deletes and each.ranges]
    pairs = list(combinations(compared[:_MOST_COMPARED], 2))
    return round(sum(_meet(one, other) for one, other in pairs) / len(pairs), 4) if pairs else None


def _meet(one: ManifestRecord, other: ManifestRecord) -> bool:
    """Tell whether partitions of two manifests meet, and a sort could part them: not those of one and the same."""
    if one.ranges == other.ranges and all(each is not None and each[0] == each[1] for each in one.ranges):
        return False
    try:
        return all(
            a is None or b is None or (a[0] <= b[1] and b[0] <= a[1])
            for a, b in zip(one.ranges, other.ranges, strict=False)
        )
    except TypeError:
        return True

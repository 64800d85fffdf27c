"""Group the files that are rewritten together, as Iceberg's bin-packing planner does, on plain records.

The rule is ``BinPackRewriteFilePlanner`` of Iceberg 1.12, which is what a compaction runs.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.iceberg.compaction_rules import RewriteRules


@dataclass(frozen=True)
class LaterDeletes(Collection[str]):
    """Ids of the delete files that apply to a data file, as ends of lists that all files of a partition share.

    A table that Flink upserts into has thousands of files and of equality deletes. One set for each file would take
    gigabytes.

    :param ends: lists by sequence numbers, and where in each the first that applies is.
    """

    ends: tuple[tuple[Sequence[tuple[int, str]], int], ...] = ()

    def __len__(self) -> int:
        """Return how many there are."""
        return sum(len(ordered) - start for ordered, start in self.ends)

    def __iter__(self) -> Iterator[str]:
        """Yield each of them."""
        return (ordered[place][1] for ordered, start in self.ends for place in range(start, len(ordered)))

    def __contains__(self, id_: object) -> bool:
        """Tell whether one is among them."""
        return any(each == id_ for each in self)


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """One data file.

    :param partition: partition values; files of an older partition spec are planned as one partition.
    :param delete_files: ids of the delete files that apply to it, of whatever kind.
    :param deleted_records: rows deleted by the delete files that apply to this file only; others are not countable.
    :param snapshot: that added it; None where its manifest does not say.
    :param bounds: lowest and highest value of the column that was asked for; None where its manifest does not say.
    :param nulls: rows without a value of it; None likewise.
    """

    path: str
    spec_id: int
    partition: tuple[Hashable, ...]
    bytes: int
    records: int
    delete_files: Collection[str] = ()
    deleted_records: int = 0
    snapshot: str | None = None
    bounds: tuple[Any, Any] | None = None
    nulls: int | None = None


def deletes_on(files: Iterable[FileRecord]) -> set[str]:
    """Return the ids of all delete files that apply to any of some files; a list that they share is walked once."""
    ids: set[str] = set()
    longest: dict[int, tuple[Sequence[tuple[int, str]], int]] = {}
    for file in files:
        if not isinstance(file.delete_files, LaterDeletes):
            ids.update(file.delete_files)
            continue
        for ordered, start in file.delete_files.ends:
            _, earlier = longest.get(id(ordered), (ordered, start))
            longest[id(ordered)] = ordered, min(start, earlier)
    return ids.union(LaterDeletes(tuple(longest.values())))


def plan_groups(files: Iterable[FileRecord], rules: RewriteRules, spec_id: int) -> list[list[FileRecord]]:
    """Return the groups of files that are due.

    :param spec_id: the table's partition spec.
    """
    partitions: dict[tuple[Hashable, ...] | None, list[FileRecord]] = {}
    for file in files:
        partitions.setdefault(_partition_of(file, spec_id), []).append(file)
    due = (
        [group for group in _packed(_candidates(members, rules), rules) if _group_is_due(group, rules)]
        for members in partitions.values()
    )
    return [group for groups in due for group in groups]


def _partition_of(file: FileRecord, spec_id: int) -> tuple[Hashable, ...] | None:
    """Return what a file is grouped by; None of an older spec, which Iceberg takes for a partition without values."""
    values = file.partition if file.spec_id == spec_id else ()
    return values if any(value is not None for value in values) else None


def has_many_deletes(file: FileRecord, rules: RewriteRules) -> bool:
    """Tell whether the deletes on a file alone make it due."""
    if not file.delete_files:
        return False
    # Iceberg divides by zero into NaN here, which is past no threshold.
    ratio = min(file.deleted_records, file.records) / file.records if file.records else 0.0
    return len(file.delete_files) >= rules.delete_file_threshold or ratio >= rules.delete_ratio_threshold


def _candidates(files: Iterable[FileRecord], rules: RewriteRules) -> Iterator[FileRecord]:
    for file in files:
        wrong_size = file.bytes < rules.min_bytes or file.bytes > rules.max_bytes
        if rules.rewrite_all or wrong_size or has_many_deletes(file, rules):
            yield file


def _packed(files: Iterable[FileRecord], rules: RewriteRules) -> Iterator[list[FileRecord]]:
    group: list[FileRecord] = []
    size = 0
    for file in files:
        if group and size + file.bytes > rules.group_bytes:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.bytes
    if group:
        yield group


def _group_is_due(group: Sequence[FileRecord], rules: RewriteRules) -> bool:
    size = sum(file.bytes for file in group)
    return (
        rules.rewrite_all
        or (len(group) > 1 and (len(group) >= rules.min_input_files or size > rules.target_bytes))
        or size > rules.max_bytes
        or any(has_many_deletes(file, rules) for file in group)
    )

"""Debt of a table that a compaction pays: small files, deletes, and an order that rows have lost.

Either shares of the whole table count, or, where a policy asks for it, what commits have added since the last
compaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionPolicy, CompactionStrategy
from airflow_lake_provider.contracts.curve_order import curve_of
from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.maintenance.health import DeleteDebt, FileSizes, TableHealth
from airflow_lake_provider.maintenance.history import Growth
from airflow_lake_provider.maintenance.plan import Reason

_LONGEST_NAME = 60


@dataclass(frozen=True, kw_only=True)
class Debt:
    """Debt of a table that a compaction pays.

    :param small: reasons for a merge of small files.
    :param deletes: reasons for a rewrite of files with deletes.
    :param order: reasons for a sort.
    :param notes: what is not counted, and why.
    """

    small: tuple[Reason, ...] = ()
    deletes: tuple[Reason, ...] = ()
    order: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)


def debt_of(health: TableHealth, files: FileSizes, asked: CompactionPolicy, mergeable: int) -> Debt:
    """Return the debt of a table, by the thresholds of its policy.

    :param health: of the table; its deletes are those that a compaction would apply.
    :param mergeable: files that a merge would spare.
    """
    order, note = _order(health, files, asked)
    notes = (note,) if note else ()
    if asked.waits_for_growth:
        small, deletes = _grown(health, asked, mergeable)
        return Debt(small=small, deletes=deletes, order=order if small or deletes else (), notes=notes)
    small = tuple(_small_files(health, files, asked, mergeable))
    deletes = tuple(_deletes(health.deletes, files, asked)) if health.deletes else ()
    return Debt(small=small, deletes=deletes, order=order, notes=notes)


def not_grown(growth: Growth, asked: CompactionPolicy, mergeable: int) -> str:
    """Return why commits since the last compaction make none due, as sentences."""
    counts = _thresholds(growth, asked)
    counted = [f"{value:,} of {threshold:,} {what}" for _, what, value, threshold in counts]
    passed = any(value >= threshold for *_, value, threshold in counts)
    left = f" A merge would spare {mergeable:,} data files, and no deletes are left." if passed else ""
    return f"Since the last compaction there were {' and '.join(counted)}.{left}"


def cut(partition: str) -> str:
    """Return the name of a partition, which strangers choose, as a plan shows it."""
    return partition if len(partition) <= _LONGEST_NAME and partition.isprintable() else shown(partition)


def _thresholds(growth: Growth, asked: CompactionPolicy) -> list[tuple[str, str, int, int]]:
    """Return name, words, count and threshold of what a policy counts since the last compaction."""
    counts = (
        ("commits", "commits of rows", growth.commits, asked.after_commits),
        ("new-small-files", "new small files", growth.small_files, asked.after_small_files),
        ("new-delete-files", "delete files", growth.delete_files, asked.after_delete_files),
    )
    return [(name, what, value, threshold) for name, what, value, threshold in counts if threshold is not None]


def _grown(
    health: TableHealth, asked: CompactionPolicy, mergeable: int
) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """Return why a merge, and why a rewrite of deletes is due by what commits have added."""
    growth, deletes = health.growth, health.deletes or DeleteDebt()
    may_apply = (deletes.delete_files or 0) > (deletes.dangling_files or 0)
    of_deletes = replace(growth, commits=growth.commits_of_deletes)
    return (
        tuple(each for each in _passed(growth, asked) if mergeable > 0 and each.name != "new-delete-files"),
        tuple(each for each in _passed(of_deletes, asked) if may_apply and each.name != "new-small-files"),
    )


def _passed(growth: Growth, asked: CompactionPolicy) -> list[Reason]:
    return [
        Reason(
            name=name,
            value=value,
            threshold=threshold,
            sentence=f"There were {value:,} {what} since the last compaction; the threshold is {threshold:,}.",
        )
        for name, what, value, threshold in _thresholds(growth, asked)
        if value >= threshold
    ]


def _small_files(health: TableHealth, files: FileSizes, asked: CompactionPolicy, mergeable: int) -> Iterator[Reason]:
    total = files.data_files or 0
    share = min(1.0, mergeable / max(1, total))
    if mergeable >= asked.min_input_files and share >= asked.small_file_share:
        most = "" if health.manifests_read else "at most "
        yield Reason(
            name="small-files",
            value=share,
            threshold=asked.small_file_share,
            sentence=f"{most}{mergeable:,} of {total:,} data files, {share:.0%}, would be gone by a merge; the "
            f"threshold is {asked.small_file_share:.0%}.",
        )


def _deletes(deletes: DeleteDebt, files: FileSizes, asked: CompactionPolicy) -> Iterator[Reason]:
    count, total = deletes.delete_files or 0, files.data_files or 0
    if deletes.dangling_files is not None and deletes.dangling_files >= count > 0:
        # They lie on no data file, so no rewrite pays them.
        return
    if (keys := deletes.equality_deletes or 0) > 0:
        yield Reason(
            name="equality-deletes",
            value=keys,
            threshold=1,
            sentence=f"{keys:,} keys of equality deletes are compared with rows at each read; the threshold is 1.",
        )
    if (deletes.deleted_share or 0) >= asked.deleted_share:
        yield _share("deleted-rows", deletes.deleted_share or 0, asked.deleted_share, "the rows")
    worst = max(deletes.partitions, key=lambda each: each.deleted_share, default=None)
    if worst is not None and worst.deleted_share >= asked.deleted_share:
        place = f"the rows of partition {cut(worst.partition)}"
        yield _share("partition-deletes", worst.deleted_share, asked.deleted_share, place)
    ratio = count / max(1, total)
    if count >= asked.min_input_files and ratio >= asked.delete_files_per_data_file:
        yield Reason(
            name="delete-files",
            value=ratio,
            threshold=asked.delete_files_per_data_file,
            sentence=f"{count:,} delete files lie on {total:,} data files; the threshold is "
            f"{asked.delete_files_per_data_file:g} for each.",
        )


def _share(name: str, share: float, threshold: float, what: str) -> Reason:
    sentence = f"{share:.0%} of {what} are deleted; the threshold is {threshold:.0%}."
    return Reason(name=name, value=share, threshold=threshold, sentence=sentence)


def _order(health: TableHealth, files: FileSizes, asked: CompactionPolicy) -> tuple[tuple[Reason, ...], str | None]:
    """Return why a sort is due; or why it is not, where the policy asks for an order."""
    if asked.strategy is CompactionStrategy.BINPACK:
        return (), None
    wanted = asked.strategy.value
    if asked.strategy.is_by_curve:
        share = _along_curve(health, asked)
        if share is None:
            return (), f"No {wanted}: there are no rows, or nobody has counted them."
        what = f"of the rows are in order by {curve_of(asked.strategy, asked.sort_by)}"
        return _out_of_order(share, asked, what, "rows")
    by = asked.sort_by[0].split()[0].strip("`") if asked.sort_by and asked.sort_by[0].split() else files.sorted_by
    if files.sorted_share is None and by is not None and by == files.sorted_by:
        return (), (
            f"No {wanted}: the order cannot be told. Some files have no lowest and highest values of {by}, or only "
            "first characters that they have in common."
        )
    if files.sorted_share is None or by != files.sorted_by:
        return (), (
            f"No {wanted}: nobody has measured the order. That takes a sort order of the table whose first column is "
            "the policy's, and manifests that were read."
        )
    return _out_of_order(files.sorted_share, asked, f"of the files are in order by {by}", "files")


def _out_of_order(share: float, asked: CompactionPolicy, what: str, of: str) -> tuple[tuple[Reason, ...], str | None]:
    """Return why rows are put in order, or why not.

    :param share: that is in order.
    :param what: the share is of, for a sentence.
    """
    if share >= asked.sorted_share:
        return (), f"No {asked.strategy.value}: {share:.0%} of the {of} are in order, and {asked.sorted_share:.0%} do."
    sentence = f"{share:.0%} {what}; the threshold is {asked.sorted_share:.0%}."
    return (Reason(name="order", value=share, threshold=asked.sorted_share, sentence=sentence),), None


def _along_curve(health: TableHealth, asked: CompactionPolicy) -> float | None:
    """Return the share of rows that may still lie along the curve of a policy; None where nobody has counted rows.

    Rows that came since then are counted by commits that the metadata knows, or by the growth of the table, whichever
    is more. A row that changes twice counts twice.
    """
    if not health.rows:
        return None
    curve = health.curve
    if curve is None or curve.by != curve_of(asked.strategy, asked.sort_by):
        return 0.0
    new = max(curve.added_since, health.rows - curve.rows)
    return max(0.0, 1 - new / max(1, health.rows))

"""Compaction of a table, planned or left out: its level, its order, and what of the table it leaves alone.

``minor`` merges small files, ``major`` also rewrites files with deletes, ``full`` sorts the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.author.maintenance_policy import (
    CompactionLevel,
    CompactionPolicy,
    CompactionStrategy,
    MaintenancePolicy,
    Verification,
)
from airflow_lake_provider.contracts.setting_kinds import Hours
from airflow_lake_provider.maintenance.compaction_debt import Debt, cut, debt_of, not_grown
from airflow_lake_provider.maintenance.costs import compaction_effect, compaction_gain, ranked_action
from airflow_lake_provider.maintenance.health import OF_PART, DeleteDebt, FileSizes, TableHealth
from airflow_lake_provider.maintenance.hot_partitions import HotPartition
from airflow_lake_provider.maintenance.past_outcomes import due_after, is_recent
from airflow_lake_provider.maintenance.plan import NotPlanned, PlannedAction, ruled_out
from airflow_lake_provider.maintenance.score import age_text

ACTION = "compaction"
# A table that is always written to, and whose hot partitions no predicate leaves out, is compacted so often.
LONGEST_WAIT = due_after(timedelta(days=1))
# So is a partition that is changed all day. It is known only of changes of the last day how old they are.
LONGEST_HEAT = timedelta(hours=18)
_MINOR, _MAJOR, _FULL = CompactionLevel.MINOR, CompactionLevel.MAJOR, CompactionLevel.FULL
_MOST_NAMED = 3
_LONGEST_SKIPPED = 300
_WHOLE = "No part of the table can be left out, so neither can the hot partitions"
_UNCOUNTED = "nobody has counted the deletes in hot partitions"


@dataclass(frozen=True, kw_only=True)
class _Heat:
    """Partitions that are written to just now.

    :param partitions: changed within the time of the policy.
    :param where: predicate on the rows of all others; None where none can be written, or nothing is hot.
    :param skipped: those that no predicate leaves out, and that are left out by their names.
    :param mergeable: files that a merge would spare in them.
    :param deletes: delete files on them that somebody has counted, their keys, and rows that the others delete.
    :param obstacle: why they are not left out, where they are not; the begin of a sentence.
    """

    partitions: tuple[HotPartition, ...] = ()
    where: str | None = None
    skipped: tuple[str, ...] = ()
    mergeable: int = 0
    deletes: tuple[int, int, int] = (0, 0, 0)
    obstacle: str = "Nothing leaves out the hot partitions"

    @property
    def names(self) -> str:
        """The partitions, for a sentence."""
        named = ", ".join(cut(each.partition) for each in self.partitions[:_MOST_NAMED])
        rest = len(self.partitions) - _MOST_NAMED
        return f"{named} and {rest:,} more" if rest > 0 else named

    @property
    def newest(self) -> datetime:
        """Moment of the newest change."""
        return max(each.newest for each in self.partitions)

    @property
    def is_left_out(self) -> bool:
        """True where a compaction leaves them alone."""
        return self.where is not None or bool(self.skipped)

    @property
    def has_uncounted_deletes(self) -> bool:
        """True where deletes may lie on what is left out, and nobody knows how many."""
        return self.is_left_out and any(each.delete_files is None for each in self.partitions)


def plan_compaction(health: TableHealth, policy: MaintenancePolicy, now: datetime) -> PlannedAction | NotPlanned:
    """Return the compaction of a table, or why there is none.

    :param now: UTC.
    """
    asked = policy.compaction
    if not asked.enabled:
        return _left_out("The policy rewrites no files.", "Set compaction.enabled to true to compact the table.")
    if (obstacle := health.obstacles.get(ACTION)) is not None:
        return ruled_out(ACTION, obstacle, "Change the table, or compact it with another engine.")
    if (files := health.files) is None or files.data_files is None:
        return _left_out(
            "The number of data files is not known.", "Nothing is due until a summary or the manifests count them."
        )
    heat = _heat(health, asked, now)
    health = replace(health, deletes=_outside(health.deletes, heat))
    debt = _without_order_of_heat(debt_of(health, files, asked, _mergeable(files, heat)), files, asked, heat)
    if not (debt.small or debt.deletes or debt.order):
        return _nothing_due(health, files, asked, heat)
    level, notes, refusal = _level(debt, policy, now)
    refusal = _comes_too_soon(health, asked, now) or refusal
    if refusal is not None:
        return refusal
    if level is _MAJOR and heat.has_uncounted_deletes:
        if not _is_long_ago(health, now):
            if not debt.small:
                return _waits_for_counts(health, asked, heat, now)
            level, notes = _MINOR, (*notes, f"Level major waits until a day after the last compaction: {_UNCOUNTED}.")
        else:
            obstacle = "Nobody has counted the deletes in the hot partitions"
            heat = replace(heat, where=None, skipped=(), mergeable=0, obstacle=obstacle)
    if (waits := _waits_for_cold(health, asked, heat, now)) is not None:
        return waits
    return _planned(health, files, policy, level, debt, heat, notes)


def _without_order_of_heat(debt: Debt, files: FileSizes, asked: CompactionPolicy, heat: _Heat) -> Debt:
    """Leave out an order along a curve where most of the table is left alone: it would be due again each night."""
    hot = sum(each.files or 0 for each in heat.partitions) if heat.is_left_out else 0
    if not asked.strategy.is_by_curve or 2 * hot <= (files.data_files or 0):
        return debt
    note = f"No {asked.strategy.value}: most files are in hot partitions: {heat.names}."
    return replace(debt, order=(), notes=(*debt.notes, note))


def _left_out(why: str, instead: str) -> NotPlanned:
    return NotPlanned(action=ACTION, why=why, instead=instead)


def _comes_too_soon(health: TableHealth, asked: CompactionPolicy, now: datetime) -> NotPlanned | None:
    """Return why a compaction waits for the time that the policy asks for between two."""
    last = health.last_maintenance.get(ACTION)
    if last is None or not is_recent(last.at, due_after(asked.every), now):
        return None
    return _left_out(
        f"The last compaction was at {last.at:%H:%M}; compaction.every is {asked.every}.",
        f"It is due from {last.at + due_after(asked.every):%Y-%m-%d %H:%M} on.",
    )


def _heat(health: TableHealth, asked: CompactionPolicy, now: datetime) -> _Heat:
    hot = tuple(each for each in health.hot_partitions if _is_hot(each, asked.hot_within, now))
    # A table without partitions has one without a name, and a task has no room for names of strangers without an end.
    if not all(each.outside or 0 < len(each.partition) <= _LONGEST_SKIPPED for each in hot):
        return _Heat(partitions=hot)
    if OF_PART in health.obstacles:
        return _Heat(partitions=hot, obstacle=_WHOLE)
    return _Heat(
        partitions=hot,
        where=" AND ".join(filter(None, (each.outside for each in hot))) or None,
        skipped=tuple(each.partition for each in hot if each.outside is None),
        mergeable=sum(max(0, each.mergeable_files or 0) for each in hot),
        deletes=(
            sum(max(0, each.delete_files or 0) for each in hot),
            sum(max(0, each.equality_deletes or 0) for each in hot),
            sum(max(0, each.deleted_rows or 0) for each in hot),
        ),
    )


def _is_hot(partition: HotPartition, within: timedelta, now: datetime) -> bool:
    """Tell whether a partition is left to cool, which one that is changed all day never would."""
    has_waited = partition.oldest is not None and now - partition.oldest >= _longest_heat(within)
    return bool(within) and is_recent(partition.newest, within, now) and not has_waited


def _longest_heat(within: timedelta) -> timedelta:
    return max(LONGEST_HEAT, within)


def _outside(deletes: DeleteDebt | None, heat: _Heat) -> DeleteDebt | None:
    """Return the deletes that do not lie on hot partitions: a compaction that leaves these out pays no others."""
    if deletes is None or not heat.is_left_out:
        return deletes
    files, keys, rows = heat.deletes
    before = max(0, deletes.deleted_rows or 0)
    left, hot = max(0, before - rows), {each.partition for each in heat.partitions}
    return replace(
        deletes,
        delete_files=max(0, (deletes.delete_files or 0) - files),
        equality_deletes=max(0, (deletes.equality_deletes or 0) - keys),
        deleted_rows=left,
        deleted_share=(deletes.deleted_share or 0.0) * (left / before if before else 1.0),
        partitions=tuple(each for each in deletes.partitions if each.partition not in hot),
    )


def _mergeable(files: FileSizes, heat: _Heat) -> int:
    """Return the files that a merge would spare in what is not hot; at most these where nobody has read manifests."""
    counted = files.mergeable_files if files.mergeable_in_groups is None else files.mergeable_in_groups
    return max(0, (counted or 0) - heat.mergeable)


def _nothing_due(health: TableHealth, files: FileSizes, asked: CompactionPolicy, heat: _Heat) -> NotPlanned:
    mergeable, total = _mergeable(files, heat), files.data_files or 0
    if asked.waits_for_growth:
        why = not_grown(health.growth, asked, mergeable)
    else:
        why = (
            f"{mergeable:,} of {total:,} data files would be gone by a merge; the threshold is "
            f"{asked.small_file_share:.0%}, and at least {asked.min_input_files:,}. Deletes are below theirs."
        )
    more = f"{heat.mergeable:,} more" if heat.mergeable else ""
    deletes = f"{heat.deletes[0]:,} delete files" if heat.deletes[0] else ""
    if more or deletes:
        return _left_out(
            f"{why} {' and '.join(filter(None, (more, deletes)))} are in hot partitions: {heat.names}.",
            f"They are merged {age_text(asked.hot_within)} after their last change, or when their oldest is "
            f"{age_text(_longest_heat(asked.hot_within))} old.",
        )
    return _left_out(why, "Nothing is due.")


def _level(
    debt: Debt, policy: MaintenancePolicy, now: datetime
) -> tuple[CompactionLevel, tuple[str, ...], NotPlanned | None]:
    """Return the level, what it leaves of the debt, and a refusal where it may do nothing now."""
    most = policy.compaction.level
    wanted = _FULL if debt.order and most is _FULL else _MAJOR if debt.deletes and most is not _MINOR else _MINOR
    if wanted is _MINOR and not debt.small:
        owed = " ".join(each.sentence for each in (*debt.deletes, *debt.order))
        refusal = _left_out(
            f"{owed} The policy allows level {most.value}.",
            "Set compaction.level to 'auto' for deletes, 'full' to sort.",
        )
        return wanted, (), refusal
    if wanted is _MINOR:
        left = bool(debt.deletes)
        return wanted, ("The policy's level 'minor' leaves the deletes.",) if left else (), None
    when = _waits_until(policy.major_hours, now)
    if when is None:
        return wanted, (), None
    if debt.small:
        return _MINOR, (f"Level {wanted.value} {when}.",), None
    return wanted, (), _left_out(f"Level {wanted.value} is due, outside of its hours.", f"It {when}.")


def _waits_until(hours: Hours | None, now: datetime) -> str | None:
    """Return when major work may begin, the end of a sentence; None where it may now."""
    return None if hours is None or hours.include(now) else f"may begin at {hours.begin:02}:00 UTC"


def _waits_for_cold(health: TableHealth, asked: CompactionPolicy, heat: _Heat, now: datetime) -> NotPlanned | None:
    if not heat.partitions or heat.is_left_out:
        return None
    if _is_long_ago(health, now):
        return None
    return _waits(health, asked, f"Partitions are hot and nothing leaves them out: {heat.names}.", now)


def _waits_for_counts(health: TableHealth, asked: CompactionPolicy, heat: _Heat, now: datetime) -> NotPlanned:
    return _waits(health, asked, f"{_UNCOUNTED[0].upper()}{_UNCOUNTED[1:]}: {heat.names}.", now)


def _is_long_ago(health: TableHealth, now: datetime) -> bool:
    """Tell whether a compaction that waits for partitions to cool has waited long enough."""
    last = health.last_maintenance.get(ACTION)
    return last is None or not is_recent(last.at, LONGEST_WAIT, now)


def _waits(health: TableHealth, asked: CompactionPolicy, why: str, now: datetime) -> NotPlanned:
    ago = age_text(now - health.last_maintenance[ACTION].at)
    return _left_out(
        f"{why} The last compaction was {ago} ago.",
        f"It comes {age_text(asked.hot_within)} after their last change, or a day after the last compaction.",
    )


def _planned(
    health: TableHealth,
    files: FileSizes,
    policy: MaintenancePolicy,
    level: CompactionLevel,
    debt: Debt,
    heat: _Heat,
    notes: tuple[str, ...],
) -> PlannedAction:
    # A merge along a curve would put a part in order, and take groups of the size of a sort.
    is_sort = bool(debt.order) and (level is _FULL or not policy.compaction.strategy.is_by_curve)
    strategy = policy.compaction.strategy if is_sort else CompactionStrategy.BINPACK
    reasons = (*debt.small, *(() if level is _MINOR else debt.deletes), *(debt.order if level is _FULL else ()))
    deletes = None if level is _MINOR else health.deletes
    effect = compaction_effect(files, _mergeable(files, heat), deletes, level, strategy)
    task: dict[str, Any] = {
        "action": ACTION,
        "table": health.table,
        "level": level.value,
        "strategy": strategy.value,
        "runner": policy.compaction.runner.value,
        "min_input_files": policy.compaction.min_input_files,
        # A level takes files past this share for their deletes; a minor one leaves all but those without a row.
        "delete_ratio_threshold": 1.0 if level is _MINOR else policy.compaction.deleted_share,
        "rewrite_manifests": policy.manifests.enabled,
        **({"sort_by": list(policy.compaction.sort_by)} if is_sort else {}),
        **({"verify": asked.value} if (asked := _verification(health, policy)) else {}),
        **({"where": heat.where} if heat.where else {}),
        **({"skip_partitions": list(heat.skipped)} if heat.skipped else {}),
        **({"target_file_size": size} if (size := policy.compaction.target_file_size) else {}),
    }
    action = PlannedAction(
        action=ACTION,
        level=level.value,
        reasons=reasons,
        effect=effect,
        notes=(*notes, *_notes(health, policy, debt, heat)),
        task=task,
    )
    return ranked_action(action, compaction_gain(files, effect, deletes, level))


def _verification(health: TableHealth, policy: MaintenancePolicy) -> Verification | None:
    asked = policy.compaction.verify
    return asked if asked is None or health.has_identifiers else Verification.ROWS


def _notes(health: TableHealth, policy: MaintenancePolicy, debt: Debt, heat: _Heat) -> Iterator[str]:
    if heat.is_left_out:
        yield f"Hot partitions are left alone: {heat.names}."
    elif heat.partitions:
        yield f"{heat.obstacle} {heat.names}; a writer that comes first wins."
    yield from debt.notes
    if policy.manifests.enabled and health.manifests is not None and health.manifests.mergeable:
        yield f"{health.manifests.mergeable:,} manifests and those of the new files are merged at its end."

"""Tune defaults of a policy by what a table's snapshots tell of its writes and rewrites. Decision 61 has the reasons.

All is counted up to the last midnight of UTC, so a value changes at most once a day. Nothing is stored: without the
switch the defaults hold again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy, TuningPolicy
from airflow_lake_provider.contracts.durations import epoch_millis, span_millis
from airflow_lake_provider.contracts.policy_settings import SETTINGS, NamedValue
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.maintenance.history import changes_since, counts_files, small_files
from airflow_lake_provider.maintenance.plan import PlannedAction, TablePlan
from airflow_lake_provider.maintenance.policy import Layer, LayerValues, TablePolicy, merge
from airflow_lake_provider.maintenance.score import size_text
from airflow_lake_provider.tables.base import LoadedTable
from airflow_lake_provider.tables.head_files import SMALL_FILE_SHARE

_DAY, _LONGEST = timedelta(days=1), timedelta(days=7)
# Fewer say nothing of a rate. Iceberg's own expiry leaves five days.
_FEWEST_COMMITS, _FEWEST_DAYS = 3, 4
# Between two targets. Iceberg splits a file of 1.8 times the target, so one step down splits none.
_STEP = 1.75
_SPLIT = 1.8
# Share of days with commits from which on a table is written steadily.
_STEADY = 0.75
# Share of a target that a file which is not full yet has on average: it is full from 75 % on.
_REWRITTEN_AGAIN = 0.375
# Of what the default is expected to cost, at which a change begins to be worth it.
_WORTH_IT = 0.8
# Share of the files of a day: a partition that is written to no more is merged the night after.
_OF_A_DAY = 0.5
# Commits for which one look at orphan files is enough: at 28 a day the default of 7 days.
_COMMITS_OF_A_LOOK = 200
TARGET, SHARE = "compaction.target_file_size", "compaction.small_file_share"
SNAPSHOTS, ORPHANS = "expiry.min_snapshots", "orphans.every"
# Settings by the names of the reasons that compare with them.
_OF_REASONS = {"small-files": SHARE, "snapshots": SNAPSHOTS, "orphans": ORPHANS}


@dataclass(frozen=True, kw_only=True)
class WriteRate:
    """Writes and rewrites of main up to a midnight, as far as its snapshots tell; sizes are bytes.

    :param days: that are counted, at most a week.
    :param active_days: of these, those with a commit that changed rows.
    :param commits: that changed rows.
    :param small_files: data files of commits whose files are small on average.
    :param small_bytes: of these.
    :param compactions: that wrote files anew.
    :param data_files: of the head.
    :param data_bytes: of the head.
    :param delete_files: of the head, and those that commits added.
    :param bytes_at_rest: mean size of all files but the small ones since the last compaction.
    """

    days: float
    active_days: int
    commits: int
    small_files: int
    small_bytes: int
    compactions: int
    data_files: int
    data_bytes: int
    delete_files: int
    bytes_at_rest: float

    @property
    def mean_bytes(self) -> float:
        """Mean size of these files."""
        return self.small_bytes / max(1, self.small_files)

    @property
    def commits_a_day(self) -> float:
        """Commits that changed rows."""
        return self.commits / self.days


def write_rate(history: Sequence[Snapshot], target: int, now: datetime) -> WriteRate | None:
    """Return what is measured of a table; None where too little is known.

    :param history: of main, newest first.
    :param target: bytes that a data file should have.
    :param now: UTC.
    """
    midnight = epoch_millis(now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
    past = [each for each in history if each.at < midnight]
    newest = [each for each in past if each.at >= midnight - span_millis(_LONGEST)]
    changes = [each.summary for each in newest if each.changes_rows]
    days = (midnight - min((each.at for each in newest), default=midnight)) / span_millis(_DAY)
    if len(changes) < _FEWEST_COMMITS or days < _FEWEST_DAYS or not all(map(counts_files, changes)):
        return None
    small = [each for each in changes if small_files(each, target)]
    waiting = [each for each in changes_since(past, "deleted-data-files") if small_files(each, target)]
    head = past[0].summary
    files, size = count_of(head, "total-data-files"), count_of(head, "total-files-size")
    rest_files, rest = files - _sum(waiting, "added-data-files"), size - _sum(waiting, "added-files-size")
    return WriteRate(
        days=days,
        active_days=len({each.at // span_millis(_DAY) for each in newest if each.changes_rows}),
        commits=len(changes),
        small_files=_sum(small, "added-data-files"),
        small_bytes=_sum(small, "added-files-size"),
        compactions=sum(map(_is_compaction, newest)),
        data_files=files,
        data_bytes=size,
        delete_files=count_of(head, "total-delete-files") + _sum(changes, "added-delete-files"),
        bytes_at_rest=max(0, rest) / rest_files if rest_files > 0 else 0.0,
    )


def _is_compaction(snapshot: Snapshot) -> bool:
    is_rewrite = count_of(snapshot.summary, "added-files-size") and count_of(snapshot.summary, "deleted-data-files")
    return snapshot.operation == "replace" and bool(is_rewrite)


def _sum(summaries: Sequence[Mapping[str, str]], name: str) -> int:
    return sum(count_of(each, name) for each in summaries)


def tuned_policy(untuned: TablePolicy, layers: Sequence[LayerValues], table: LoadedTable, now: datetime) -> TablePolicy:
    """Return the policy of a table with its defaults tuned, where the policy asks for it.

    :param untuned: merged of the layers.
    :param layers: what is named in them stays.
    :param table: loaded now.
    :param now: UTC.
    """
    lacks_counts = table.capabilities.lacks("health", table.facts.format_version) is not None
    if untuned.policy is None or not untuned.policy.tuning.enabled or lacks_counts:
        return untuned
    target = untuned.policy.compaction.target_file_size or table.target_bytes
    rate = write_rate(list(table.facts.ancestors()), target, now)
    named = [*_tuned(untuned, untuned.policy, table, target, rate)] if rate else []
    return merge(untuned.table, [*layers, LayerValues(Layer.TUNED, named)]) if named else untuned


def _tuned(
    untuned: TablePolicy, policy: MaintenancePolicy, table: LoadedTable, target: int, rate: WriteRate
) -> Iterator[NamedValue]:
    taken = {each.key for each in untuned.values if each.layer is not Layer.DEFAULTS}
    # Nor is one tuned whose owner has asked for a value that does not hold.
    taken |= {each.key for each in untuned.ignored}
    is_partitioned = table.facts.shape.is_partitioned
    tuned: dict[str, NamedValue | None] = {}
    if TARGET not in taken and not is_partitioned:
        tuned[TARGET] = smaller = _target(rate, policy.tuning, target)
        target = smaller.value if smaller else target
    if not policy.compaction.waits_for_growth:
        tuned[SHARE] = _share(rate, policy, target, is_partitioned=is_partitioned)
    tuned |= {SNAPSHOTS: _snapshots(rate, policy.tuning), ORPHANS: _orphans(rate, policy.tuning)}
    yield from (each for key, each in tuned.items() if each is not None and key not in taken)


def _target(rate: WriteRate, bounds: TuningPolicy, target: int) -> NamedValue | None:
    """Return a smaller target, where merges write the same rows again and again; None where the default is best."""
    waiting = rate.small_files / (rate.compactions or rate.days)
    smaller = max(bounds.smallest_target_file_size, int(target / _STEP))
    is_steady = rate.active_days >= _STEADY * rate.days
    if rate.delete_files or not is_steady or smaller >= target or rate.bytes_at_rest > _SPLIT * smaller:
        return None
    # Files of the smaller size would all be merged again, so they are left while they do no harm.
    most = 1.0 if rate.bytes_at_rest <= smaller else _WORTH_IT
    if _cost(rate, waiting, smaller, target) > most * _cost(rate, waiting, target, target):
        return None
    return _named(
        TARGET,
        smaller,
        size_text(target),
        f"{waiting:,.0f} files of {size_text(rate.mean_bytes)} wait for a merge beside {size_text(rate.data_bytes)}",
        f"{size_text(bounds.smallest_target_file_size)} to {size_text(target)}",
    )


def _cost(rate: WriteRate, waiting: float, size: int, target: int) -> float:
    """Return the files that a scan opens in vain, times the bytes of a merge.

    :param waiting: small files at a merge.
    :param size: of new files.
    """
    opened = waiting / 2 + rate.data_bytes / size - rate.data_bytes / target
    return opened * (_REWRITTEN_AGAIN * size + waiting * rate.mean_bytes)


def _share(rate: WriteRate, policy: MaintenancePolicy, target: int, *, is_partitioned: bool) -> NamedValue | None:
    """Return a smaller share, where new files fill one of the target size before they are that share of all."""
    default, lowest = policy.compaction.small_file_share, policy.tuning.lowest_small_file_share
    fill = SMALL_FILE_SHARE * target / max(1.0, rate.mean_bytes)
    spared = rate.small_files / rate.days * max(0.0, 1 - rate.mean_bytes / target)
    files = min(fill, _OF_A_DAY * spared) if is_partitioned else fill
    share = max(lowest, float(f"{files / max(1, rate.data_files):.2g}"))
    if share >= default or not rate.small_files:
        return None
    return _named(
        SHARE,
        share,
        f"{default:g}",
        f"{files:,.0f} files of {size_text(rate.mean_bytes)} are worth a merge, and {rate.data_files:,} are there",
        f"{lowest:g} to {default:g}",
    )


def _snapshots(rate: WriteRate, bounds: TuningPolicy) -> NamedValue | None:
    """Return the snapshots of a day."""
    count = min(bounds.most_snapshots, max(bounds.fewest_snapshots, round(rate.commits_a_day)))
    return _named(
        SNAPSHOTS,
        count,
        SETTINGS[SNAPSHOTS].default,
        f"{rate.commits_a_day:,.1f} commits come in a day",
        f"{bounds.fewest_snapshots:,} to {bounds.most_snapshots:,}",
    )


def _orphans(rate: WriteRate, bounds: TuningPolicy) -> NamedValue | None:
    """Return the whole days in which so many commits come as are worth a look."""
    asked = timedelta(days=max(1, round(_COMMITS_OF_A_LOOK / max(0.01, rate.commits_a_day))))
    every = min(bounds.longest_orphan_wait, max(bounds.shortest_orphan_wait, asked))
    return _named(
        ORPHANS,
        every,
        f"{SETTINGS[ORPHANS].default.days} days",
        f"{rate.commits_a_day:,.1f} commits come in a day",
        f"{bounds.shortest_orphan_wait.days} to {bounds.longest_orphan_wait.days} days",
    )


def _named(key: str, value: Any, default: Any, why: str, bounds: str) -> NamedValue | None:
    if value == SETTINGS[key].default:
        return None
    return NamedValue(key=key, value=value, origin=f"from {default}, since {why}; bounds {bounds}")


def explained(plan: TablePlan, policy: TablePolicy) -> TablePlan:
    """Return a plan whose reasons say of a tuned threshold that it is one, and why.

    :param policy: by which it was made.
    """
    tuned = {each.key: each.origin for each in policy.values if each.layer is Layer.TUNED}
    return replace(plan, actions=tuple(_explained(each, tuned) for each in plan.actions)) if tuned else plan


def _explained(action: PlannedAction, tuned: Mapping[str, str]) -> PlannedAction:
    reasons = tuple(
        replace(each, sentence=f"{each.sentence} It is tuned {tuned[key]}.") if key in tuned else each
        for each in action.reasons
        for key in (_OF_REASONS.get(each.name, ""),)
    )
    is_sized = "target_file_size" in action.task and TARGET in tuned
    notes = (f"{TARGET} is tuned {tuned[TARGET]}.",) if is_sized else ()
    return replace(action, reasons=reasons, notes=(*action.notes, *notes))

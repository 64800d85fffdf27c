"""Health and policy to a plan: :func:`plan_of`. Decision 37 says why the order, the levels and the costs are these.

Each action is either planned, with the numbers that make it due, or left out, with the reason and what helps instead.
A number that nobody has counted never raises, and never makes an action due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.contracts.durations import in_utc, to_iso
from airflow_lake_provider.contracts.reports.history_entry import DONE
from airflow_lake_provider.contracts.specs.maintenance import MINIMUM_AGE
from airflow_lake_provider.maintenance.compaction import plan_compaction
from airflow_lake_provider.maintenance.costs import (
    expiry_seconds,
    manifests_seconds,
    ranked_action,
    statistics_seconds,
    tag_seconds,
)
from airflow_lake_provider.maintenance.deletions import plan_orphan_files, plan_row_expiry
from airflow_lake_provider.maintenance.health import ManifestSizes, TableHealth
from airflow_lake_provider.maintenance.history import SnapshotAges
from airflow_lake_provider.maintenance.past_outcomes import (
    BETWEEN_LOOKS,
    PastOutcome,
    due_after,
    is_recent,
    last_of,
    unless_resting,
)
from airflow_lake_provider.maintenance.plan import Effect, NotPlanned, PlannedAction, Reason, TablePlan, ruled_out
from airflow_lake_provider.maintenance.score import FEWEST_MANIFESTS, METADATA_BYTES, age_text, size_text

# Actions in the order in which they run. A tag comes before the expiry that it keeps a snapshot from, and the driver
# cannot take it behind another task. Manifests are merged once more at the end of a compaction.
ORDER = (
    "create-tag",
    "snapshot-expiry",
    "rewrite-manifests",
    "compaction",
    "remove-orphans",
    "expire-rows",
    "compute-statistics",
)
_WITHOUT_MAIN = frozenset({"snapshot-expiry", "remove-orphans"})
_LONGEST_DAYS = 36_500
# Of the snapshots, which a large metadata.json shrinks by.
_SHARE_GONE = 0.1


def plan_of(
    health: TableHealth, policy: MaintenancePolicy, now: datetime, past: Sequence[PastOutcome] | None = ()
) -> TablePlan:
    """Return the plan of a table.

    :param health: read with the limits of the policy, :func:`.limits_of`.
    :param now: with a zone; hours of the policy and ages count against it.
    :param past: outcomes of the table's earlier runs; None where nobody remembers them.
    """
    moment = in_utc(now)
    steps: list[PlannedAction | NotPlanned] = [*_left_out_altogether(health, policy)]
    steps = steps or [*_steps(health, policy, moment, past)]
    return TablePlan(
        table=health.table,
        planned_at=moment,
        error=health.error,
        score=health.score,
        priority=policy.priority,
        pool=policy.pool,
        owner=policy.owner,
        actions=tuple(step for step in steps if isinstance(step, PlannedAction)),
        not_planned=tuple(step for step in steps if isinstance(step, NotPlanned)),
    )


def _left_out_altogether(health: TableHealth, policy: MaintenancePolicy) -> Iterator[NotPlanned]:
    if health.error is not None:
        why = f"The table cannot be read: {health.error.removesuffix('.')}."
        instead = "Mend the table, or leave it out of the tables with '!'."
    elif policy.paused:
        # A property of the table goes before the file.
        why, instead = "The policy pauses the table.", "`airflow lake policy` says where; set paused to false there."
    elif health.snapshot is None and not _has_what_expires(health):
        why, instead = "The table has no snapshot.", "Nothing is needed until rows are written."
    else:
        return
    yield from (NotPlanned(action=action, why=why, instead=instead) for action in ORDER)


def _has_what_expires(health: TableHealth) -> bool:
    """Tell whether a table without main has snapshots or files: it was replaced, or written on a branch first."""
    return health.snapshots is not None and (health.snapshots.snapshots > 0 or health.snapshots.is_unfinished)


def _steps(
    health: TableHealth, policy: MaintenancePolicy, now: datetime, past: Sequence[PastOutcome] | None
) -> Iterator[PlannedAction | NotPlanned]:
    def rested(step: PlannedAction | NotPlanned) -> PlannedAction | NotPlanned:
        return unless_resting(step, past, committed_at, now) if isinstance(step, PlannedAction) else step

    committed_at = health.snapshot_at
    if health.snapshot is None and health.snapshots is not None:
        committed_at = health.snapshots.newest
        yield rested(_expiry(health, policy, now, past))
        yield rested(plan_orphan_files(health, policy, past, now))
        yield from _without_main(health.snapshots.snapshots)
        return
    compaction = rested(plan_compaction(health, policy, now))
    yield from map(rested, _tags(health, policy, now))
    yield rested(_expiry(health, policy, now, past))
    # Those of a compaction that rests are merged without it.
    yield rested(_manifests(health, policy, compaction))
    yield compaction
    yield rested(plan_orphan_files(health, policy, past, now))
    yield rested(plan_row_expiry(health, policy, past, now))
    yield rested(_statistics(health, policy, now))


def _without_main(snapshots: int) -> Iterator[NotPlanned]:
    """Yield all that reads or changes the rows of main."""
    why = f"Main has no snapshot, though {snapshots:,} are there."
    instead = "Only an expiry and a look for orphan files are planned until main has rows."
    yield from (NotPlanned(action=each, why=why, instead=instead) for each in ORDER if each not in _WITHOUT_MAIN)


def _tags(health: TableHealth, policy: MaintenancePolicy, now: datetime) -> Iterator[PlannedAction | NotPlanned]:
    year, week, _ = now.isocalendar()
    kinds = (
        (policy.tags.daily, f"daily-{now:%Y-%m-%d}", 1),
        (policy.tags.weekly, f"weekly-{year}-W{week:02}", 7),
        (policy.tags.monthly, f"monthly-{now:%Y-%m}", 31),
    )
    asked = [(name, count * days) for count, name, days in kinds if count > 0]
    old = _age_of_head(health, now)
    taken = [name for name, _ in asked if name in health.branches]
    missing = [(name, days) for name, days in asked if name not in (*health.tags, *taken)]
    if not asked:
        yield NotPlanned(
            action="create-tag",
            why="The policy asks for no tags.",
            instead="Set tags.daily, tags.weekly or tags.monthly to make some.",
        )
    elif not missing and not taken:
        yield NotPlanned(
            action="create-tag",
            why="The tags of this day, week and month are there.",
            instead="The next one is due when a new day, week or month begins.",
        )
    for name in taken:
        yield NotPlanned(
            action="create-tag",
            why=f"A branch has the name {name} of the tag.",
            instead="Drop the branch, or make it anew by another name.",
            is_unsupported=True,
        )
    for name, days in missing:
        sentence = f"Tag {name} is missing; it is kept for {min(days, _LONGEST_DAYS)} days."
        reason = Reason(name="tag", value=0, threshold=1, sentence=sentence)
        yield ranked_action(
            PlannedAction(
                action="create-tag",
                reasons=(reason,),
                effect=Effect(core_seconds=tag_seconds()),
                task={
                    "action": "create-tag",
                    "table": health.table,
                    "tag": name,
                    # Iceberg counts it from the snapshot, and the head of a quiet table is old.
                    "max_age": to_iso(min(old + timedelta(days=days), timedelta(days=_LONGEST_DAYS))),
                },
            ),
            1.0,
        )


def _age_of_head(health: TableHealth, now: datetime) -> timedelta:
    """Return the age of main's head in whole hours, rounded up."""
    age = timedelta(0) if health.snapshot_at is None else max(timedelta(0), now - health.snapshot_at)
    return timedelta(hours=-(-age // timedelta(hours=1)))


def _expiry(
    health: TableHealth, policy: MaintenancePolicy, now: datetime, past: Sequence[PastOutcome] | None
) -> PlannedAction | NotPlanned:
    action, asked = "snapshot-expiry", policy.expiry
    # First: of Iceberg, gc.enabled is both an obstacle and the owner's policy, and nobody else would report it.
    if (obstacle := health.obstacles.get(action)) is not None:
        return ruled_out(action, obstacle)
    if not asked.enabled:
        return NotPlanned(
            action=action, why="The policy keeps all snapshots.", instead="Set expiry.enabled to true to let some go."
        )
    # Which only the code of a DAG may lower.
    if asked.older_than is not None and asked.older_than < MINIMUM_AGE:
        return NotPlanned(
            action=action,
            why=f"expiry.older_than is {age_text(asked.older_than)}; an expiry refuses less than a day.",
            instead="Set it to P1D or more, or lower minimum_age in a DAG of its own.",
        )
    if health.snapshots is None:
        return NotPlanned(action=action, why="Nobody has counted the snapshots.", instead="Read the table's health.")
    count = health.snapshots.expirable
    last = last_of(action, past)
    # It said in its report what storage did not delete, and would fare no better an hour later.
    tried = last.at if last and last.outcome == DONE and is_recent(last.at, BETWEEN_LOOKS, now) else None
    reasons = tuple(_why_expiry(health.snapshots, health.metadata_bytes or 0, asked.min_snapshots, tried))
    if not reasons and health.snapshots.is_unfinished and tried is not None:
        return NotPlanned(
            action=action,
            why=f"The expiry {age_text(now - tried)} ago could not delete all of its files; its report says why.",
            instead=f"The next one tries again from {tried + BETWEEN_LOOKS:%Y-%m-%d %H:%M} on.",
            is_waiting=True,
        )
    if not reasons:
        return NotPlanned(
            action=action,
            why=f"{count:,} snapshots are past their retention; the threshold is {asked.min_snapshots:,}.",
            instead="Nothing is due.",
        )
    task = {
        "action": action,
        "table": health.table,
        **({} if asked.older_than is None else {"older_than": to_iso(asked.older_than)}),
        **({} if asked.retain_last is None else {"retain_last": asked.retain_last}),
    }
    effect = Effect(files_removed=count, core_seconds=expiry_seconds(count))
    # Nobody counts the files that one which was cut off has left.
    benefit = max(count, int(health.snapshots.is_unfinished))
    return ranked_action(PlannedAction(action=action, reasons=reasons, effect=effect, task=task), benefit)


def _why_expiry(ages: SnapshotAges, metadata_bytes: int, least: int, tried: datetime | None) -> Iterator[Reason]:
    if ages.is_unfinished and tried is None:
        yield Reason(
            name="unfinished-expiry",
            value=1,
            threshold=1,
            sentence="An earlier expiry was cut off before it had deleted its files; the next one deletes them.",
        )
    count = ages.expirable
    if count >= least:
        yield Reason(
            name="snapshots",
            value=count,
            threshold=least,
            sentence=f"{count:,} snapshots are past their retention; the threshold is {least:,}.",
        )
    # What else makes it large stays, such as a schema for each day, and an expiry of one snapshot a night starts Spark.
    if count > 0 and count >= _SHARE_GONE * ages.snapshots and metadata_bytes >= METADATA_BYTES.first:
        yield Reason(
            name="metadata-size",
            value=metadata_bytes,
            threshold=METADATA_BYTES.first,
            sentence=f"metadata.json has {size_text(metadata_bytes)}, the threshold is "
            f"{size_text(METADATA_BYTES.first)}, and {count:,} of {ages.snapshots:,} snapshots may go.",
        )


def _manifests(
    health: TableHealth, policy: MaintenancePolicy, compaction: PlannedAction | NotPlanned
) -> PlannedAction | NotPlanned:
    action, asked, sizes = "rewrite-manifests", policy.manifests, health.manifests
    if not asked.enabled:
        return NotPlanned(
            action=action, why="The policy leaves manifests.", instead="Set manifests.enabled to true to merge them."
        )
    if (obstacle := health.obstacles.get(action)) is not None:
        return ruled_out(action, obstacle)
    if sizes is None or sizes.mergeable is None:
        return NotPlanned(
            action=action,
            why="The manifests were not counted, since the table's metadata raised no suspicion.",
            instead="Nothing is due.",
        )
    reasons = tuple(_why_manifests(health, sizes, policy))
    if not reasons:
        return NotPlanned(
            action=action,
            why=f"{sizes.mergeable:,} manifests would be gone by a merge; the threshold is {asked.mergeable:,}.",
            instead="Nothing is due.",
        )
    if isinstance(compaction, PlannedAction) and sizes.mergeable:
        why = " ".join(each.sentence for each in reasons)
        return NotPlanned(action=action, why=why, instead="The compaction of this plan merges them at its end.")
    is_sort = any(each.name == "manifest-overlap" for each in reasons)
    task = {"action": action, "table": health.table, **({"sort": True} if is_sort else {})}
    effect = Effect(files_removed=sizes.mergeable, core_seconds=manifests_seconds(sizes.manifests or 0))
    # Of two that overlap, a reader of one partition is spared one.
    benefit = max(sizes.mergeable, (sizes.overlap or 0.0) * (sizes.manifests or 0) / 2 if is_sort else 0.0)
    return ranked_action(PlannedAction(action=action, reasons=reasons, effect=effect, task=task), benefit)


def _why_manifests(health: TableHealth, sizes: ManifestSizes, policy: MaintenancePolicy) -> Iterator[Reason]:
    mergeable, asked, overlap = sizes.mergeable or 0, policy.manifests, sizes.overlap or 0.0
    if mergeable >= asked.mergeable:
        sentence = f"{mergeable:,} manifests would be gone by a merge; the threshold is {asked.mergeable:,}."
        yield Reason(name="manifests", value=mergeable, threshold=asked.mergeable, sentence=sentence)
    last = health.last_maintenance.get("rewrite-manifests")
    is_sorted = last is not None and last.snapshot == health.snapshot
    if (sizes.manifests or 0) >= FEWEST_MANIFESTS and overlap >= asked.overlap and not is_sorted:
        yield Reason(
            name="manifest-overlap",
            value=overlap,
            threshold=asked.overlap,
            sentence=f"{overlap:.0%} of the pairs of manifests have partitions in common; the threshold is "
            f"{asked.overlap:.0%}.",
        )


def _statistics(health: TableHealth, policy: MaintenancePolicy, now: datetime) -> PlannedAction | NotPlanned:
    action, asked, last = "compute-statistics", policy.statistics, health.statistics_at
    if asked.every is None:
        return NotPlanned(
            action=action, why="The policy asks for no statistics.", instead="Set statistics.every to compute some."
        )
    if (obstacle := health.obstacles.get(action)) is not None:
        return ruled_out(action, obstacle)
    if last is not None and (health.last_data_commit is None or health.last_data_commit <= last):
        return NotPlanned(
            action=action, why="No rows have changed since those that there are.", instead="Nothing is due."
        )
    if last is not None and is_recent(last, due_after(asked.every), now):
        return NotPlanned(
            action=action,
            why=f"They are of {age_text(now - last)} ago; the policy asks every {age_text(asked.every)}.",
            instead=f"The next are due in {age_text(due_after(asked.every) - (now - last))}.",
        )
    ago = "missing" if last is None else f"of {age_text(now - last)} ago" if last <= now else "dated in the future"
    reason = Reason(
        name="statistics",
        value=0 if last is None else (now - last).total_seconds(),
        threshold=asked.every.total_seconds(),
        sentence=f"The statistics are {ago}; the policy asks every {age_text(asked.every)}.",
    )
    task = {"action": action, "table": health.table, **({"columns": list(asked.columns)} if asked.columns else {})}
    size = (health.files.data_bytes if health.files else None) or 0
    effect = Effect(core_seconds=statistics_seconds(size))
    return ranked_action(PlannedAction(action=action, reasons=(reason,), effect=effect, task=task), 1.0)

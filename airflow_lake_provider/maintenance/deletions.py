"""Plans of what deletes for good: orphan files, and rows by their age.

A table's metadata shows neither a look for orphan files nor one for old rows that came to nothing. So both are due by
what earlier runs remember, and orphan files are left alone where nobody does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy, OrphanMode
from airflow_lake_provider.contracts.durations import to_iso
from airflow_lake_provider.contracts.reports.history_entry import FAILED
from airflow_lake_provider.contracts.row_age import AgeLimit
from airflow_lake_provider.maintenance.costs import ROW_EXPIRY, orphan_seconds, ranked_action
from airflow_lake_provider.maintenance.health import TableHealth
from airflow_lake_provider.maintenance.past_outcomes import (
    BETWEEN_LOOKS,
    PastOutcome,
    due_after,
    is_ahead,
    is_recent,
    last_look,
    last_of,
)
from airflow_lake_provider.maintenance.plan import Effect, NotPlanned, PlannedAction, Reason, ruled_out
from airflow_lake_provider.maintenance.score import age_text


def plan_orphan_files(
    health: TableHealth, policy: MaintenancePolicy, past: Sequence[PastOutcome] | None, now: datetime
) -> PlannedAction | NotPlanned:
    """Return the look for orphan files, or why there is none.

    :param past: outcomes of the table's earlier runs; None where nobody remembers them.
    """
    action, asked = "remove-orphans", policy.orphans
    counted = None if health.orphans is None else health.orphans.counted_at
    counted = None if counted is None or is_ahead(counted, now) else counted
    obstacle = health.obstacles.get(action)
    if obstacle is not None and asked.mode is not OrphanMode.OFF:
        return ruled_out(action, obstacle)
    left_out = _why_no_look(policy, past, now, counted)
    if left_out is not None:
        why, instead = left_out
        return NotPlanned(action=action, why=why, instead=instead)
    when = "have never been counted" if counted is None else f"were counted {age_text(now - counted)} ago"
    reason = Reason(
        name="orphans",
        value=asked.every.total_seconds() if counted is None else (now - counted).total_seconds(),
        threshold=asked.every.total_seconds(),
        sentence=f"Orphan files {when}; the policy asks every {age_text(asked.every)}, in mode {asked.mode.value}.",
    )
    files = 0 if health.files is None else health.files.data_files or 0
    task = {
        "action": action,
        "table": health.table,
        "mode": asked.mode.value,
        "older_than": to_iso(asked.older_than),
        "max_share": asked.max_share,
        # What was moved aside before is deleted by the one and by the other.
        **({} if asked.mode is OrphanMode.DRY_RUN else {"quarantine_for": to_iso(asked.quarantine_for)}),
    }
    effect = Effect(core_seconds=orphan_seconds(files))
    # No reader opens an orphan; storage is what it costs.
    return ranked_action(PlannedAction(action=action, reasons=(reason,), effect=effect, task=task), 1.0)


def _why_no_look(
    policy: MaintenancePolicy,
    past: Sequence[PastOutcome] | None,
    now: datetime,
    counted: datetime | None,
) -> tuple[str, str] | None:
    """Return why orphan files are not looked for, and what helps instead; None where they are.

    :param counted: when they were counted last.
    """
    asked = policy.orphans
    if asked.mode is OrphanMode.OFF:
        return "The policy looks for no orphan files.", "Set orphans.mode to 'dry-run'."
    if past is None:
        # Each run would list the whole table.
        return (
            "Nobody remembers when the last look was: the maintenance history is off, or cannot be read.",
            "Mend it, or set [lake] maintenance_history; or look with LakeRemoveOrphanFilesOperator.",
        )
    if counted is not None and now - counted < due_after(asked.every):
        return (
            f"They were counted {age_text(now - counted)} ago; the policy asks every {age_text(asked.every)}.",
            f"The next look is due in {age_text(due_after(asked.every) - (now - counted))}.",
        )
    last = last_of("remove-orphans", past)
    if last is not None and last.outcome == FAILED and is_recent(last.at, BETWEEN_LOOKS, now):
        return (
            f"The look {age_text(now - last.at)} ago failed, and each lists the whole table: {last.cause}.",
            f"The next one is due in {age_text(BETWEEN_LOOKS - (now - last.at))}.",
        )
    return None


def plan_row_expiry(
    health: TableHealth, policy: MaintenancePolicy, past: Sequence[PastOutcome] | None, now: datetime
) -> PlannedAction | NotPlanned:
    """Return the expiry of rows, or why there is none.

    :param past: outcomes of the table's earlier runs; None where nobody remembers them.
    """
    action, asked = "expire-rows", policy.row_expiry
    if asked.column is None or asked.keep is None:
        return NotPlanned(
            action=action,
            why="The policy lets no rows go by their age.",
            instead="Set row_expiry.column and row_expiry.keep.",
        )
    if (obstacle := health.obstacles.get(action)) is not None:
        return ruled_out(action, obstacle, "Upgrade the table, or change it.")
    arrived = health.last_arrival
    if arrived is None:
        return NotPlanned(
            action=action,
            why="No commit that brought rows is in the history any more, so nobody knows how old the rows are.",
            instead="Nothing is due until rows arrive.",
        )
    moments = health.rows_expired_at, last_look(action, past)
    expired, looked = (None if at is None or is_ahead(at, now) else at for at in moments)
    last = max(filter(None, (expired, looked)), default=None)
    # A look that a run remembers may have been by another age, and an expiry was rolled back where main has it no more.
    newest = min(arrived, now) - asked.keep
    have_gone = expired is not None and arrived <= expired and _went(health, asked.column, newest)
    if last is not None and (have_gone or now - last < BETWEEN_LOOKS):
        ago = age_text(now - last)
        return NotPlanned(
            action=action,
            why=f"Old rows were looked for {ago} ago; the last commit that brought rows was at {_minute(arrived)}.",
            instead="It comes once a day, unless rows of this age went and none have arrived since.",
        )
    sentence = f"Rows whose {asked.column} is {age_text(asked.keep)} before the last arrival, {_minute(arrived)}, go."
    reason = Reason(name="row-age", value=0, threshold=asked.keep.total_seconds(), sentence=sentence)
    task = {
        "action": action,
        "table": health.table,
        "column": asked.column,
        "keep": to_iso(asked.keep),
        "max_share": asked.max_share,
    }
    effect = Effect(core_seconds=ROW_EXPIRY)
    note = "The worker looks at the bounds of files first, and starts nothing where no row is too old."
    planned = PlannedAction(action=action, reasons=(reason,), effect=effect, notes=(note,), task=task)
    return ranked_action(planned, 1.0)


def _went(health: TableHealth, column: str, before: datetime) -> bool:
    """Tell whether the newest expiry of rows removed those that are before a moment by a column."""
    limit = AgeLimit.of_text(health.rows_expired_before or "")
    return limit is not None and limit.includes(column, before)


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"

"""Entries of a look at many tables, as XCom has them for the lake page: a header, rows, and details of the worst.

Decision 57 says why these, and how large they are. Texts are strangers' and are cut, never trusted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from airflow_lake_provider.contracts.json_codec import storable, to_plain
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.table_facts import Snapshot, TableFacts
from airflow_lake_provider.contracts.table_properties import ACTION
from airflow_lake_provider.maintenance.fleet_run import FleetRun
from airflow_lake_provider.maintenance.health import FileSizes, TableHealth
from airflow_lake_provider.maintenance.history import ConsumerLag
from airflow_lake_provider.maintenance.locations import TableLocations
from airflow_lake_provider.maintenance.plan import PlannedAction, TablePlan
from airflow_lake_provider.maintenance.policy import Layer, TablePolicy

VERSION = 1
# Keys of XCom. A header names its parts, and is pushed behind them: where it is, they are.
FLEET, CHANGED = "lake_fleet", "lake_fleet_changed"
ROWS, DETAILS = "lake_fleet_rows", "lake_fleet_details"
# Bounds of one plan: tables with a row, those of a part, tables with details, and of a part.
MOST_ROWS, ROWS_OF_A_PART = 5_000, 250
MOST_DETAILS, DETAILS_OF_A_PART = 1_000, 25
# Bytes of the details of one table as JSON.
MOST_DETAIL_BYTES = 16_384
MOST_SNAPSHOTS = 30
_MOST_FINDINGS, _MOST_CONSUMERS, _MOST_LISTED = 3, 20, 20
_MOST_NAMED = 100
_LONGEST = 300
# What gives way, in this order, where the details of a table are too large.
_FIRST_TO_GO = ("ignored", "snapshots", "not_due", "policy", "consumers", "due")


@dataclass(frozen=True, kw_only=True)
class TableLook:
    """One look at a table: from what its plan was made.

    :param health: of the table.
    :param policy: merged; None where it, or the table, could not be read.
    :param newest: snapshots of main, newest first.
    :param locations: in which its files lie; None where it could not be read.
    """

    health: TableHealth
    policy: TablePolicy | None = None
    newest: tuple[Snapshot, ...] = ()
    locations: TableLocations | None = None


def newest_snapshots(facts: TableFacts) -> tuple[Snapshot, ...]:
    """Return the newest snapshots of main that an entry names."""
    return tuple(islice(facts.ancestors(), MOST_SNAPSHOTS))


def fleet_entries(
    run: FleetRun,
    looks: Mapping[str, TableLook],
    *,
    at: datetime,
    conn_id: str,
    authority: str,
    tables: Sequence[str],
    allowed: Sequence[str] | None = None,
    of_changed: bool = False,
    is_dry_run: bool = False,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys and entries of a plan's look, the header last; none of changed tables where there are none.

    :param run: what the plan does.
    :param looks: by table.
    :param at: moment of the plan.
    :param conn_id: connection of the catalog.
    :param authority: of the URIs of its tables' assets.
    :param tables: patterns that were looked at.
    :param allowed: patterns, of which each table had to match one as well; None for any table.
    :param of_changed: whether only tables of asset events were.
    :param is_dry_run: whether nothing of it is carried out.
    """
    waits = {each.table: each.why for each in run.deferred}
    plans = sorted((plan for plan in run.plans if plan.table in looks), key=lambda plan: looks[plan.table].health.order)
    if of_changed and not plans:
        # Each header takes the place of an older one.
        return
    kept = plans[:MOST_ROWS]
    rows = [_row(looks[plan.table], plan, waits.get(plan.table)) for plan in kept]
    details = {plan.table: _within(_details(looks[plan.table], plan)) for plan in kept[:MOST_DETAILS]}
    for number, row in enumerate(rows[: len(details)]):
        row["details"] = number // DETAILS_OF_A_PART
    yield from _parts(ROWS, "rows", rows, ROWS_OF_A_PART)
    parts = list(_parts(DETAILS, "tables", list(details.items()), DETAILS_OF_A_PART))
    yield from ((key, {**part, "tables": dict(part["tables"])}) for key, part in parts)
    header = {
        "version": VERSION,
        "at": at.isoformat(timespec="seconds"),
        "conn_id": conn_id,
        "authority": authority,
        "tables": [_cut(each) for each in tables[:_MOST_NAMED]],
        "dry_run": is_dry_run,
        "looked_at": len(plans),
        "left_out": len(plans) - len(rows),
        "parts": -(-len(rows) // ROWS_OF_A_PART),
    }
    yield (CHANGED if of_changed else FLEET), header | _allowed(tables, ["*"] if allowed is None else [*allowed])


def _allowed(tables: Sequence[str], limit: list[str]) -> dict[str, list[str]]:
    """Return the limit of the patterns; by some that are cut nobody could say which tables were looked at."""
    are_whole = all(
        len(names) <= _MOST_NAMED and all(each == _cut(each) for each in names) for names in (tables, limit)
    )
    return {"allowed": limit} if are_whole else {}


def _parts(key: str, name: str, items: Sequence[Any], size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, start in enumerate(range(0, len(items), size)):
        yield f"{key}_{number}", {"version": VERSION, name: items[start : start + size]}


def _row(look: TableLook, plan: TablePlan, waits: str | None) -> dict[str, Any]:
    """Return what the list of all tables shows of one; what nobody has counted is left out."""
    health, policy = look.health, look.policy.policy if look.policy else None
    files, deletes = health.files or FileSizes(target_bytes=0), health.deletes
    limit = policy.consumed_within if policy else None
    lags = sorted(health.consumers, key=lambda each: each.behind or timedelta.max, reverse=True)
    row = {
        "table": health.table,
        "error": _cut(health.error) if health.error else None,
        "score": health.score,
        "owner": _cut(plan.owner) if plan.owner else None,
        "why": [{"lost": part.lost, "reason": _cut(part.reason)} for part in health.findings[:_MOST_FINDINGS]],
        "files": files.data_files,
        "bytes": files.data_bytes,
        "small_files": files.small_files,
        "delete_files": deletes.delete_files if deletes else None,
        "deleted_share": deletes.deleted_share if deletes else None,
        "equality_deletes": deletes.equality_deletes if deletes else None,
        "snapshots": health.snapshots.snapshots if health.snapshots else None,
        "data_at": _moment(health.last_data_commit),
        "fresh_within": _seconds(policy.fresh_within) if policy else None,
        "maintained_at": _moment(max((each.at for each in health.last_maintenance.values()), default=None)),
        "paused": bool(policy and policy.paused),
        "due": [_due(each) for each in plan.actions],
        "waits": _cut(waits) if waits else _waiting(plan),
        "consumers": [_lag(each, limit) for each in lags[:_MOST_FINDINGS]],
    }
    # A count of 0 is one, and equal to False.
    return {name: value for name, value in row.items() if value is not None and value is not False and value != []}


def _due(action: PlannedAction) -> dict[str, Any]:
    why = " ".join(each.sentence for each in action.reasons)
    return {"action": action.action, **({"level": action.level} if action.level else {}), "why": _cut(why)}


def _waiting(plan: TablePlan) -> str | None:
    waiting = [each for each in plan.not_planned if each.is_waiting]
    return _cut(f"{waiting[0].action}: {waiting[0].why}") if waiting else None


def _lag(each: ConsumerLag, limit: timedelta | None) -> dict[str, Any]:
    return {
        "consumer": _cut(each.consumer),
        "behind": _seconds(each.behind),
        "commits": each.commits,
        # A consumer whose snapshot is gone from main has lost its place.
        "is_late": each.behind is None or (limit is not None and each.behind > limit),
    }


def _details(look: TableLook, plan: TablePlan) -> dict[str, Any]:
    """Return what the page of one table shows beside its row."""
    health, policy = look.health, look.policy
    limit = policy.policy.consumed_within if policy and policy.policy else None
    of_health = ("format_version", "metadata_bytes", "rows", "files", "deletes", "manifests", "commits", "orphans")
    return {
        **{name: to_plain(getattr(health, name)) for name in of_health},
        "parts": [
            {"name": part.name, "lost": part.lost, "most": part.most, "reason": _cut(part.reason)}
            for part in health.parts
        ],
        "snapshots": [_snapshot(each) for each in look.newest],
        "due": [_due(each) | {"core_seconds": round(each.effect.core_seconds, 1)} for each in plan.actions],
        "not_due": [
            {"action": each.action, "why": _cut(each.why), "instead": _cut(each.instead)} for each in plan.not_planned
        ],
        "policy": [
            {"key": each.key, "value": _value(each.value), "layer": each.layer.value, "origin": _cut(each.origin)}
            for each in (policy.values if policy else ())
            if each.layer is not Layer.DEFAULTS
        ],
        "ignored": [
            {"key": each.key, "value": each.value, "origin": _cut(each.origin), "reason": _cut(each.reason)}
            for each in (policy.ignored[:_MOST_LISTED] if policy else ())
        ],
        "consumers": [
            _lag(each, limit) | {"owner": _cut(each.owner or ""), "target": _cut(each.target or "")}
            for each in health.consumers[:_MOST_CONSUMERS]
        ],
        "maintained": {action: _moment(each.at) for action, each in islice(health.last_maintenance.items(), 10)},
    }


def _snapshot(each: Snapshot) -> dict[str, Any]:
    return {
        "id": each.id,
        "at": each.committed_at.isoformat(timespec="seconds"),
        "operation": _cut(each.operation or ""),
        "is_maintenance": not each.changes_rows,
        "rows": each.rows_gained,
        "files": count_of(each.summary, "added-data-files") - count_of(each.summary, "deleted-data-files"),
        "by": _writer(each.summary),
    }


def _writer(summary: Mapping[str, str]) -> str:
    """Return who has committed a snapshot, as far as its summary says."""
    if action := summary.get(ACTION):
        return _cut(f"lake {action}")
    if job := summary.get("flink.job-id"):
        return _cut(f"flink {job}")
    names = (summary.get(name) for name in ("engine-name", "engine-version", "spark.app.id"))
    return _cut(" ".join(filter(None, names)))


def _within(details: dict[str, Any]) -> dict[str, Any]:
    """Return details that are small enough: lists lose their second halves until they are."""
    for name in _FIRST_TO_GO:
        while len(json.dumps(details)) > MOST_DETAIL_BYTES and details[name]:
            details[name] = details[name][: len(details[name]) // 2]
    return details


def _value(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return _cut(text)


def _cut(text: str) -> str:
    """Return a text as any database can store it, not longer than an entry has it."""
    return str(storable(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."))


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


def _seconds(span: timedelta | None) -> int | None:
    return None if span is None else round(span.total_seconds())

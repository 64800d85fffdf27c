"""Entries of plans and verdicts for tests of the lake page, made by the code that tasks make them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.maintenance.fleet_entries import TableLook, fleet_entries
from airflow_lake_provider.maintenance.fleet_run import FleetRun
from airflow_lake_provider.maintenance.health import FileSizes, TableHealth
from airflow_lake_provider.maintenance.history_entries import HistoryRun
from airflow_lake_provider.maintenance.outcome_entry import outcome_entry, outcome_key
from airflow_lake_provider.maintenance.outcomes import outcomes_of_run
from airflow_lake_provider.maintenance.plan import PlannedAction, TablePlan
from airflow_lake_provider.maintenance.policy import TablePolicy


def look_of(
    scores: Mapping[str, int | None],
    at: datetime,
    *,
    conn_id: str = "lake",
    authority: str = "lake",
    tables: Sequence[str] = ("*",),
    of_changed: bool = False,
    policy: MaintenancePolicy | None = None,
    actions: Mapping[str, tuple[PlannedAction, ...]] | None = None,
    **health: Any,
) -> dict[str, Any]:
    """Return what a plan pushes.

    :param scores: by table; None of one that could not be read.
    :param actions: that are due, by table.
    :param health: facts of each table.
    """
    looks = {
        name: TableLook(
            health=TableHealth(
                table=name,
                read_at=at,
                score=score,
                error="BrokenMetadataError: gone" if score is None else None,
                **{"files": FileSizes(data_files=7, data_bytes=7000, target_bytes=512, by_size=(1, 2, 0, 0, 4, 0))}
                | health,
            ),
            policy=TablePolicy(table=name, policy=policy or MaintenancePolicy()),
            newest=(
                Snapshot(
                    id="8412069653806524497",
                    parent=None,
                    at=int((at - timedelta(hours=1)).timestamp() * 1000),
                    summary={"operation": "append", "added-records": "5", "total-records": "5"},
                ),
            ),
        )
        for name, score in scores.items()
    }
    due = actions or {}
    run = FleetRun(plans=tuple(TablePlan(table=name, planned_at=at, actions=due.get(name, ())) for name in scores))
    asked: dict[str, Any] = {"conn_id": conn_id, "authority": authority, "tables": tables, "of_changed": of_changed}
    return dict(fleet_entries(run, looks, at=at, **asked))


def night_of(
    outcomes: Mapping[str, str],
    at: datetime,
    conn_id: str = "lake",
    reason: str = "",
    authority: str = "lake",
    actions: Sequence[str] = ("compaction",),
) -> dict[str, Any]:
    """Return what a verdict pushes: actions of each table, with its outcome.

    :param outcomes: by table; of several actions their outcomes are parted by blanks.
    :param actions: of each table.
    """
    states = {"before": {"data_files": 9, "data_bytes": 900}, "after": {"data_files": 2, "data_bytes": 800}}
    reports = [
        {"table": table, "action": action, "outcome": outcome, "reason": reason, **states}
        for table, words in outcomes.items()
        for action, outcome in zip(actions, words.split(), strict=True)
    ]
    run = HistoryRun(key="k", dag_id="nightly", run_id="r", task_id="verdict", try_number=1, at=at)
    tasks = [{"action": each["action"], "table": each["table"]} for each in reports]
    jobs = [{"tasks": tasks, "expected": [{"core_seconds": 3.0}] * len(tasks)}]
    entry = outcome_entry(run, outcomes_of_run(jobs, reports, []), conn_id, authority)
    return {outcome_key(entry): entry}

"""A backfill of Airflow over partitions: days at once, and one of them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.end_to_end.with_scheduler.table_contents import rows_of, run_keys

pytestmark = [pytest.mark.live, pytest.mark.slow]
ONE, TWO = "2026-02-01", "2026-02-02"


def backfill(airflow: StandaloneAirflow, first: str, last: str, **more: Any) -> None:
    """Load days, and wait until all of them are there."""
    body = {"dag_id": "days", "from_date": f"{first}T00:00:00Z", "to_date": f"{last}T00:00:00Z", **more}

    def started() -> int | None:
        # With SQLite, Airflow answers 503 where the scheduler writes at the same moment.
        answer = airflow.send("POST", "/backfills", body)
        assert answer.status_code in (200, 503), answer.text
        return int(answer.json()["id"]) if answer.status_code == 200 else None

    number = wait_for("a backfill", started, airflow.output)
    wait_for("the end of a backfill", lambda: airflow.get(f"/backfills/{number}")["completed_at"], airflow.output)
    for run in airflow.runs("days"):
        airflow.wait_for_success("days", run["dag_run_id"])


def test_a_backfill_loads_days_at_once_and_one_of_them_again(
    airflow: StandaloneAirflow, catalog: Catalog, lake_home: Path
) -> None:
    def arrive(day: str, *rows: tuple[int, str]) -> None:
        folder = lake_home / "inbox" / "days" / day
        folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"id": id_, "name": name, "day": day}) for id_, name in rows]
        (folder / "rows.jsonl").write_text("\n".join(lines))

    arrive(ONE, (1, "a"), (2, "a"))
    arrive(TWO, (3, "a"))
    catalog.create_namespace_if_not_exists("days")
    airflow.unpause("days")
    backfill(airflow, ONE, TWO, max_active_runs=2)
    table = catalog.load_table("days.orders")
    assert rows_of(table, "id", "name") == [(1, "a"), (2, "a"), (3, "a")]
    arrive(ONE, (2, "b"))
    backfill(airflow, ONE, ONE, reprocess_behavior="completed")
    assert rows_of(table.refresh(), "id", "name") == [(2, "b"), (3, "a")]
    assert len(set(run_keys(table))) == 3

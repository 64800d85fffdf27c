"""A commit that no DAG made: its asset event, the downstream run, and the rows of that run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from tests.end_to_end.orders_writer import upsert_orders
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.end_to_end.with_scheduler.dags_of_airflow import POLL_SECONDS
from tests.end_to_end.with_scheduler.table_contents import rows_of

pytestmark = [pytest.mark.live, pytest.mark.slow]


def change(op: str, order_id: str, status: str, total: str, day: int = 1) -> dict[str, Any]:
    placed_at = f"2026-03-{day:02d}T10:00:00Z"
    return {
        "op": op,
        "order_id": order_id,
        "customer_id": 7,
        "status": status,
        "placed_at": placed_at,
        "total": float(total),
    }


def events_of_orders(airflow: StandaloneAirflow) -> list[dict[str, Any]]:
    found = airflow.get("/assets/events", order_by="timestamp", limit=100)["asset_events"]
    return [event for event in found if event["uri"] == "iceberg://lake_default/shop/orders"]


def revenue_after_the_event_of(airflow: StandaloneAirflow, catalog: Catalog, number: int) -> list[tuple[Any, ...]]:
    """Wait for the run that the event of commit ``number`` starts, and return what it left in the revenue table."""

    def run() -> dict[str, Any] | None:
        runs = airflow.runs("on_new_orders_snapshot")
        return runs[number - 1] if len(runs) >= number else None

    started = wait_for(f"run {number} of on_new_orders_snapshot", run, airflow.output)
    assert started["run_type"] == "asset_triggered"
    airflow.wait_for_success("on_new_orders_snapshot", started["dag_run_id"])
    return rows_of(catalog.load_table("mart.order_revenue"), "order_id", "status", "revenue")


def seconds_to_the_run(airflow: StandaloneAirflow, catalog: Catalog) -> tuple[float, float]:
    """Seconds from the newest commit to its event and to its run, by the clocks of Iceberg and Airflow."""
    snapshot = catalog.load_table("shop.orders").current_snapshot()
    assert snapshot is not None
    committed = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
    event = events_of_orders(airflow)[-1]
    run = airflow.runs("on_new_orders_snapshot")[-1]
    moments = (event["timestamp"], run["queued_at"])
    seconds = [(datetime.fromisoformat(moment) - committed).total_seconds() for moment in moments]
    return seconds[0], seconds[1]


def test_a_commit_from_outside_starts_the_downstream_run_which_leaves_the_right_rows(
    airflow: StandaloneAirflow,
    airflow_environment: Mapping[str, str],
    catalog: Catalog,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    assert not catalog.table_exists("shop.orders"), "another test has written to the table that this one counts"
    airflow.unpause("on_new_orders_snapshot")
    # A watcher begins when a file is parsed after its DAG was unpaused.
    airflow.parse_again("on_new_orders_snapshot")

    first = [
        change("u", "a", "paid", "10.50"),
        change("u", "b", "cancelled", "7.25"),
        change("u", "c", "paid", "99.99"),
    ]
    upsert_orders(airflow_environment, tmp_path / "first", first)
    revenue = revenue_after_the_event_of(airflow, catalog, 1)
    assert revenue == [
        ("a", "paid", Decimal("10.50")),
        ("b", "cancelled", Decimal("0.00")),
        ("c", "paid", Decimal("99.99")),
    ]
    # The run took many looks of the watcher, so a second event of this commit would be there by now.
    assert len(events_of_orders(airflow)) == 1

    second = [change("u", "a", "shipped", "12.00"), change("d", "c", "paid", "99.99"), change("u", "d", "paid", "1.01")]
    upsert_orders(airflow_environment, tmp_path / "second", second)
    revenue = revenue_after_the_event_of(airflow, catalog, 2)
    assert revenue == [
        ("a", "shipped", Decimal("12.00")),
        ("b", "cancelled", Decimal("0.00")),
        ("d", "paid", Decimal("1.01")),
    ]

    commits = [str(entry.snapshot_id) for entry in catalog.load_table("shop.orders").history()]
    payloads = [event["extra"]["payload"] for event in events_of_orders(airflow)]
    assert [payload["snapshot_id"] for payload in payloads] == commits
    assert payloads[1]["previous_snapshot_id"] == commits[0]
    assert len(airflow.runs("on_new_orders_snapshot")) == 2

    to_event, to_run = seconds_to_the_run(airflow, catalog)
    record_property("seconds_from_commit_to_event", to_event)
    record_property("seconds_from_commit_to_run", to_run)
    print(f"commit to event {to_event:.1f} s, to downstream run {to_run:.1f} s, at a poll interval of {POLL_SECONDS} s")
    # On a quiet machine the poll interval and two seconds; this only tells a watcher from something that looks hourly.
    assert 0 < to_event <= to_run < 60

"""Maintenance that commits start, and an expiry that waits for somebody's answer on the page *Required Actions*."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from airflow_lake_provider.operators.maintenance_plan import SUMMARY
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.end_to_end.with_scheduler.table_contents import rows_of

pytestmark = [pytest.mark.live, pytest.mark.slow]

BY_COMMITS, BY_APPROVAL = "maintain_by_commits", "expire_rows_after_approval"
ORDERS = "shop.orders"
SCHEMA = pa.schema(
    [
        ("order_id", pa.string()),
        ("customer_id", pa.int64()),
        ("status", pa.string()),
        ("placed_at", pa.timestamp("us", tz="UTC")),
        ("total", pa.decimal128(12, 2)),
    ]
)


@pytest.fixture(scope="module")
def orders(airflow: StandaloneAirflow, catalog: Catalog, lake_home: Path) -> Iterator[str]:
    """A new table of orders, whatever another test has left; its commits start no other DAG."""
    airflow.pause("on_new_orders_snapshot")
    catalog.create_namespace_if_not_exists("shop")
    if catalog.table_exists(ORDERS):
        catalog.drop_table(ORDERS)
    catalog.create_table(ORDERS, SCHEMA, location=f"file://{lake_home}/warehouse/maintained_orders")
    yield ORDERS
    airflow.pause(BY_COMMITS)
    airflow.pause(BY_APPROVAL)


def append(catalog: Catalog, *names: str, year: int = 2026) -> None:
    """Append one order for each name, each by a commit of its own."""
    for name in names:
        columns = ([name], [7], ["paid"], [datetime(year, 3, 1, tzinfo=UTC)], [Decimal("1.00")])
        catalog.load_table(ORDERS).append(pa.table([*columns], schema=SCHEMA))


def names_of(catalog: Catalog) -> list[str]:
    return [name for (name,) in rows_of(catalog.load_table(ORDERS), "order_id")]


def runs_by_commits(airflow: StandaloneAirflow, more_than: int) -> list[dict[str, int]]:
    """Wait until there are more runs than that and all have ended; return what each plan counted."""

    def ended() -> list[dict[str, Any]] | None:
        runs = airflow.runs(BY_COMMITS)
        return runs if len(runs) > more_than and all(run["state"] in ("success", "failed") for run in runs) else None

    runs = wait_for(f"run {more_than + 1} of {BY_COMMITS}", ended, airflow.output)
    for run in runs:
        airflow.wait_for_success(BY_COMMITS, run["dag_run_id"])
    return [airflow.returned(BY_COMMITS, run["dag_run_id"], "by_commits.plan", SUMMARY) for run in runs]


@pytest.mark.usefixtures("stock", "orders")
def test_commits_past_the_threshold_start_one_compaction_of_their_table_and_no_other_is_looked_at(
    airflow: StandaloneAirflow, catalog: Catalog
) -> None:
    airflow.unpause(BY_COMMITS)
    airflow.parse_again(BY_COMMITS)
    append(catalog, "first")
    (first,) = runs_by_commits(airflow, 0)
    assert (first["tables"], first["due"]) == (1, 0)

    burst = [f"burst {number:02d}" for number in range(30)]
    append(catalog, *burst)
    before = names_of(catalog)

    def is_compacted() -> bool | None:
        return catalog.load_table(ORDERS).inspect.files().num_rows < len(burst) or None

    wait_for("a compaction", is_compacted, airflow.output)
    runs = runs_by_commits(airflow, 1)
    assert len(runs) < 1 + len(burst)
    assert {run["tables"] for run in runs} == {1}
    assert sum(run["jobs"] for run in runs) == 1
    assert names_of(catalog) == before

    # The time between two compactions has not passed.
    append(catalog, *(f"later {number:02d}" for number in range(10)))
    assert sum(run["jobs"] for run in runs_by_commits(airflow, len(runs))) == 1
    assert catalog.load_table(ORDERS).inspect.files().num_rows >= 10
    airflow.pause(BY_COMMITS)


def answer(airflow: StandaloneAirflow, choice: str) -> str:
    """Start a run of the expiry, answer its question, and return the state of its last task."""
    started = airflow.trigger(BY_APPROVAL, {})
    assert started.status_code == 200, started.text
    run_id = started.json()["dag_run_id"]
    path = f"/dags/{BY_APPROVAL}/dagRuns/{run_id}"

    def answered() -> bool | None:
        # The week's own run may be first.
        asked = airflow.get(f"/dags/{BY_APPROVAL}/dagRuns/~/hitlDetails", response_received=False)["hitl_details"]
        waiting = [each for each in asked if each["task_instance"]["state"] == "awaiting_input"]
        for each in waiting:
            # Airflow 3.3 fails a task that goes on before the scheduler has seen its first process end.
            airflow.wait_for_process_end(BY_APPROVAL, "approve", each["task_instance"]["dag_run_id"])
        for each in waiting:
            of = each["task_instance"]["dag_run_id"]
            body = {"chosen_options": [choice if of == run_id else "Reject"]}
            given = airflow.send(
                "PATCH", f"/dags/{BY_APPROVAL}/dagRuns/{of}/taskInstances/approve/-1/hitlDetails", body
            )
            assert given.status_code == 200, given.text
        return any(each["task_instance"]["dag_run_id"] == run_id for each in waiting) or None

    wait_for("the question of the expiry", answered, airflow.output)
    airflow.wait_for_success(BY_APPROVAL, run_id)
    state: str = airflow.get(f"{path}/taskInstances/expire")["state"]
    return state


@pytest.mark.usefixtures("orders")
def test_old_rows_go_once_somebody_has_approved_it_and_stay_where_it_is_rejected(
    airflow: StandaloneAirflow, catalog: Catalog
) -> None:
    append(catalog, *(f"young {number}" for number in range(9)))
    young = names_of(catalog)
    append(catalog, "old", year=2019)
    # The clock is that of the last commit that brought rows.
    append(catalog, "youngest")
    airflow.unpause(BY_APPROVAL)
    assert answer(airflow, "Reject") == "skipped"
    assert names_of(catalog) == sorted([*young, "old", "youngest"])
    assert answer(airflow, "Approve") == "success"
    assert names_of(catalog) == sorted([*young, "youngest"])

"""Runs that a form starts, by REST: what they do, and which values are refused."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from tests.end_to_end.standalone_airflow import StandaloneAirflow
from tests.end_to_end.with_scheduler.table_contents import rows_of

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_the_form_of_one_table_plans_and_then_expires_snapshots(
    airflow: StandaloneAirflow, catalog: Catalog, stock: str
) -> None:
    airflow.unpause("maintain_one_table")
    before = rows_of(catalog.load_table(stock), "sku", "pieces")
    asked = {"table": stock, "action": "snapshot-expiry", "older_than": "P1D", "retain_last": 1}

    planned = report_of_expiry(airflow, {**asked, "dry_run": True})
    assert planned["outcome"] == "planned"
    assert len(planned["snapshots_expired"]) == 2
    assert len(catalog.load_table(stock).metadata.snapshots) == 3

    done = report_of_expiry(airflow, {**asked, "dry_run": False})
    assert done["outcome"] == "done"
    assert sorted(done["snapshots_expired"]) == sorted(planned["snapshots_expired"])
    table = catalog.load_table(stock)
    assert [table.metadata.current_snapshot_id] == [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    assert rows_of(table, "sku", "pieces") == before


def report_of_expiry(airflow: StandaloneAirflow, conf: dict[str, Any]) -> dict[str, Any]:
    answer = airflow.trigger("maintain_one_table", conf)
    assert answer.status_code == 200, answer.text
    run_id = answer.json()["dag_run_id"]
    airflow.wait_for_success("maintain_one_table", run_id)
    report: dict[str, Any] = airflow.returned("maintain_one_table", run_id, "snapshot_expiry")
    return report


BAD_VALUES: list[tuple[str, dict[str, Any]]] = [
    *(("maintain_one_table", {"table": table}) for table in ("orders", "shop.orders; DROP TABLE x", "shop.`orders`")),
    *(("maintain_one_table", {"table": table}) for table in ("staging.orders", "shop.", "my.shop.orders", 1, None)),
    *(("maintain_one_table", {"table": "shop.stock", "older_than": age}) for age in ("PT1S", "P0D", "P-1D", "1", "")),
    ("maintain_one_table", {"table": "shop.stock", "retain_last": 0}),
    ("maintain_one_table", {"table": "shop.stock", "retain_last": "1; DROP TABLE x"}),
    ("maintain_one_table", {"table": "shop.stock", "level": "major' OR 1=1"}),
    ("maintain_one_table", {"table": "shop.stock", "strategy": "zorder"}),
    ("maintain_one_table", {"table": "shop.stock", "action": "drop"}),
    ("maintain_one_table", {"table": "shop.stock", "dry_run": "no"}),
    ("nightly_maintenance", {"tables": "shop.*; DROP TABLE x"}),
    ("nightly_maintenance", {"tables": ""}),
    ("nightly_maintenance", {"dry_run": "{{ 1 }}"}),
]


def test_no_bad_value_of_a_form_becomes_a_run(airflow: StandaloneAirflow) -> None:
    before = {dag_id: len(airflow.runs(dag_id)) for dag_id in ("maintain_one_table", "nightly_maintenance")}
    for dag_id, conf in BAD_VALUES:
        answer = airflow.trigger(dag_id, conf)
        assert answer.status_code in (400, 422), (conf, answer.status_code, answer.text)
    assert {dag_id: len(airflow.runs(dag_id)) for dag_id in before} == before


def test_what_passes_the_form_and_is_no_table_fails_before_spark(airflow: StandaloneAirflow) -> None:
    airflow.unpause("maintain_one_table")
    # The $ of a pattern also stands before a line's end.
    answer = airflow.trigger("maintain_one_table", {"table": "shop.stock\n", "action": "compaction"})
    if answer.status_code == 200:
        run_id = answer.json()["dag_run_id"]
        assert airflow.wait_for_end("maintain_one_table", run_id) == "failed"
        assert "is not of the form namespace.table" in airflow.task_logs("maintain_one_table", run_id)

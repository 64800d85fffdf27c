"""DAGs of the one Airflow that the tests of this folder share."""

from __future__ import annotations

import os

from tests.end_to_end import retry_delays
from tests.end_to_end.standalone_airflow import StandaloneAirflow

POLL_SECONDS = 2
DAGS = {
    "expire_rows_after_approval",
    "ingest_orders",
    "load_order_events",
    "maintain_by_commits",
    "maintain_one_table",
    "nightly_maintenance",
    "on_new_orders_snapshot",
    "publish_after_check",
    "roll_back_one_table",
}
# As many_tables.py has them.
GOOD = [f"good_{number}" for number in range(int(os.environ.get("LAKE_GOOD_TABLES", "4")))]
OF_TESTS = {"days", "every_load", "many_tables", "numbers", "doubled_numbers", retry_delays.DAG_ID}
OF_TESTS |= {f"after_{table}" for table in ("bad", "busy", *GOOD)}


def dag_ids(airflow: StandaloneAirflow) -> set[str]:
    return {dag["dag_id"] for dag in airflow.get("/dags")["dags"]}

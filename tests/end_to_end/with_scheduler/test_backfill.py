"""A backfill of Airflow over partitions: days at once, and one of them again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from tests.end_to_end.standalone_airflow import StandaloneAirflow
from tests.end_to_end.with_scheduler.table_contents import rows_of, run_keys

pytestmark = [pytest.mark.live, pytest.mark.slow]
ONE, TWO = "2026-02-01", "2026-02-02"


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
    airflow.backfill("days", ONE, TWO, max_active_runs=2)
    table = catalog.load_table("days.orders")
    assert rows_of(table, "id", "name") == [(1, "a"), (2, "a"), (3, "a")]
    arrive(ONE, (2, "b"))
    airflow.backfill("days", ONE, ONE, reprocess_behavior="completed")
    assert rows_of(table.refresh(), "id", "name") == [(2, "b"), (3, "a")]
    assert len(set(run_keys(table))) == 3

"""Entries left in a real database, and the fleet that the lake page reads of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from airflow_lake_provider.plugins.lake_page.page_data import Fleet, read_fleet
from airflow_lake_provider.plugins.lake_page.stored_entries import dags_with_entries
from tests.stored_xcom import store_xcom

NOW = datetime(2026, 11, 28, 8, tzinfo=UTC)
NIGHT = NOW - timedelta(hours=5)
DAYS = timedelta(days=1)


def leave(
    session: Session, entries: dict[str, Any], at: datetime = NIGHT, dag_id: str = "nightly", task: str = "plan"
) -> None:
    store_xcom(session, dag_id, f"run {at.isoformat()}", task, entries.items(), at)


def fleet(session: Session, *dag_ids: str) -> Fleet:
    return read_fleet(session, dag_ids or dags_with_entries(session), NOW)


def scores(read: Fleet) -> dict[str, int | None]:
    return {each.row.table: each.row.score for each in read.tables}

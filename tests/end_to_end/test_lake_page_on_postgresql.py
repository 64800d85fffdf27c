"""The lake page reads a metadata database on PostgreSQL as it reads one in a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import URL, Engine
from sqlalchemy.orm import Session

from airflow_lake_provider.contracts.reports.report_codec import JobFailure, report_to_plain
from airflow_lake_provider.maintenance.trend import TrendPoint, trend_entry
from airflow_lake_provider.operators.links import push_entries
from airflow_lake_provider.plugins.lake_page.page_data import Fleet, TablePage, read_fleet, read_table
from airflow_lake_provider.plugins.lake_page.stored_entries import dags_with_entries
from tests.end_to_end.postgresql_server import postgresql_server
from tests.stored_xcom import metadata_database, store_instance, store_xcom
from tests.unit.plugins.fleet_of_entries import look_of, night_of

NOW = datetime(2026, 11, 28, 8, tzinfo=UTC)
NIGHT, DAY = NOW - timedelta(hours=5), timedelta(days=1)


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Engine]:
    with postgresql_server() as server:
        url = URL.create("postgresql+psycopg2", server.user, server.password, "127.0.0.1", server.port, "postgres")
        engine = metadata_database(url)
        yield engine
        engine.dispose()


def page(engine: Engine) -> tuple[Fleet, TablePage | None]:
    """Store what two nights leave, one of them broken, and return the page that reads it."""
    with Session(engine) as session:
        for at in (NIGHT - DAY, NIGHT):
            tables = {"a.gone": 3, "a.b": 40, "a.broken": None} if at < NIGHT else {"a.b": 60, "a.broken": None}
            store_xcom(session, "nightly", f"run {at}", "plan", look_of(tables, at).items(), at)
            trends = [trend_entry("a.b", [TrendPoint(at=at, score=50)])]
            left = {**night_of({"a.b": "done", "a.broken": "failed"}, at, reason="no such file"), "trends": trends}
            store_xcom(session, "nightly", f"run {at}", "verdict", left.items(), at)
        store_xcom(session, "other", "run", "plan", [("lake_fleet", {"version": 99})], NIGHT)
        store_instance(session, "nightly", "last", "plan", NIGHT + timedelta(hours=1), state="failed")
        session.commit()
        dag_ids = dags_with_entries(session)
        return read_fleet(session, dag_ids, NOW), read_table(session, dag_ids, NOW, "lake", "a.b")


def test_the_page_is_the_same_on_both(tmp_path: Path, postgresql: Engine) -> None:
    in_a_file = metadata_database(f"sqlite:///{tmp_path}/metadata.db")
    (fleet, table), expected = page(postgresql), page(in_a_file)
    in_a_file.dispose()
    assert fleet == expected[0]
    assert [(each.row.table, each.row.score) for each in fleet.tables] == [
        ("a.broken", None),
        ("a.b", 60),
        ("a.gone", 3),
    ]
    assert (len(fleet.notes), [each.run_id for each in fleet.failed]) == (1, ["last"])
    assert table is not None
    assert expected[1] is not None
    assert sorted(table.details) == sorted(expected[1].details) != []
    assert replace(table, details=expected[1].details) == expected[1]
    assert (table.state.trend is not None, len(table.history)) == (True, 2)


def test_signs_that_postgresql_refuses_are_stored_as_python_escapes_them(postgresql: Engine) -> None:
    pushed: dict[str, Any] = {}
    task = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    push_entries({"ti": task}, look_of({"a.\x00\udcff": 1}, NIGHT).items())  # type: ignore[typeddict-item]
    failure = JobFailure(error="InvalidInputError", message="key 'a\x00b' of in/\udcff.csv", traceback="")
    with Session(postgresql) as session:
        store_xcom(session, "load", "run", "orders", [("return_value", report_to_plain(failure))], NIGHT)
        store_xcom(session, "signs", "run", "plan", pushed.items(), NIGHT)
        names = [each.row.table for each in read_fleet(session, {"signs"}, NOW).tables]
    assert names == [r"a.\x00\udcff"]

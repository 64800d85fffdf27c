"""Plans of runs that commits trigger: they look at the tables with new rows, and at no other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_lake_provider.contracts.table_properties import ACTION, EXPIRED_BEFORE
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.operators.maintenance_plan import NOT_RUN, SUMMARY
from airflow_lake_provider.tables.detect_new_snapshot import NewSnapshot, NoNewSnapshot, SkipReason, TableHead, decide
from airflow_lake_provider.tables.watermark import Since
from tests.made_tables import register
from tests.unit.operators.test_maintenance_plan import plan

if TYPE_CHECKING:
    from airflow.sdk import Context


def triggered_by(context: Context, *tables: str) -> None:
    """Let asset events on tables have triggered the run."""
    context["triggering_asset_events"] = {
        name: [
            SimpleNamespace(
                asset=SimpleNamespace(name=name, uri=f"iceberg://lake_default/{name.replace('.', '/')}"),
                extra={"table": name, "branch": "main", "snapshot_id": "2", "previous_snapshot_id": "1"},
            )
        ]
        for name in tables
    }


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize(
    ("changed", "due", "looked_at"),
    [
        (["shop.orders"], ["shop.orders"], 1),
        (["shop.orders", "shop.well", "mart.other"], ["shop.orders"], 2),
        (["shop.well"], [], 1),
        (["mart.other"], [], 0),
        (["shop.dropped"], [], 0),
        ([], ["shop.orders"], 5),
    ],
)
def test_a_run_by_commits_looks_at_no_other_tables(
    context: Context, pushed: dict[str, Any], changed: list[str], due: list[str], looked_at: int
) -> None:
    triggered_by(context, *changed)
    jobs = plan(tables=["shop.*"], only_changed=True).execute(context)
    assert [task["table"] for job in jobs for task in job["tasks"]] == due
    assert pushed[SUMMARY]["tables"] == looked_at
    assert {each["table"] for each in pushed[NOT_RUN]} <= ({"shop.gone", "shop.nogc"} if not changed else set())


@pytest.mark.usefixtures("pushed")
@pytest.mark.parametrize("clock", ["arrival", "a day later"])
@pytest.mark.parametrize("files", [["old", "young"], ["both"]], ids=["whole files", "rows of a file"])
def test_the_expiry_of_rows_starts_one_run_by_commits_more_and_no_third(
    context: Context, lake_catalog: SqlCatalog, files: list[str], clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = {"old": [datetime(2020, 1, 1, tzinfo=UTC)], "young": [datetime(2026, 1, 1, tzinfo=UTC)]}
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
    table = lake_catalog.create_table("shop.events", schema)
    for file in files:
        moments = days.get(file) or [*days["old"], *days["young"], *days["young"]]
        table.append(pa.table({"id": list(range(len(moments))), "at": moments}, schema=schema))
    by_commits = plan(
        tables=["shop.*"],
        only_changed=True,
        history="off",
        policy={"row_expiry": {"column": "at", "keep": "P365D"}},
    )

    def actions() -> list[str]:
        triggered_by(context, "shop.events")
        return [task["action"] for job in by_commits.execute(context) for task in job["tasks"]]

    def event_since(snapshot: str | None) -> NewSnapshot | NoNewSnapshot:
        return decide(TableHead.of(LakeCatalogHook().loaded("shop.events").facts), Since(snapshot_id=snapshot))

    assert "expire-rows" in actions()
    before = TableHead.of(LakeCatalogHook().loaded("shop.events").facts).head
    arrived = datetime.fromtimestamp(table.refresh().history()[-1].timestamp_ms / 1000, UTC)
    limit = (arrived - timedelta(days=365)).isoformat()
    table.delete(f"at < '{limit}'", snapshot_properties={ACTION: "expire-rows", EXPIRED_BEFORE: f"at < {limit}"})
    event = event_since(before)
    assert isinstance(event, NewSnapshot)
    assert event.counts["deleted-records"] > event.counts.get("added-records", 0)
    if clock == "a day later":
        later = datetime.now(UTC) + timedelta(days=1, minutes=1)
        monkeypatch.setattr(
            "airflow_lake_provider.operators.maintenance_plan.datetime", SimpleNamespace(now=lambda _: later)
        )
    assert "expire-rows" not in actions()
    # What else that run does is a replacement of files, if anything.
    assert event_since(event.snapshot_id) == NoNewSnapshot(reason=SkipReason.NOTHING_COMMITTED, seen=event.snapshot_id)


@pytest.mark.usefixtures("five")
def test_a_run_by_commits_expires_no_table_that_another_namespace_has_too(
    context: Context,
    pushed: dict[str, Any],
    lake_catalog: SqlCatalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake_catalog.create_namespace("backup")
    metadata = lake_catalog.load_table("shop.orders").metadata_location
    register(tmp_path / "catalog.db", "lake_default", "backup", {"orders": metadata})
    later = datetime.now(UTC) + timedelta(days=9)
    monkeypatch.setattr(
        "airflow_lake_provider.operators.maintenance_plan.datetime", SimpleNamespace(now=lambda _: later)
    )
    triggered_by(context, "shop.orders", "shop.well")
    policy = {"expiry": {"min_snapshots": 7}}
    jobs = plan(tables=["shop.*"], only_changed=True, policy=policy).execute(context)
    assert [(task["action"], task["table"]) for job in jobs for task in job["tasks"]] == [("compaction", "shop.orders")]
    (report,) = pushed[NOT_RUN]
    assert (report["table"], report["action"], report["outcome"]) == ("shop.orders", "snapshot-expiry", "unsupported")
    assert "as backup.orders, too" in report["reason"]
    # It was compared, and is none of the run's.
    assert pushed[SUMMARY]["tables"] == 2


@pytest.mark.usefixtures("five", "pushed")
@pytest.mark.parametrize("event", ["shop.*", "shop.order?", "!shop.well", "*", "orders", 7, None])
def test_an_event_whose_table_is_no_name_selects_none(context: Context, pushed: dict[str, Any], event: Any) -> None:
    """Whoever may make events chooses their text."""
    triggered_by(context, "shop.orders")
    context["triggering_asset_events"]["shop.orders"][0].extra["table"] = event
    assert plan(tables=["*"], only_changed=True).execute(context) == []
    assert pushed[SUMMARY]["tables"] == 0


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("limits", [{"tables": ["shop.*", "!shop.orders"]}, {"allowed_tables": ["shop.well"]}])
def test_a_run_by_commits_leaves_out_what_its_author_does(
    context: Context, pushed: dict[str, Any], limits: dict[str, Any]
) -> None:
    triggered_by(context, "shop.orders", "shop.well")
    assert plan(only_changed=True, **limits).execute(context) == []
    assert pushed[SUMMARY]["tables"] == 1

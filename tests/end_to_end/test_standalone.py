"""A commit that no DAG made, the asset event, the downstream run and its rows; forms and the UI. One real Airflow."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table, metadata, snapshots

from tests.end_to_end import retry_delays
from tests.end_to_end.airflow_command import DAGS as DAGS_OF_TESTS
from tests.end_to_end.browser import browser_page, find_browser
from tests.end_to_end.orders_writer import upsert_orders
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.unit.resource_manager import ResourceManager, resource_manager

pytestmark = [pytest.mark.live, pytest.mark.slow]

POLL_SECONDS = 2
DAGS = {
    "ingest_orders",
    "maintain_one_table",
    "nightly_maintenance",
    "on_new_orders_snapshot",
    "publish_after_check",
    "roll_back_one_table",
}


# As many_tables.py has them.
GOOD = [f"good_{number}" for number in range(int(os.environ.get("LAKE_GOOD_TABLES", "4")))]
OF_TESTS = {"many_tables", retry_delays.DAG_ID, *(f"after_{table}" for table in ("bad", "busy", *GOOD))}


@pytest.fixture(scope="module")
def dags_folder(airflow_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the repository's DAGs and one of the tests."""
    folder = tmp_path_factory.mktemp("dags")
    repository = Path(airflow_environment["AIRFLOW__CORE__DAGS_FOLDER"])
    for file in (*repository.glob("*.py"), DAGS_OF_TESTS / "many_tables.py"):
        (folder / file.name).symlink_to(file)
    return folder


@pytest.fixture(scope="module")
def yarn() -> Iterator[ResourceManager]:
    # It runs for one more look: a task that goes on at once may pass for lost on a busy machine.
    with resource_manager(("RUNNING", "UNDEFINED"), ("FINISHED", "SUCCEEDED")) as found:
        yield found


@pytest.fixture(scope="module")
def airflow(
    airflow_environment: Mapping[str, str],
    dags_folder: Path,
    lake_home: Path,
    yarn: ResourceManager,
    unused_tcp_port_factory: Callable[[], int],
) -> Iterator[StandaloneAirflow]:
    environment = {
        **airflow_environment,
        **retry_delays.prepare(lake_home / "delays", dags_folder, yarn.connection, airflow_environment),
        "AIRFLOW__LAKE__SNAPSHOT_POLL_INTERVAL": str(POLL_SECONDS),
        # No test changes a DAG file. Parsing each of them every 30 s would take a fifth of a core.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
    }
    # Drivers listen on loopback without being told.
    environment.pop("SPARK_LOCAL_IP")
    running = StandaloneAirflow(environment, lake_home / "standalone", unused_tcp_port_factory())
    try:
        running.wait_until_healthy()
        wait_for("all DAGs", lambda: dag_ids(running) == DAGS | OF_TESTS or None, lambda: str(dag_ids(running)))
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def catalog(lake_home: Path) -> Iterator[Catalog]:
    with closing(load_catalog("lake_default", type="sql", uri=f"sqlite:///{lake_home}/catalog.db")) as opened:
        yield opened


@pytest.fixture(scope="module")
def stock(catalog: Catalog, lake_home: Path) -> str:
    """A table with three old snapshots, by PyIceberg."""
    catalog.create_namespace_if_not_exists("shop")
    schema = pa.schema([("sku", pa.string()), ("pieces", pa.int64())])

    # The day before yesterday: what is younger than a day is not removed.
    def seconds() -> float:
        return time.time() - 2 * 86_400

    with (
        patch.object(metadata, "datetime_to_millis", lambda _: int(seconds() * 1000)),
        patch.object(snapshots, "time", Mock(time=seconds)),
    ):
        table = catalog.create_table("shop.stock", schema=schema, location=f"file://{lake_home}/warehouse/stock")
        for pieces in (1, 2, 3):
            table.append(pa.table({"sku": [f"sku-{pieces}"], "pieces": [pieces]}, schema=schema))
    return "shop.stock"


def dag_ids(airflow: StandaloneAirflow) -> set[str]:
    return {dag["dag_id"] for dag in airflow.get("/dags")["dags"]}


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


def rows_of(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in table.scan().to_arrow().to_pylist())


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


@contextmanager
def busy_writer(table: Table) -> Iterator[None]:
    """Commit to a table all the time: several times while a driver plans and writes."""
    stopped = threading.Event()

    def write() -> None:
        number = 100
        while not stopped.wait(0.4):
            number += 1
            # Another commit was quicker, or the database is locked.
            with suppress(Exception):
                table.refresh().append(pa.table({"id": [number], "name": ["busy"]}))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stopped.set()
        writer.join()


def test_tasks_of_one_application_end_each_by_itself_and_the_run_is_red_if_one_failed(
    airflow: StandaloneAirflow, catalog: Catalog, lake_home: Path
) -> None:
    inbox = lake_home / "inbox" / "many"
    inbox.mkdir(parents=True)
    for name in ("busy", *GOOD):
        (inbox / f"{name}.jsonl").write_text(f'{{"id": 1, "name": "{name}"}}\n')
    (inbox / "bad.jsonl").write_text('{"id": "no number", "name": "bad"}\n')
    catalog.create_namespace_if_not_exists("many")
    fragile = {"format-version": "2", "commit.retry.num-retries": "0"}
    busy = catalog.create_table(
        "many.busy",
        schema=pa.schema([("id", pa.int64()), ("name", pa.string())]),
        location=f"file://{lake_home}/warehouse/busy",
        properties=fragile,
    )
    airflow.unpause("many_tables")
    with busy_writer(busy):
        run = airflow.trigger("many_tables", {}).json()["dag_run_id"]
        assert airflow.wait_for_end("many_tables", run) == "failed"
    found = {report["table"].partition(".")[2]: report for report in airflow.returned("many_tables", run, "load.run")}
    ended = {name: report.get("error") or report["outcome"] for name, report in found.items()}
    applied = dict.fromkeys(GOOD, "applied")
    assert ended == {**applied, "bad": "BadInputError", "busy": "CommitConflictError"}, found
    assert {name: rows_of(catalog.load_table(f"many.{name}"), "id", "name") for name in applied} == {
        name: [(1, name)] for name in applied
    }
    for name in applied:
        wait_for(f"the run after {name}", lambda name=name: airflow.runs(f"after_{name}") or None, airflow.output)  # type: ignore[misc]
    started = {name: len(airflow.runs(f"after_{name}")) for name in ended}
    assert started == {**dict.fromkeys(applied, 1), "bad": 0, "busy": 0}


def test_airflow_imports_every_dag_of_the_repository(airflow: StandaloneAirflow) -> None:
    assert airflow.get("/importErrors") == {"import_errors": [], "total_entries": 0}
    assert dag_ids(airflow) == DAGS | OF_TESTS


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
    ("nightly_maintenance", {"older_than": "PT1S"}),
    ("nightly_maintenance", {"level": "none"}),
    ("nightly_maintenance", {"dry_run": "{{ 1 }}"}),
]


def test_no_bad_value_of_a_form_becomes_a_run(airflow: StandaloneAirflow) -> None:
    before = {dag_id: len(airflow.runs(dag_id)) for dag_id in ("maintain_one_table", "nightly_maintenance")}
    for dag_id, conf in BAD_VALUES:
        answer = airflow.trigger(dag_id, conf)
        assert answer.status_code in (400, 422), (conf, answer.status_code, answer.text)
    assert {dag_id: len(airflow.runs(dag_id)) for dag_id in before} == before


def test_what_passes_the_form_and_is_no_table_fails_before_spark(airflow: StandaloneAirflow) -> None:
    # The $ of a pattern also stands before a line's end.
    answer = airflow.trigger("maintain_one_table", {"table": "shop.stock\n", "action": "compaction"})
    if answer.status_code == 200:
        run_id = answer.json()["dag_run_id"]
        assert airflow.wait_for_end("maintain_one_table", run_id) == "failed"
        assert "is not of the form namespace.table" in airflow.task_logs("maintain_one_table", run_id)


@pytest.fixture
def page(airflow: StandaloneAirflow, tmp_path: Path) -> Iterator[Page]:
    """An empty page of a real browser."""
    browser = find_browser()
    if browser is None:
        pytest.skip("no chromium on PATH, which this test clicks with; install it: apt-get install chromium")
    with browser_page(browser, tmp_path / "profile") as opened:
        yield opened


def test_a_person_sees_the_dags_fills_in_the_form_and_starts_a_run(
    airflow: StandaloneAirflow, stock: str, page: Page
) -> None:
    airflow.unpause("maintain_one_table")
    earlier = {run["dag_run_id"] for run in airflow.runs("maintain_one_table")}
    page.goto(f"{airflow.url}/dags")
    for dag_id in sorted(DAGS):
        expect(page.get_by_role("link", name=dag_id, exact=True).first).to_be_visible()

    page.goto(f"{airflow.url}/dags/maintain_one_table")
    page.get_by_role("button", name="Trigger Dag", exact=True).first.click()
    form = page.get_by_role("dialog")
    for title in ("Table", "What to do", "Dry run", "Compaction level", "Expire older than", "Retain last"):
        # A star follows the title of what has to be given.
        expect(form.get_by_text(re.compile(rf"^{title}\W*$")).first).to_be_attached()
    form.locator("[name=element_table]").fill(stock)
    form.get_by_role("button", name="Trigger", exact=True).click()

    def new_run() -> str | None:
        return next(
            (r["dag_run_id"] for r in airflow.runs("maintain_one_table") if r["dag_run_id"] not in earlier), None
        )

    run_id = wait_for("the run that the form started", new_run, airflow.output)
    airflow.wait_for_success("maintain_one_table", run_id)
    report = airflow.returned("maintain_one_table", run_id, "compaction")
    assert report["table"] == stock
    assert report["outcome"] in ("planned", "nothing-due")


def test_a_person_sees_each_tables_outcome_without_opening_a_log(
    airflow: StandaloneAirflow, catalog: Catalog, lake_home: Path, stock: str, page: Page
) -> None:
    for name in ("shop.products", "shop.orders", "shop.order_items", "mart.order_revenue"):
        catalog.create_namespace_if_not_exists(name.partition(".")[0])
        location = f"file://{lake_home}/warehouse/{name}"
        catalog.create_table_if_not_exists(name, pa.schema([("id", pa.int64())]), location=location)
    # This starts the run of last night.
    airflow.unpause("nightly_maintenance")
    runs = wait_for("the run of last night", lambda: airflow.runs("nightly_maintenance") or None, airflow.output)
    run_id = runs[0]["dag_run_id"]
    instances = f"/dags/nightly_maintenance/dagRuns/{run_id}/taskInstances/keep_small.expire/listMapped"

    def labels() -> list[str] | None:
        found = [each["rendered_map_index"] for each in airflow.get(instances)["task_instances"]]
        return sorted(found) if len(found) == 4 and all(":" in str(label) for label in found) else None

    shown = wait_for("four labels", labels, airflow.output)
    assert "shop.products: nothing-due" in shown
    page.goto(f"{airflow.url}/dags/nightly_maintenance/runs/{run_id}/tasks/keep_small.expire/mapped")
    for label in shown:
        expect(page.get_by_text(label, exact=True).first).to_be_visible()

    # Of tasks that are not mapped, the grid shows the state alone; the run's list of instances has the label.
    airflow.unpause("maintain_one_table")
    run_id = airflow.trigger("maintain_one_table", {"table": stock}).json()["dag_run_id"]
    airflow.wait_for_success("maintain_one_table", run_id)
    page.goto(f"{airflow.url}/dags/maintain_one_table/runs/{run_id}")
    expect(page.get_by_text(re.compile(rf"^{stock}: (planned|nothing-due)")).first).to_be_visible()
    page.goto(f"{airflow.url}/dags/maintain_one_table/runs/{run_id}/tasks/compaction/details")
    report = page.get_by_role("link", name="Report", exact=True)
    expect(report).to_be_visible()
    page.goto(str(report.get_attribute("href")))
    expect(page.get_by_text("outcome", exact=True).first).to_be_visible()


def test_retries_wait_by_the_error_and_what_never_helps_has_none(
    airflow: StandaloneAirflow, catalog: Catalog, lake_home: Path
) -> None:
    retry_delays.make_tables(catalog, lake_home / "warehouse" / "delays")
    airflow.unpause(retry_delays.DAG_ID)
    assert retry_delays.first_tries_of_a_run(airflow) == retry_delays.EXPECTED


def test_nothing_listens_on_other_than_loopback(airflow: StandaloneAirflow) -> None:
    airflow.note_listeners()
    listening = airflow.listened_on
    assert listening, "nothing listens at all, not even the API server"
    assert [address for address in listening if not is_loopback(address)] == []


def is_loopback(text: str) -> bool:
    address = ip_address(text)
    # Java listens on IPv6 sockets that stand for an IPv4 address.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback

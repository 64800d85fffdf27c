"""Pages and forms of Airflow in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect
from pyiceberg.catalog import Catalog

from tests.end_to_end.browser import browser_page, find_browser
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for
from tests.end_to_end.with_scheduler.dags_of_airflow import DAGS

pytestmark = [pytest.mark.live, pytest.mark.slow]


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
    for title in ("Table", "Catalog", "What to do", "Dry run", "Compaction level", "Expire older than", "Retain last"):
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
    airflow.wait_for_end("nightly_maintenance", run_id)
    # Those of other tests are in the catalog as well.
    page.goto(f"{airflow.url}/dags/nightly_maintenance/runs/{run_id}")
    for label in (r"^\*: \d+ tables", r"^maintenance: (nothing was due|\d+ done)"):
        expect(page.get_by_text(re.compile(label)).first).to_be_visible()

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


def test_a_person_finds_a_table_on_the_lake_page_and_maintains_it(
    airflow: StandaloneAirflow, catalog: Catalog, stock: str, page: Page
) -> None:
    airflow.unpause("nightly_maintenance")
    run_id = airflow.trigger("nightly_maintenance", {"tables": stock, "dry_run": True}).json()["dag_run_id"]
    airflow.wait_for_success("nightly_maintenance", run_id)
    airflow.unpause("maintain_one_table")
    page.goto(f"{airflow.url}/plugin/lake")
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name=stock, exact=True).click()
    # What the plan has seen is what PyIceberg sees.
    for snapshot in catalog.load_table(stock).snapshots():
        expect(frame.get_by_text(str(snapshot.snapshot_id), exact=True)).to_be_attached()
    frame.get_by_role("button", name="Trigger maintain_one_table").click()
    run = frame.get_by_role("link", name=re.compile("^Run manual"))
    expect(run).to_be_visible()
    run_id = str(run.text_content()).removeprefix("Run ")
    airflow.wait_for_success("maintain_one_table", run_id)
    report = airflow.returned("maintain_one_table", run_id, "compaction")
    assert (report["table"], report["outcome"]) == (stock, "planned") or report["outcome"] == "nothing-due"
    # From the frame, the link opens Airflow's own page; from the task, one opens the page of its table.
    run.click()
    expect(page).to_have_url(re.compile(r"/dags/maintain_one_table/runs/"))
    page.goto(f"{airflow.url}/dags/maintain_one_table/runs/{run_id}/tasks/compaction/details")
    lake_page = page.get_by_role("link", name="Lake page", exact=True)
    expect(lake_page).to_be_visible()
    page.goto(str(lake_page.get_attribute("href")))
    expect(page.frame_locator("iframe").get_by_role("heading", name=stock)).to_be_visible()

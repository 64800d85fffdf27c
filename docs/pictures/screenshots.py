"""Take pictures of Airflow's UI: the graph of a DAG, and the form that starts one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from playwright.sync_api import FloatRect, Page, ViewportSize, expect

from tests.end_to_end.browser import browser_page, find_browser
from tests.end_to_end.lake_environment import environment_of
from tests.end_to_end.standalone_airflow import StandaloneAirflow, wait_for

GRAPH_OF = "on_new_orders_snapshot"
FORM_OF = "maintain_one_table"
# What the UI remembers of the buttons above a graph: the view, and that assets are shown.
SETTINGS = f"""
localStorage.setItem("default_dag_view", JSON.stringify("graph"));
localStorage.setItem("dependencies-{GRAPH_OF}", JSON.stringify("all"));
"""
GRAPH_SIZE: ViewportSize = {"width": 1440, "height": 700}
# The form is longer than most screens.
FORM_SIZE: ViewportSize = {"width": 1280, "height": 1000}
MARGIN = 16


def take_screenshots(images: Path, home: Path, port: int) -> None:
    """Start Airflow and a browser, and write the pictures as PNG.

    :param images: folder that gets them.
    :param home: existing empty folder for Airflow.
    :param port: free port.
    """
    browser = find_browser()
    if browser is None:
        sys.exit("no chromium on PATH, which takes the screenshots; install it: apt-get install chromium")
    (home / "warehouse").mkdir()
    airflow = StandaloneAirflow(environment_of(home), home / "standalone", port)
    try:
        airflow.wait_until_healthy()
        wait_for("the DAGs", lambda: _knows_dags(airflow) or None, airflow.output)
        with browser_page(browser, home / "profile", color_scheme="light") as page:
            page.add_init_script(SETTINGS)
            _graph(page, airflow.url, images / "dag-graph.png")
            _form(page, airflow.url, images / "trigger-form.png")
    finally:
        airflow.stop()


def _knows_dags(airflow: StandaloneAirflow) -> bool:
    return {GRAPH_OF, FORM_OF} <= {dag["dag_id"] for dag in airflow.get("/dags")["dags"]}


def _graph(page: Page, url: str, path: Path) -> None:
    page.set_viewport_size(GRAPH_SIZE)
    page.goto(f"{url}/dags/{GRAPH_OF}")
    expect(page.locator(".react-flow").get_by_text("revenue", exact=True).first).to_be_visible()
    _wait_for_rest(page)
    page.screenshot(path=path, clip=_around(page, ".react-flow__node"), animations="disabled")
    print(path)


def _form(page: Page, url: str, path: Path) -> None:
    page.set_viewport_size(FORM_SIZE)
    page.goto(f"{url}/dags/{FORM_OF}")
    page.get_by_role("button", name="Trigger Dag", exact=True).first.click()
    form = page.get_by_role("dialog")
    expect(form.get_by_text(re.compile(r"^Dry run\W*$")).first).to_be_visible()
    _wait_for_rest(page)
    form.screenshot(path=path, animations="disabled")
    print(path)


def _around(page: Page, selector: str) -> FloatRect:
    """Return the rectangle that holds all elements of a selector: the rest of a canvas is empty."""
    boxes = [box for element in page.locator(selector).all() if (box := element.bounding_box())]
    left, top = min(box["x"] for box in boxes) - MARGIN, min(box["y"] for box in boxes) - MARGIN
    right = max(box["x"] + box["width"] for box in boxes) + MARGIN
    bottom = max(box["y"] + box["height"] for box in boxes) + MARGIN
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def _wait_for_rest(page: Page) -> None:
    page.wait_for_timeout(3000)

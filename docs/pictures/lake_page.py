"""Take pictures of the lake page after real runs of maintenance over the benchmark's 1,000 tables."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, expect

from airflow_lake_provider.contracts.lake_page import PAGE
from tests.benchmarks.lake_page import CONN_ID, CONSUMED, airflow_with_fleet
from tests.end_to_end.browser import browser_page, find_browser

SIZE: ViewportSize = {"width": 1440, "height": 860}


def take_lake_page(images: Path, home: Path) -> None:
    """Run the night, and write the pictures as PNG.

    :param images: folder that gets them.
    :param home: existing empty folder.
    """
    browser = find_browser()
    if browser is None:
        sys.exit("no chromium on PATH, which takes the screenshots; install it: apt-get install chromium")
    with airflow_with_fleet(home) as airflow, browser_page(browser, home / "profile", color_scheme="light") as page:
        page.set_viewport_size(SIZE)
        page.goto(f"{airflow.url}/plugin/lake")
        expect(page.frame_locator("iframe").locator("#tables")).to_be_visible()
        _write(page, images / "lake-page.png")
        page.goto(f"{airflow.url}/plugin/lake{PAGE}/table?conn={CONN_ID}&table={CONSUMED}")
        expect(page.frame_locator("iframe").locator("canvas").first).to_be_visible()
        page.set_viewport_size({**SIZE, "height": 1500})
        _write(page, images / "lake-table.png")
        page.set_viewport_size(SIZE)
        page.emulate_media(color_scheme="dark")
        page.goto(f"{airflow.url}{PAGE}/")
        _write(page, images / "lake-page-dark.png")


def _write(page: Page, path: Path) -> None:
    page.wait_for_timeout(1500)
    page.screenshot(path=path, animations="disabled")
    print(path)

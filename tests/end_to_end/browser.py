"""A page of a real browser: Debian's chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from tests.end_to_end.standalone_airflow import WAIT_SECONDS

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_browser() -> str | None:
    """Return the path of chromium; None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser_page(browser: str, profile: Path, **options: Any) -> Iterator[Page]:
    """Open an empty page, and close the browser at the end.

    :param browser: path of chromium.
    :param profile: empty folder.
    :param options: of playwright's context, such as the page's size.
    """
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile), executable_path=browser, headless=True, args=FLAGS, **options
        )
        context.set_default_timeout(WAIT_SECONDS * 1000 / 3)
        expect.set_options(timeout=WAIT_SECONDS * 1000 / 3)
        try:
            yield context.pages[0]
        finally:
            context.close()

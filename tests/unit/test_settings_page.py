from __future__ import annotations

import re
from pathlib import Path

from airflow_lake_provider.get_provider_info import get_provider_info
from airflow_lake_provider.spark_jobs.session.pinned_settings import PINNED

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_of_settings_lists_what_a_job_pins() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = (
        f"| `{pinned.name}` | {'not set' if pinned.value is None else f'`{pinned.value}`'} | {pinned.why} |"
        for pinned in PINNED
    )
    assert [row for row in rows if row not in text] == []


def test_the_page_lists_the_settings_that_airflow_is_told_of_and_no_other() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \| (?:worker|triggerer|api-server)", text, re.MULTILINE))
    options = get_provider_info()["config"]["lake"]["options"]
    assert set(rows) == set(options)
    # Other defaults are described.
    numbers = {name: option["default"] for name, option in options.items() if option["type"] in ("float", "integer")}
    assert {name: rows[name].strip("`") for name in numbers} == numbers


def test_airflow_is_told_of_each_setting_that_is_read() -> None:
    package = Path(__file__).parents[2] / "airflow_lake_provider"
    pattern = re.compile(r"""(?:conf\.get\w*\("lake", |positive_setting\()"(\w+)\"""")
    read = {name for source in package.rglob("*.py") for name in pattern.findall(source.read_text(encoding="utf-8"))}
    assert read <= set(get_provider_info()["config"]["lake"]["options"])
    assert {"catalog_timeout", "spark_jars"} <= read

"""The plugin costs processes that serve no page nearly nothing, and all of its files are in the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from configparser import ConfigParser
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.sdk.configuration import conf

from airflow_lake_provider.operators.links import LakePageLink
from airflow_lake_provider.operators.maintenance_plan import LakeMaintenancePlanOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.plugins.lake_page.plugin import LakePagePlugin

REPOSITORY = Path(__file__).parents[3]
FOLDER = REPOSITORY / "airflow_lake_provider" / "plugins" / "lake_page"
OURS = "airflow_lake_provider"


def test_the_installed_entry_point_loads_the_plugin() -> None:
    (point,) = (each for each in entry_points(group="airflow.plugins") if each.module.startswith(OURS))
    assert point.load() is LakePagePlugin


def test_a_process_that_loads_the_plugin_imports_nothing_of_the_page(tmp_path: Path) -> None:
    code = (
        "import airflow.sdk.plugins_manager, airflow.sdk.configuration, json, sys\n"
        "before = set(sys.modules)\n"
        f"from {OURS}.plugins.lake_page.plugin import LakePagePlugin\n"
        "LakePagePlugin().external_views\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    imported = json.loads(run.stdout.splitlines()[-1])
    assert [name for name in imported if name.split(".")[0] in ("fastapi", "jinja2", "sqlalchemy", "pyiceberg")] == []
    assert [name for name in imported if name.startswith(f"{OURS}.maintenance")] == []


def test_the_page_is_below_the_path_of_the_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://company.example/airflow/")
    (view,) = LakePagePlugin().external_views
    assert (view["href"], view["url_route"], view["destination"]) == ("/airflow/lake/", "lake", "nav")


def test_every_template_and_every_file_of_the_page_is_declared_for_the_wheel() -> None:
    parser = ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    patterns = parser["options.package_data"][OURS].split()
    package = REPOSITORY / OURS
    declared = {file for pattern in patterns for file in package.glob(pattern)}
    files = {file for file in FOLDER.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert files - declared == set()


@pytest.mark.parametrize("path", ["", "/airflow"])
def test_a_task_links_the_page_of_its_table(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"https://company.example{path}")
    assert conf.get("api", "base_url").endswith(path)
    expiry = LakeSnapshotExpiryOperator(task_id="t", table="shop.orders")
    link = urlsplit(LakePageLink().get_link(expiry, ti_key=None))  # type: ignore[arg-type]  # not asked
    assert link.path == f"{path}/lake/open"
    assert parse_qs(link.query) == {"conn": ["lake_default"], "table": ["shop.orders"]}
    plan = LakeMaintenancePlanOperator(task_id="t")
    assert LakePageLink().get_link(plan, ti_key=None).endswith(f"{path}/lake/open")  # type: ignore[arg-type]

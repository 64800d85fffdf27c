"""Airflow reads the description of this provider, and everything it names is there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from configparser import ConfigParser
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from airflow_lake_provider.get_provider_info import get_provider_info

REPOSITORY = Path(__file__).parents[2]
KINDS = ("operators", "sensors", "triggers", "hooks")
NAMED_MODULES = [module for kind in KINDS for entry in get_provider_info()[kind] for module in entry["python-modules"]]


def test_airflows_own_schema_accepts_the_provider_info() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_the_package_name_is_the_name_of_the_distribution() -> None:
    # Any difference is a ValueError in every airflow command that lists providers.
    assert get_provider_info()["package-name"] == setup_cfg()["metadata"]["name"]


@pytest.mark.parametrize("module", NAMED_MODULES)
def test_every_named_module_exists(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


@pytest.mark.parametrize(
    ("kind", "suffix"), [("operators", "Operator"), ("sensors", "Sensor"), ("triggers", "Trigger")]
)
def test_a_module_with_a_class_for_authors_is_named(kind: str, suffix: str) -> None:
    # LakeJobOperator is what our operators are made of, not one that a DAG uses.
    public = re.compile(rf"^class (?!LakeJobOperator\b)Lake\w*{suffix}\b", re.MULTILINE)
    sources = (REPOSITORY / "airflow_lake_provider" / kind).glob("*.py")
    found = {f"airflow_lake_provider.{kind}.{source.stem}" for source in sources if public.search(source.read_text())}
    assert found <= set(NAMED_MODULES)


def test_the_installed_entry_point_loads_the_provider_info() -> None:
    (found,) = (
        point for point in entry_points(group="apache_airflow_provider") if point.module.startswith("airflow_lake")
    )
    assert found.load()() == get_provider_info()


def test_airflow_answers_the_default_of_each_lake_setting(tmp_path: Path) -> None:
    # A process of its own: the configuration that this one holds may be changed by other tests.
    defaults = {"snapshot_poll_interval": "60", "spark_jars": ""}
    code = f"from airflow.sdk import conf; print({{name: conf.get('lake', name) for name in {list(defaults)}}})"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__LAKE__")}
    environment["AIRFLOW_HOME"] = str(tmp_path)
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-1:] == [str(defaults)], run.stderr


def setup_cfg() -> ConfigParser:
    parser = ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    return parser

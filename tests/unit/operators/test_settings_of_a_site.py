"""Settings of a driver that are those of its Spark installation, and which installation that is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY
from airflow.sdk import Context

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators import driver_start
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.driver_start import given_settings, spark_release
from airflow_lake_provider.operators.spark_submission import spark_submit_arguments
from airflow_lake_provider.submission.spark_installation import SparkRelease, bundled_spark_home
from tests.unit.operators.planned_start import LOCAL, installation, planned
from tests.unit.operators.submitted import opened

__all__ = ["installation"]
pytestmark = pytest.mark.usefixtures("spark_connection")

CLUSTER = SparkTarget(master="yarn", cluster_mode=True)


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c", "\x1d", "\x1e", "\x0c"])
def test_a_value_with_a_line_separator_that_java_does_not_know_names_no_setting(sign: str) -> None:
    text = f"spark.app.name=shop{sign}spark.driver.extraClassPath=/opt/jars/*\n"
    assert planned(settings=text).archive is not None
    assert planned(settings=text.replace(sign, "\n")).archive is None


@pytest.mark.parametrize(
    ("text", "setting", "value"),
    [
        ("# see C:\\conf\\\nspark.jars=/a.jar", "spark.jars", "/a.jar"),
        ("spark.jars.packages=org.x\\:y\\:1", "spark.jars.packages", "org.x:y:1"),
    ],
)
def test_settings_are_those_that_java_reads_in_a_file(text: str, setting: str, value: str) -> None:
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders")
    assert given_settings(operator, text) == {setting: value}


@pytest.mark.parametrize("place", ["site", "properties file"])
@pytest.mark.parametrize("target", [LOCAL, CLUSTER])
def test_a_file_of_settings_that_asks_for_spark_connect_is_refused_before_a_submission(
    installation: Path, place: str, target: SparkTarget
) -> None:
    text = "spark.remote=sc://notebooks:15002"
    if place == "site":
        (installation / "spark" / "conf").mkdir()
        (installation / "spark" / "conf" / "spark-defaults.conf").write_text(text)
    with pytest.raises(InvalidSpecError, match=r"has spark\.remote, which asks for a session of Spark Connect"):
        planned(target, text if place == "properties file" else "")


def test_a_site_whose_notebooks_use_spark_connect_leaves_the_mode_of_a_job_alone(installation: Path) -> None:
    (installation / "spark" / "conf").mkdir()
    (installation / "spark" / "conf" / "spark-defaults.conf").write_text("spark.api.mode=connect")
    assert planned(settings="spark.api.mode=classic").given["spark.api.mode"] == "classic"


def test_settings_of_a_submission_are_read_once_and_shown_nowhere(
    context: Context, lake_connection: str, job_directory: Path, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reading(text: str) -> dict[str, str]:
        read.append(text)
        return {"spark.key": "a-secret"}

    monkeypatch.setattr(driver_start, "read_properties", reading)
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders")
    attempt = opened(operator, context, LOCAL)
    start = attempt.driver_start(operator)
    spark_submit_arguments(attempt, operator, start)
    assert len(read) == 2
    assert start.given == {"spark.key": "a-secret"}
    assert "a-secret" not in repr(start)


@pytest.mark.parametrize("chosen", ["operator", "connection", "path", "SPARK_CONF_DIR", "nobody"])
def test_the_settings_of_a_site_are_those_of_the_spark_that_submits(
    chosen: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for folder in ("jars", "bin", "conf"):
        (other / folder).mkdir(parents=True)
    (other / "bin" / DEFAULT_SPARK_BINARY).touch(mode=0o700)
    (other / "conf" / "spark-defaults.conf").write_text("spark.jars=/site.jar")
    monkeypatch.delenv("SPARK_HOME")
    binary = str(other / "bin" / DEFAULT_SPARK_BINARY)
    arguments: dict[str, Any] = {}
    if chosen == "operator":
        arguments = {"spark_binary": binary}
    elif chosen == "connection":
        connection = {"conn_type": "spark", "host": "local[2]", "extra": {"spark-binary": binary}}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    elif chosen == "path":
        monkeypatch.setenv("PATH", str(other / "bin"))
        arguments = {"spark_binary": DEFAULT_SPARK_BINARY}
    elif chosen == "SPARK_CONF_DIR":
        arguments = {"spark_binary": "a-wrapper", "env_vars": {"SPARK_CONF_DIR": str(other / "conf")}}
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders", **arguments)
    site = {} if chosen == "nobody" else {"spark.jars": "/site.jar"}
    assert given_settings(operator, "") == site


def test_a_wrapper_whose_spark_nobody_can_tell_has_no_settings_of_the_worker(
    installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME")
    (installation / "conf").mkdir()
    (installation / "conf" / "spark-defaults.conf").write_text("spark.jars=/of.a.folder.jar")
    monkeypatch.chdir(installation)
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders", spark_binary="a-wrapper")
    assert given_settings(operator, "") == {}


@pytest.mark.parametrize("binary", [None, DEFAULT_SPARK_BINARY])
def test_the_script_that_pip_puts_beside_python_submits_with_the_bundled_spark(
    binary: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders", spark_binary=binary)
    home = bundled_spark_home()
    assert home is not None
    assert spark_release(operator) == SparkRelease.of_home(home)

"""``airflow lake warm-up`` through Airflow's own command line: where it ends before, or by, its driver."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.cli.lake_command import run_lake


@pytest.fixture(autouse=True)
def worker(lake_connection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that makes archives of classes, with the connection ``spark_default``."""
    set_spark(monkeypatch, host="local[1]")
    monkeypatch.setenv("AIRFLOW__LAKE__CLASS_ARCHIVE", str(tmp_path / "classes"))
    monkeypatch.setenv("AIRFLOW__LAKE__JOB_DIRECTORY", str(tmp_path / "jobs"))
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", "provided")
    # The scripts of this repository name an archive of their own there.
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)


def set_spark(monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", **fields}))


@pytest.mark.parametrize("option", ["--conn-id", "--spark-conn-id"])
def test_a_connection_that_is_missing_is_named_in_a_line(option: str) -> None:
    with pytest.raises(SystemExit, match=r"^InvalidConnectionError: .*onnection 'nowhere'.* does not exist"):
        run_lake("warm-up", option, "nowhere")


def test_connections_are_looked_for_in_airflows_own_database_as_well() -> None:
    with pytest.raises(SystemExit):
        run_lake("warm-up", "--conn-id", "nowhere")
    assert os.environ["_AIRFLOW_PROCESS_CONTEXT"] == "server"


def test_a_driver_in_the_cluster_would_use_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    set_spark(monkeypatch, host="yarn", extra={"deploy-mode": "cluster"})
    with pytest.raises(SystemExit, match="Drivers run in the cluster"):
        run_lake("warm-up")


@pytest.mark.parametrize(
    ("extra", "script", "words"),
    [
        ({}, "exit 3", r"The driver has failed: Cannot execute: .*Error code is: 3"),
        (
            {},
            r"printf '\033[2J JAVA_HOME is not set\n' >&2; exit 1",
            "The driver has failed: Java is missing or too old",
        ),
        ({"spark-home": "/opt/spark"}, "exit 0", r"The driver has failed: The `spark-home` extra is not allowed"),
    ],
)
def test_a_driver_that_fails_is_told_in_a_line_and_leaves_no_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extra: dict[str, str], script: str, words: str
) -> None:
    set_spark(monkeypatch, host="local[1]", extra=extra)
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    (tmp_path / "spark" / "jars").mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(SystemExit, match=words) as ended:
        run_lake("warm-up")
    assert str(ended.value.code).isprintable()
    assert list((tmp_path / "jobs").glob("attempt-*")) == []

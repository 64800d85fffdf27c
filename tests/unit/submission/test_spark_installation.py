"""A worker finds the Spark that it submits with, and refuses a mixture of two."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.submission import spark_installation
from airflow_lake_provider.submission.spark_installation import (
    bundled_spark_home,
    launch_environment,
    refuse_mixed_installation,
    spark_submit_binary,
)


def install(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        try:
            return versions[name.replace("-", "_")]
        except KeyError:
            raise PackageNotFoundError(name) from None

    monkeypatch.setattr(spark_installation, "version", version)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pyspark with a spark-submit, in front of whatever is installed."""
    (tmp_path / "pyspark" / "bin").mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").write_text("")
    (tmp_path / "pyspark" / "bin" / "spark-submit").write_text("")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "pyspark"


def test_two_versions_in_one_folder_are_refused_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, pyspark="4.1.3", pyspark_client="4.2.0")
    with pytest.raises(UnsupportedError, match=r"pyspark 4\.1\.3 and pyspark-client 4\.2\.0"):
        refuse_mixed_installation()


@pytest.mark.parametrize("versions", [{}, {"pyspark": "4.1.3"}, {"pyspark_client": "4.2.0"}])
def test_one_or_none_of_them_is_fine(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    install(monkeypatch, **versions)
    refuse_mixed_installation()


def test_this_environment_holds_one_version() -> None:
    refuse_mixed_installation()


def test_a_local_master_runs_its_workers_with_this_python(home: Path) -> None:
    wanted = {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_HOME": str(home)}
    assert launch_environment("local[2]", {}) == {**wanted, "PYSPARK_PYTHON": sys.executable}


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:443"])
def test_a_cluster_keeps_its_own_python(home: Path, master: str) -> None:
    assert "PYSPARK_PYTHON" not in launch_environment(master, {})


@pytest.mark.parametrize("name", ["PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON", "SPARK_HOME"])
def test_what_the_environment_says_wins(home: Path, name: str) -> None:
    assert name not in launch_environment("local", {name: "theirs"})
    assert len(launch_environment("local", {name: "theirs"})) == 2


def test_the_bundled_spark_submit_is_called_unless_spark_home_decides(home: Path) -> None:
    assert spark_submit_binary({}) == str(home / "bin" / "spark-submit")
    assert spark_submit_binary({"SPARK_HOME": "/opt/spark"}) is None


def test_the_client_alone_cannot_submit(home: Path) -> None:
    (home / "bin" / "spark-submit").unlink()
    assert bundled_spark_home() is None
    assert spark_submit_binary({}) is None
    assert "SPARK_HOME" not in launch_environment("local", {})

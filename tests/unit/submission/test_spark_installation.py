"""A worker finds the Spark that it submits with, and refuses a mixture of two."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.submission import spark_installation
from airflow_lake_provider.submission.spark_installation import (
    SparkRelease,
    bundled_spark_home,
    chosen_binary,
    launch_environment,
    refuse_mixed_installation,
    spark_home,
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
    assert launch_environment("local[2]", None, {}) == {**wanted, "PYSPARK_PYTHON": sys.executable}


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:443"])
def test_a_cluster_keeps_its_own_python(home: Path, master: str) -> None:
    assert "PYSPARK_PYTHON" not in launch_environment(master, None, {})


@pytest.mark.parametrize("name", ["PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON", "SPARK_HOME"])
def test_what_the_environment_says_wins(home: Path, name: str) -> None:
    assert name not in launch_environment("local", None, {name: "theirs"})
    assert len(launch_environment("local", None, {name: "theirs"})) == 2


def test_the_bundled_spark_submit_is_called_unless_spark_home_decides(home: Path) -> None:
    assert spark_submit_binary({}) == str(home / "bin" / "spark-submit")
    assert spark_submit_binary({"SPARK_HOME": "/opt/spark"}) is None


def test_the_client_alone_cannot_submit(home: Path) -> None:
    (home / "bin" / "spark-submit").unlink()
    assert bundled_spark_home() is None
    assert spark_submit_binary({}) is None
    assert "SPARK_HOME" not in launch_environment("local", None, {})


def installed_spark(folder: Path, *jars: str) -> Path:
    """Make a SPARK_HOME with some jars, and return its spark-submit."""
    for name in ("bin/spark-submit", *(f"jars/{jar}" for jar in jars)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch(0o755)
    return folder / "bin/spark-submit"


def test_a_spark_submit_of_another_spark_keeps_its_own_home(home: Path, tmp_path: Path) -> None:
    other = installed_spark(tmp_path / "spark-3.5")
    assert "SPARK_HOME" not in launch_environment("yarn", str(other), {})
    assert launch_environment("yarn", str(home / "bin/spark-submit"), {})["SPARK_HOME"] == str(home)


def test_the_home_of_a_spark_submit_is_found_through_links_and_on_the_path(tmp_path: Path) -> None:
    binary = installed_spark(tmp_path / "spark-3.5", "spark-core_2.12-3.5.9.jar")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/spark3-submit").symlink_to(binary)
    path = {"PATH": str(tmp_path / "bin")}
    assert spark_home("spark3-submit", path) == tmp_path / "spark-3.5"
    assert spark_home(str(binary), path) == tmp_path / "spark-3.5"
    # The script asks it first.
    assert spark_home("spark3-submit", {**path, "SPARK_HOME": "/opt/spark"}) == Path("/opt/spark")
    assert spark_home("spark2-submit", path) is None


def test_the_name_that_airflows_form_stores_is_a_choice_where_it_calls_another_spark(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = installed_spark(tmp_path / "spark-3.5", "spark-core_2.12-3.5.9.jar")
    wrapper = installed_spark(tmp_path / "wrapped")
    for_python = tmp_path / "venv" / "bin"
    for_python.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(for_python / "python"))
    # Where nobody chooses, spark_submit_binary or SPARK_HOME decides.
    assert chosen_binary("spark-submit", {"PATH": str(tmp_path / "empty")}) is None
    assert chosen_binary("spark-submit", {"PATH": str(other.parent)}) == "spark-submit"
    assert chosen_binary("spark-submit", {"PATH": str(wrapper.parent)}) == "spark-submit"
    assert chosen_binary("spark-submit", {"PATH": str(other.parent), "SPARK_HOME": "/opt/spark"}) is None
    # pip puts a copy of its script beside Python. A distribution may put a link to its own Spark there.
    (for_python / "spark-submit").touch(0o755)
    assert chosen_binary("spark-submit", {"PATH": str(for_python)}) is None
    # A virtual environment may be reached by another path than Python was started by.
    (tmp_path / "linked").symlink_to(for_python)
    assert chosen_binary("spark-submit", {"PATH": str(tmp_path / "linked")}) is None
    (for_python / "spark-submit").unlink()
    (for_python / "spark-submit").symlink_to(other)
    assert chosen_binary("spark-submit", {"PATH": str(for_python)}) == "spark-submit"
    (home / "bin" / "spark-submit").chmod(0o755)
    assert chosen_binary("spark-submit", {"PATH": str(home / "bin")}) is None


@pytest.mark.parametrize("binary", ["spark3-submit", "/opt/spark/bin/spark-submit"])
def test_any_other_name_is_a_choice_and_none_is_none(binary: str) -> None:
    assert chosen_binary(binary, {"PATH": ""}) == binary
    assert chosen_binary(None, {"PATH": ""}) is None
    assert chosen_binary("", {"PATH": ""}) is None


@pytest.mark.parametrize(
    ("jars", "expected"),
    [
        (["spark-core_2.12-3.5.9.jar", "spark-sql_2.12-3.5.9.jar"], ("3.5", "2.12")),
        (["spark-core_2.13-4.1.3.jar"], ("4.1", "2.13")),
        (["spark-core_2.12-3.5.4.7.2.18.0-641.jar"], ("3.5", "2.12")),
        (["spark-core_2.12-3.5.9.jar", "spark-core_2.13-4.1.3.jar"], None),
        (["spark-sql_2.12-3.5.9.jar"], None),
    ],
)
def test_the_jars_of_a_spark_tell_its_version_and_its_scala(
    tmp_path: Path, jars: list[str], expected: tuple[str, str] | None
) -> None:
    installed_spark(tmp_path, *jars)
    found = SparkRelease.of_home(tmp_path)
    assert (None if found is None else (found.spark, found.scala)) == expected


def test_the_bundled_spark_is_of_a_release_that_jobs_run_on() -> None:
    home = bundled_spark_home()
    assert home is not None
    assert SparkRelease.of_home(home) == SparkRelease(spark="4.1", scala="2.13")

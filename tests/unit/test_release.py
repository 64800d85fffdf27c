"""A release refuses wrong versions and files, and writes its notes; scripts/release itself builds and installs."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from airflow_lake_provider import __version__
from scripts import release
from scripts.fetch_charts import CHARTS, FILES, unpack
from scripts.matrix_airflow import is_pinned
from scripts.package_environment import PackageEnvironment, StepFailedError, find_pythons, requirements_of
from scripts.ten_lines import ten_lines

REPOSITORY = Path(__file__).parents[2]
PACKAGE = "airflow_lake_provider"
NEWEST = "# Changelog\n\nForm.\n\n## 0.2.0, 2026-12-01\n\n### Added\n\n- one\n\n## 0.1.0, 2026-11-01\n\n- old\n"


def test_the_notes_are_the_newest_section_alone() -> None:
    heading, text = release.notes(NEWEST, "0.2.0")
    assert heading == "0.2.0, 2026-12-01"
    assert text == "# airflow-lake-provider 0.2.0\n\n## Added\n\n- one\n"


@pytest.mark.parametrize("heading", ["0.2.0", "[0.2.0] - 2026-12-01", "0.2.0, unreleased"])
def test_a_section_is_found_by_its_version_however_it_is_dated(heading: str) -> None:
    assert release.notes(f"# Changelog\n\n## {heading}\n\n- one\n", "0.2.0")[0] == heading


@pytest.mark.parametrize(
    ("changelog", "version", "said"),
    [
        (NEWEST, "0.3.0", "__version__ is 0.3.0.*'0.2.0, 2026-12-01'"),
        (NEWEST, "0.1.0", "__version__ is 0.1.0.*'0.2.0, 2026-12-01'"),
        (NEWEST, "0.2", "__version__ is 0.2,"),
        ("# Changelog\n", "0.2.0", "'nothing'"),
        ("## 0.2.0\n\n## 0.1.0\n\n- old\n", "0.2.0", "'0.2.0' of CHANGELOG.md is empty"),
    ],
)
def test_a_version_that_the_changelog_does_not_begin_with_is_refused(changelog: str, version: str, said: str) -> None:
    with pytest.raises(StepFailedError, match=said):
        release.notes(changelog, version)


def test_the_changelog_of_this_repository_begins_with_its_version() -> None:
    _, text = release.notes((REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"), __version__)
    assert "LakeUpsertOperator" in text


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit of one file of the package."""
    (tmp_path / PACKAGE).mkdir()
    (tmp_path / PACKAGE / "__init__.py").write_text("")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Begin"]):
        name = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        subprocess.run(["git", "-C", str(tmp_path), *name, *command], check=True)
    return tmp_path


def test_a_tree_that_is_its_commit_is_accepted(repository: Path) -> None:
    release.refuse_changed_files(repository)
    assert release.package_files(repository) == {f"{PACKAGE}/__init__.py"}


@pytest.mark.parametrize("name", [f"{PACKAGE}/__init__.py", "new.py"])
def test_a_changed_or_a_new_file_is_refused_by_name(repository: Path, name: str) -> None:
    (repository / name).write_text("changed")
    with pytest.raises(StepFailedError, match=name):
        release.refuse_changed_files(repository)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"a.py"}, r"lacks \['py.typed'\]"),
        ({"a.py", "py.typed", "tests/b.py"}, r"should not have \['tests/b.py'\]"),
    ],
)
def test_a_distribution_with_other_files_is_refused_by_their_names(found: set[str], said: str) -> None:
    with pytest.raises(StepFailedError, match=said):
        release.refuse_other_files(found, {"a.py", "py.typed"}, "x.whl")


def wheel(folder: Path, *left_out: str) -> Path:
    """Write a wheel with the usual files."""
    file = folder / "x.whl"
    required = "Requires-Dist: rich>=13\nRequires-Dist: pyiceberg[sql-sqlite]; extra == 'sqlite'\n"
    required += "Requires-Dist: ruff; extra == 'dev'\nRequires-Dist: old; python_version < '3'\n"
    with zipfile.ZipFile(file, "w") as archive:
        for name in release.IN_THE_WHEEL - {*left_out}:
            archive.writestr(f"x-1.dist-info/{name}", f"Name: x\n{required}\n")
        archive.writestr(f"{PACKAGE}/a.py", "")
    return file


def test_a_wheel_without_its_license_is_refused(tmp_path: Path) -> None:
    assert release.wheel_files(wheel(tmp_path)) == {f"{PACKAGE}/a.py"}
    with pytest.raises(StepFailedError, match="LICENSE"):
        release.wheel_files(wheel(tmp_path, "licenses/LICENSE"))


@pytest.mark.parametrize("left_out", ["", "LICENSE"])
def test_an_sdist_is_read_without_its_folder_and_has_a_license(tmp_path: Path, left_out: str) -> None:
    sdist = tmp_path / "x.tar.gz"
    (tmp_path / "file").write_text("")
    with tarfile.open(sdist, "w:gz") as archive:
        for name in {*release.IN_THE_SDIST, f"{PACKAGE}/a.py", f"{PACKAGE}.egg-info/SOURCES.txt"} - {left_out}:
            archive.add(tmp_path / "file", f"x-1/{name}")
    if left_out:
        with pytest.raises(StepFailedError, match="LICENSE"):
            release.sdist_files(sdist)
    else:
        assert release.sdist_files(sdist) == {f"{PACKAGE}/a.py"}


def test_the_requirements_of_a_wheel_are_those_of_the_extras_asked_for(tmp_path: Path) -> None:
    assert requirements_of(wheel(tmp_path)) == ["rich>=13"]
    assert requirements_of(wheel(tmp_path), ["sqlite"]) == ["rich>=13", "pyiceberg[sql-sqlite]"]


def test_interpreters_are_found_by_running_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python3.11"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_pythons(["3.99"]) == {}
    assert broken not in find_pythons(["3.11"]).values()


def test_a_command_sees_no_constraints_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_CONSTRAINT", "PIP_CONSTRAINT", "PYTHONPATH", "AIRFLOW_HOME"):
        monkeypatch.setenv(name, "of-the-machine")
    environment = PackageEnvironment(tmp_path / "venv", tmp_path / "log")
    assert "of-the-machine" not in environment.run("env")
    with pytest.raises(StepFailedError, match="ended with 3"):
        environment.run("sh", "-c", "exit 3")


def test_the_readme_has_a_dag_of_ten_lines_whose_files_can_be_others() -> None:
    code = ten_lines("/in/*.jsonl")
    assert 'source="/in/*.jsonl"' in code
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    compile(code, "README.md", "exec")


@pytest.mark.parametrize(("version", "pinned"), [("3.3.2", True), ("3.2.2", False), ("3.4.0", False), ("3.1.*", False)])
def test_the_matrix_knows_what_setup_cfg_allows(version: str, pinned: bool) -> None:
    assert is_pinned(version) is pinned


def test_the_charts_are_in_a_wheel_though_they_are_in_no_commit(repository: Path, tmp_path: Path) -> None:
    folder = repository / CHARTS.relative_to(REPOSITORY)
    archive = tmp_path / "charts.jar"
    with zipfile.ZipFile(archive, "w") as made:
        for file in FILES:
            made.writestr(f"META-INF/resources/webjars/uplot/1/{file}", file)
    unpack(archive, folder)
    assert {Path(file).name for file in release.chart_files(repository)} == {Path(file).name for file in FILES}
    assert release.chart_files(repository) <= release.package_files(repository)


def test_an_archive_without_a_licence_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "charts.jar", "w") as made:
        made.writestr("x/dist/uPlot.min.css", "")
    with pytest.raises(SystemExit, match="has 0 files 'LICENSE'"):
        unpack(tmp_path / "charts.jar", tmp_path / "charts")

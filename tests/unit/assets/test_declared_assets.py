"""Two DAG files that declare one asset differently, as Airflow parses them."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

_DAG = """
from airflow.sdk import DAG
from airflow_lake_provider.assets.lake_table import lake_table_asset

with DAG({name!r}, schedule=[{assets}]):
    ...
"""


def write(folder: Path, name: str, *arguments: str) -> Path:
    assets = ", ".join(f'lake_table_asset("declared.orders", {given})' for given in arguments)
    path = folder / f"{name}.py"
    path.write_text(_DAG.format(name=name, assets=assets))
    return path


def errors_of(folder: Path) -> dict[str, str]:
    """Parse a folder in this process, as a test of DAG files does, and return the errors by file."""
    bag = DagBag(str(folder), safe_mode=False)
    return {Path(file).stem: error for file, error in bag.import_errors.items()}


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("watch=True", "watch=False", "watch="),
        ("watch=True, poll_interval=30", "watch=True, poll_interval=60", "poll_interval=60.0 or 30.0"),
        ("watch=True", "watch=True, min_added_rows=5", "min_added_rows=5 or 0"),
    ],
)
def test_files_that_declare_an_asset_differently_are_an_import_error_of_the_second(
    tmp_path: Path, one: str, other: str, said: str
) -> None:
    write(tmp_path, "first", one)
    write(tmp_path, "second", other)
    (error,) = errors_of(tmp_path).values()
    assert said in error
    assert "first.py" in error
    assert "second.py" in error
    assert "declare the asset once" in error


def test_one_file_that_declares_an_asset_twice_is_an_import_error_too(tmp_path: Path) -> None:
    write(tmp_path, "both", "watch=True", "watch=False")
    assert "watch=" in errors_of(tmp_path)["both"]


def test_files_that_agree_are_parsed(tmp_path: Path) -> None:
    write(tmp_path, "first", "watch=True, poll_interval=30")
    write(tmp_path, "second", "watch=True, poll_interval='PT30S'")
    assert errors_of(tmp_path) == {}


def test_a_file_may_change_between_two_parses(tmp_path: Path) -> None:
    write(tmp_path, "first", "watch=True")
    assert errors_of(tmp_path) == {}
    write(tmp_path, "first", "watch=False")
    write(tmp_path, "second", "watch=False")
    assert errors_of(tmp_path) == {}


def test_a_branch_and_another_name_are_other_assets(tmp_path: Path) -> None:
    write(tmp_path, "first", "watch=True", "watch=False, branch='audit'", "watch=False, name='orders'")
    assert errors_of(tmp_path) == {}

"""The staging folder of a killed YARN application: which one it is, and what is said when it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_lake_provider.hooks.lake_spark_submit import remove_staged_files, staging_folder

ID = "application_1764000000000_0001"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, f".sparkStaging/{ID}"),
        ({"spark.yarn.stagingDir": ""}, f".sparkStaging/{ID}"),
        ({"spark.yarn.stagingDir": "hdfs://nn:8020/tmp/"}, f"hdfs://nn:8020/tmp/.sparkStaging/{ID}"),
    ],
)
def test_the_folder_is_below_the_staging_folder_or_the_users_home(settings: dict[str, object], expected: str) -> None:
    assert staging_folder(ID, settings) == expected


@pytest.mark.parametrize("application", ["", "..", "*", f"{ID}/..", "application_1_x", f" {ID}"])
def test_what_is_no_id_of_an_application_names_no_folder(application: str) -> None:
    with pytest.raises(ValueError, match="no id of a YARN application"):
        staging_folder(application, {})


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 0", None),
        ("echo a warning >&2", None),
        ("echo rm: no such host >&2; exit 1", "rm: no such host"),
    ],
)
def test_the_shells_answer_is_told(tmp_path: Path, script: str, expected: str | None) -> None:
    shell = tmp_path / "spark-class"
    shell.write_text(f"#!/bin/sh\n{script}\n")
    shell.chmod(0o700)
    assert remove_staged_files(f".sparkStaging/{ID}", str(tmp_path / "spark-submit"), {}) == expected


def test_a_worker_without_spark_class_says_so(tmp_path: Path) -> None:
    said = remove_staged_files(f".sparkStaging/{ID}", str(tmp_path / "spark-submit"), {})
    assert "spark-class" in str(said)

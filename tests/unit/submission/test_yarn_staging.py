"""The staging folder of a killed YARN application: which one it is, and what is said when it stays."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.submission.yarn_staging import (
    folder_in_line,
    is_of_application,
    remove_staged_files,
    staging_folder,
)

ID = "application_1764000000000_0001"


STAGE = {"spark.yarn.stagingDir": "hdfs://nn:8020/tmp/"}


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        ({}, {}, f".sparkStaging/{ID}"),
        ({"spark.yarn.stagingDir": ""}, {}, f".sparkStaging/{ID}"),
        (STAGE, {}, f"hdfs://nn:8020/tmp/worker/.sparkStaging/{ID}"),
        (STAGE, {"principal": "etl/host@REALM"}, f"hdfs://nn:8020/tmp/etl/.sparkStaging/{ID}"),
        (STAGE, {"principal": "etl@REALM", "proxy_user": "alice"}, f"hdfs://nn:8020/tmp/alice/.sparkStaging/{ID}"),
        (STAGE, {"environment": {"HADOOP_USER_NAME": "other"}}, f"hdfs://nn:8020/tmp/other/.sparkStaging/{ID}"),
        ({}, {"principal": "etl/host@REALM"}, f"/user/etl/.sparkStaging/{ID}"),
        ({}, {"proxy_user": "alice"}, f".sparkStaging/{ID}"),
    ],
)
def test_the_folder_is_that_of_the_user_whom_spark_submits_as(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], given: dict[str, Any], expected: str
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "worker")
    assert staging_folder(ID, settings, **given) == expected


def test_without_a_name_of_hadoops_the_user_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert staging_folder(ID, STAGE) == f"hdfs://nn:8020/tmp/{me}/.sparkStaging/{ID}"


CONF = "INFO Client: Uploading resource file:/tmp/spark-1/__spark_conf__1.zip -> "


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{CONF}hdfs://nn:8020/user/a b/.sparkStaging/{ID}/__spark_conf__.zip\n", "hdfs://nn:8020/user/a b"),
        (f'{{"level":"INFO","msg":"{CONF}s3a://b/t/.sparkStaging/{ID}/c.zip","context":{{}}}}', "s3a://b/t"),
        (f"{CONF}file:/home/a/.sparkStaging/{ID}/c.zip", "file:/home/a"),
        (f"{CONF}/.sparkStaging/{ID}/c.zip", None),
        (f"{CONF}hdfs://nn:8020/shared/c.zip", None),
        (f"INFO Client: Source hdfs://nn/user/a/.sparkStaging/{ID}/c.zip", None),
    ],
)
def test_spark_itself_says_where_it_puts_the_files(line: str, expected: str | None) -> None:
    folder = None if expected is None else f"{expected}/.sparkStaging/{ID}"
    assert folder_in_line(line) == folder


@pytest.mark.parametrize(
    ("folder", "belongs"),
    [
        (f"hdfs://nn/user/a/.sparkStaging/{ID}", True),
        (f"hdfs://nn/user/a/.sparkStaging/{ID}7", False),
        (f"hdfs://nn/user/a/{ID}", False),
        ("", False),
    ],
)
def test_only_a_folder_of_the_application_is_removed_for_it(folder: str, belongs: bool) -> None:
    assert is_of_application(folder, ID) is belongs


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
    assert remove_staged_files(f".sparkStaging/{ID}", str(tmp_path / "spark-submit"), {}, is_certain=False) == expected


def test_a_worker_without_spark_class_says_so(tmp_path: Path) -> None:
    said = remove_staged_files(f".sparkStaging/{ID}", str(tmp_path / "spark-submit"), {}, is_certain=True)
    assert "spark-class" in str(said)

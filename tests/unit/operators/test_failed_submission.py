"""Files of a submission that fails while they are written; their disk and the author's file are real."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.submission.job_files import job_archive
from tests.unit.operators.submitted import opened, run_in_spark

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context

LOCAL = SparkTarget(master="local[2]", cluster_mode=False)

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory")


@pytest.fixture(autouse=True)
def secret_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connection ``lake_default`` with a secret."""
    extra = {"type": "sql", "warehouse": "/lake/wh"}
    fields = {"host": "postgresql://db/lake", "login": "airflow", "password": "hunter2"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "iceberg", **fields, "extra": extra}))


def compaction(properties_file: Path | str | None = None) -> LakeCompactionOperator:
    given = None if properties_file is None else str(properties_file)
    return LakeCompactionOperator(task_id="c", table="shop.orders", properties_file=given)


def test_a_submission_whose_archive_cannot_be_written_leaves_neither_secrets_nor_a_part_of_it(
    context: Context, job_directory: Path
) -> None:
    job_directory.mkdir(mode=0o700)
    archive = job_archive(job_directory)
    archive.unlink()
    # As a full disk does, it fails after the settings were written.
    archive.mkdir()
    with pytest.raises(IsADirectoryError):
        opened(compaction(), context, LOCAL)
    assert list(job_directory.iterdir()) == [archive]


@pytest.mark.parametrize("content", [None, b"spark.app.name=\xfc"])
def test_a_properties_file_that_cannot_be_read_is_refused_by_its_name_and_leaves_no_files(
    context: Context, job_directory: Path, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "mine.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidSpecError, match=r"properties_file='.*mine\.properties' cannot be read .* as UTF-8"):
        run_in_spark(compaction(file), context)
    assert list(job_directory.glob("attempt-*")) == []

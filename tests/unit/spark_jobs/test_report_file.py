"""A report on a shared file system: whole or not there, and no link that another user left is followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.spark_jobs.run_job import write_report


@pytest.mark.parametrize("name", ["report.json", "report.json.unfinished"])
def test_a_link_under_a_guessed_name_is_not_written_through(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    no_session: Any = None
    write_report(no_session, str(tmp_path / "report.json"), "{}")
    assert (tmp_path / "report.json").read_text() == "{}"
    assert not (tmp_path / "report.json").is_symlink()
    assert victim.read_text() == "precious"

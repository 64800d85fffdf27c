"""The file of Spark's own lines: whose it is, how large it grows, and a disk that takes nothing."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_lake_provider.submission import spark_log
from airflow_lake_provider.submission.spark_log import SparkLog


def opened(folder: Path, label: str = "shop.orders.1", keep_days: int = 14) -> SparkLog:
    return SparkLog.open(folder, label, lambda text: text.replace("geheim", "***"), keep_days)


def path_of(log: SparkLog) -> Path:
    assert log.path is not None
    return log.path


def test_lines_are_there_at_once_without_secrets_and_for_their_owner_alone(tmp_path: Path) -> None:
    log = opened(tmp_path / "spark")
    assert log.write("26/11/26 WARN x: password geheim\n")
    path = path_of(log)
    assert path.read_text() == "26/11/26 WARN x: password ***\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, tmp_path / "spark")] == [0o700, 0o700]
    log.close()
    assert path.exists()


def test_two_tries_of_one_name_have_two_files(tmp_path: Path) -> None:
    assert path_of(opened(tmp_path)) != path_of(opened(tmp_path))


@pytest.mark.parametrize("label", ["../../etc/passwd", "a/b", "ä\n\0", "x" * 4000, "", "..", "a b;c"])
def test_no_name_of_a_task_leads_out_of_the_folder(tmp_path: Path, label: str) -> None:
    path = path_of(opened(tmp_path, label))
    assert path.parent.parent == tmp_path
    assert len(os.fsencode(path.name)) <= 255


def test_a_file_does_not_grow_without_end_and_keeps_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_log, "MOST_BYTES", 1000)
    log = opened(tmp_path)
    for number in range(1000):
        assert log.write(f"line {number}\n")
    files = list(path_of(log).parent.iterdir())
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) < 2100
    assert log.last_lines(1) == ["line 999"]


def test_days_that_are_over_are_removed_and_nothing_else(tmp_path: Path) -> None:
    today = datetime.now(UTC).date()
    for days in (0, 13, 15, 400):
        (tmp_path / (today - timedelta(days=days)).isoformat()).mkdir(mode=0o700)
    (tmp_path / "2020-01-01.kept").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "2020-01-02").symlink_to(tmp_path / "outside")
    opened(tmp_path)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {
        *(str(today - timedelta(days=days)) for days in (0, 13)),
        *("2020-01-01.kept", "outside", "2020-01-02"),
    }


def test_nothing_is_removed_where_the_setting_says_0(tmp_path: Path) -> None:
    (tmp_path / "2020-01-01").mkdir(mode=0o700)
    opened(tmp_path, keep_days=0)
    assert (tmp_path / "2020-01-01").exists()


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark").chmod(0o777)
    with pytest.raises(ValueError, match="other users may write to it"):
        opened(tmp_path / "spark")


def test_a_full_disk_takes_no_line_and_raises_nothing() -> None:
    log = SparkLog()
    log.path = Path("/dev/full")
    log._file = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115  closed by the log
    assert not log.write("a line\n")
    assert "No space left" in log.trouble
    assert not log.write("another line\n")


def test_without_a_path_it_takes_no_line() -> None:
    log = SparkLog()
    assert not log.write("a line\n")
    assert log.trouble == ""
    assert log.last_lines(10) == []

"""The files of an attempt: private, and gone when their owner is."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.submission import job_files
from airflow_lake_provider.submission.job_files import JobFiles, sweep
from airflow_lake_provider.submission.private_folder import write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def dead() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-Ic", ""])
    ended.wait()
    return ended.pid


def attempt(base: Path, owner: int | str, age: float = 0) -> JobFiles:
    files = JobFiles(base / f"attempt-{owner}-{age:.0f}")
    files.folder.mkdir(parents=True)
    (files.folder / "owner.pid").write_text(str(owner))
    files.write_spec("{}")
    files.write_settings({"password": "hunter2"})
    os.utime(files.folder, (time.time() - age, time.time() - age))
    return files


def test_only_this_user_may_read_what_an_attempt_lays_out(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        files = JobFiles.open(tmp_path / "jobs", "label")
        files.write_spec('{"a":1}')
        files.write_settings({"a": "b"})
    finally:
        os.umask(old)
    assert (mode(tmp_path / "jobs"), mode(files.folder)) == (0o700, 0o700)
    assert (mode(files.spec), mode(files.settings)) == (0o600, 0o600)
    assert files.spec.read_text() == '{"a":1}'
    assert (files.folder / "owner.pid").read_text().split()[0] == str(os.getpid())


def test_two_attempts_of_one_task_share_nothing(tmp_path: Path) -> None:
    first, second = (JobFiles.open(tmp_path, "same") for _ in range(2))
    assert first.folder != second.folder
    first.close()
    assert not first.folder.exists()
    assert second.folder.exists()
    first.close()


def test_a_sweep_takes_the_secrets_of_the_dead_and_leaves_their_spec_for_a_day(tmp_path: Path, dead: int) -> None:
    young, old = attempt(tmp_path, dead, age=23 * 3600), attempt(tmp_path, dead, age=25 * 3600)
    sweep(tmp_path)
    assert not young.settings.exists()
    assert young.spec.exists()
    assert not old.folder.exists()


def test_a_sweep_leaves_the_living_alone_however_old(tmp_path: Path) -> None:
    mine = attempt(tmp_path, os.getpid(), age=90 * 24 * 3600)
    roots = attempt(tmp_path, 1, age=90 * 24 * 3600)
    sweep(tmp_path)
    assert mine.settings.exists()
    assert roots.settings.exists()


def test_a_sweep_leaves_what_is_being_made_and_takes_what_stayed_broken(tmp_path: Path) -> None:
    being_made, broken = attempt(tmp_path, "", age=5), attempt(tmp_path, "", age=120)
    sweep(tmp_path)
    assert being_made.settings.exists()
    assert not broken.settings.exists()


def test_a_sweep_leaves_other_files_of_the_folder_alone(tmp_path: Path) -> None:
    archive = tmp_path / "airflow_lake_provider-0123.zip"
    archive.write_bytes(b"")
    os.utime(archive, (0, 0))
    sweep(tmp_path)
    assert archive.exists()


def test_a_sweep_takes_archives_that_a_killed_task_left_unfinished_a_day_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, content: bytes) -> None:
        write_private(path, content[:100])
        # Nothing of the process is left to remove it.
        monkeypatch.setattr(Path, "unlink", lambda *_args, **_options: None)
        raise KeyboardInterrupt

    monkeypatch.setattr(job_files, "write_private", killed)
    with pytest.raises(KeyboardInterrupt):
        job_files.job_archive(tmp_path)
    monkeypatch.undo()
    (left,) = tmp_path.iterdir()
    foreign = tmp_path / "notes.unfinished"
    foreign.write_bytes(b"")
    for hours, is_kept in ((23, True), (25, False)):
        for each in (left, foreign):
            if each.exists():
                os.utime(each, (time.time() - hours * 3600,) * 2)
        sweep(tmp_path)
        assert (left.exists(), foreign.exists()) == (is_kept, True)


def test_two_sweeps_at_once_do_not_fail_each_other(tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt(tmp_path, dead, age=25 * 3600)
    lives = job_files._owner_lives

    def other_sweep_wins(folder: Path) -> bool:
        alive = lives(folder)
        shutil.rmtree(folder)
        return alive

    monkeypatch.setattr(job_files, "_owner_lives", other_sweep_wins)
    sweep(tmp_path)


def test_opening_an_attempt_sweeps_first(tmp_path: Path, dead: int) -> None:
    left = attempt(tmp_path, dead)
    JobFiles.open(tmp_path, "next")
    assert not left.settings.exists()


def test_a_job_directory_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(InvalidSpecError, match="job_directory"):
        JobFiles.open(shared, "label")

"""Attempts that killed tasks left: a sweep removes what is its own, and follows nothing that was planted there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_lake_provider.submission.job_files import JobFiles, sweep
from tests.unit.submission.planted_folders import give_away, made

HERE = os.uname().nodename
OWNERS = ["0", "-1", "-0", "1 000", "9" * 50, str(2**31), str(2**64), "²", "٣", "pid", "\x00", "1e3", "+1", "0x1", " "]


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("host", ["", f" {HERE}", " another.host"])
def test_a_nonsense_owner_keeps_its_secrets_for_a_day_and_no_signal_is_sent(
    tmp_path: Path, owner: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, signal: sent.append(pid))
    files = JobFiles.open(tmp_path / "jobs", "label")
    files.write_settings({"password": "hunter2"})
    (files.folder / "owner.pid").write_text(owner + host)
    for age, is_kept in ((3_600, True), (25 * 3_600, False)):
        os.utime(files.folder, (time.time() - age,) * 2)
        sweep(tmp_path / "jobs")
        assert files.settings.exists() is is_kept
    assert all(0 < pid < 10**9 for pid in sent)


def owner_pipe(owner: Path) -> None:
    owner.unlink()
    os.mkfifo(owner, 0o600)


def owner_folder(owner: Path) -> None:
    owner.unlink()
    owner.mkdir()


def owner_link(owner: Path) -> None:
    owner.unlink()
    owner.symlink_to("/dev/zero")


def owner_bytes(owner: Path) -> None:
    owner.write_bytes(b"\xff\xfe\x00")


@pytest.mark.parametrize("plant", [owner_pipe, owner_folder, owner_link, owner_bytes])
def test_an_owner_file_of_another_kind_neither_hangs_nor_fails_a_sweep(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    files = JobFiles.open(tmp_path / "jobs", "label")
    files.write_settings({"password": "hunter2"})
    plant(files.folder / "owner.pid")
    task = threading.Thread(target=sweep, args=(tmp_path / "jobs",), daemon=True)
    task.start()
    task.join(10)
    assert not task.is_alive()
    assert files.settings.exists()


@pytest.mark.parametrize("name", ["attempt-evil", "attempt-a-0123abcd"])
@pytest.mark.parametrize("kind", ["link", "dangling", "file", "pipe", "foreign"])
def test_a_sweep_goes_through_no_link_and_touches_nothing_but_folders_of_this_user(
    tmp_path: Path, name: str, kind: str
) -> None:
    jobs, victim = made(tmp_path / "jobs", 0o700), made(tmp_path / "victim", 0o700)
    (victim / "spark.properties").write_text("precious")
    planted = jobs / name
    match kind:
        case "link":
            planted.symlink_to(victim)
        case "dangling":
            planted.symlink_to(tmp_path / "nowhere")
        case "file":
            planted.write_text("")
        case "pipe":
            os.mkfifo(planted)
        case "foreign":
            (made(planted, 0o755) / "spark.properties").write_text("")
            give_away(planted)
    os.utime(victim, (0, 0))
    os.utime(planted, (0, 0), follow_symlinks=False)
    sweep(jobs)
    assert (victim / "spark.properties").read_text() == "precious"
    assert planted.exists() or planted.is_symlink()


def test_a_folder_in_place_of_old_secrets_does_not_fail_the_next_task(tmp_path: Path) -> None:
    left = made(made(tmp_path / "jobs", 0o700) / "attempt-a-1", 0o700)
    (left / "spark.properties").mkdir()
    os.utime(left, (time.time() - 3_600,) * 2)
    assert JobFiles.open(tmp_path / "jobs", "label").folder.exists()


LABELS = [
    "../../x",
    "/etc/passwd",
    "a/b",
    "..",
    ".",
    "",
    "x" * 500,
    "ü" * 300,
    "dag id\nrun",
    "a\x00b",
    "-rf *",
    "\ud800",
]


@pytest.mark.parametrize("label", LABELS)
def test_any_label_gives_one_folder_of_a_plain_name_in_the_job_directory(tmp_path: Path, label: str) -> None:
    folder = JobFiles.open(tmp_path / "jobs", label).folder
    assert folder.parent == tmp_path / "jobs"
    assert len(folder.name) < 100
    assert folder.name.isascii()
    assert set(folder.name) & set("/\\\n\x00 *") == set()

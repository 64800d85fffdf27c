"""Folders of code and secrets: another user can neither fill them, nor swap them, nor leave something in them."""

from __future__ import annotations

import os
import stat
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.submission.class_archive import ClassArchive, archive_folder
from airflow_lake_provider.submission.job_files import JobFiles, job_archive
from tests.unit.submission.planted_folders import NOBODY, give_away, made

Way = Callable[[Path], Path]


def job_files(folder: Path) -> Path:
    return JobFiles.open(folder, "label").folder.parent


def classes(folder: Path) -> Path:
    found = archive_folder(str(folder))
    assert found is not None
    return found


def of_mode(mode: int) -> Way:
    return lambda base: made(base / "jobs", mode)


def below(mode: int) -> Way:
    return lambda base: made(base / "parent", mode) / "jobs"


def far_below(mode: int) -> Way:
    return lambda base: made(base / "parent", mode) / "a" / "b" / "jobs"


def there_below(mode: int) -> Way:
    return lambda base: made(made(base / "parent", mode) / "jobs", 0o700)


def of_another(base: Path) -> Path:
    folder = made(base / "jobs", 0o700)
    give_away(folder)
    return folder


def of_the_group_of_another(base: Path) -> Path:
    folder = made(base / "jobs", 0o770)
    if os.getuid() == 0:
        os.chown(folder, 0, NOBODY)
    return folder


def below_another(base: Path) -> Path:
    give_away(made(base / "parent", 0o755))
    return base / "parent" / "jobs"


def below_the_group_of_another(base: Path) -> Path:
    parent = made(base / "parent", 0o775)
    if os.getuid() == 0:
        os.chown(parent, 0, NOBODY)
    return parent / "jobs"


def link_of_another(base: Path) -> Path:
    (base / "jobs").symlink_to(made(base / "real", 0o700))
    give_away(base / "jobs")
    return base / "jobs"


def below_a_link_of_another(base: Path) -> Path:
    return link_of_another(base) / "deeper"


def link_to_a_shared_folder(base: Path) -> Path:
    (base / "jobs").symlink_to(made(base / "real", 0o777))
    return base / "jobs"


def link_through_a_shared_folder(base: Path) -> Path:
    (base / "jobs").symlink_to(made(made(base / "parent", 0o777) / "real", 0o700))
    return base / "jobs"


def of_another_in_a_sticky_folder(base: Path) -> Path:
    made(base / "parent", 0o1777)
    folder = made(base / "parent" / "jobs", 0o777)
    give_away(folder)
    return folder


def back_over_a_shared_folder(base: Path) -> Path:
    made(base / "real", 0o700)
    return made(base / "parent", 0o777) / ".." / "parent" / "jobs"


def file_of_the_name(base: Path) -> Path:
    (base / "jobs").write_text("")
    return base / "jobs"


def pipe_of_the_name(base: Path) -> Path:
    os.mkfifo(base / "jobs", 0o600)
    return base / "jobs"


def below_a_file(base: Path) -> Path:
    return file_of_the_name(base) / "deeper"


def circle_of_links(base: Path) -> Path:
    (base / "jobs").symlink_to(base / "other")
    (base / "other").symlink_to(base / "jobs")
    return base / "jobs"


REFUSED: dict[str, Way] = {
    "writable by its group": of_mode(0o770),
    "writable by a group of another": of_the_group_of_another,
    "writable by everybody": of_mode(0o777),
    "writable by everybody but its group": of_mode(0o707),
    "sticky": of_mode(0o1777),
    "sticky for its group": of_mode(0o1770),
    "with the group's sign": of_mode(0o2770),
    "of another user": of_another,
    "of another user in a sticky folder": of_another_in_a_sticky_folder,
    "missing below one that everybody writes to": below(0o777),
    "missing below one that a group writes to": below_the_group_of_another,
    "far below one that everybody writes to": far_below(0o777),
    "there below one that everybody writes to": there_below(0o777),
    "below one of another user": below_another,
    "link of another user": link_of_another,
    "below a link of another user": below_a_link_of_another,
    "link to one that everybody writes to": link_to_a_shared_folder,
    "link through one that everybody writes to": link_through_a_shared_folder,
    "back over one that everybody writes to": back_over_a_shared_folder,
    "a file": file_of_the_name,
    "a pipe": pipe_of_the_name,
    "below a file": below_a_file,
    "links in a circle": circle_of_links,
}


@pytest.mark.parametrize("folder_of", [job_files, classes])
@pytest.mark.parametrize("way", REFUSED.values(), ids=list(REFUSED))
def test_a_folder_that_another_user_could_fill_or_swap_is_refused(tmp_path: Path, way: Way, folder_of: Way) -> None:
    folder = way(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidSpecError if folder_of is job_files else (ValueError, OSError)):
        folder_of(folder)
    assert sorted(tmp_path.rglob("*")) == before


def link_of_ours(base: Path) -> Path:
    (base / "jobs").symlink_to(made(base / "real", 0o700))
    return base / "jobs"


def relative_link_of_ours(base: Path) -> Path:
    made(base / "real", 0o700)
    (base / "jobs").symlink_to("real/deeper/../deeper")
    return base / "jobs"


def link_above(base: Path) -> Path:
    return link_of_ours(base) / "deeper"


ACCEPTED: dict[str, tuple[Way, str]] = {
    "missing": (lambda base: base / "jobs", "jobs"),
    "far away": (lambda base: base / "a" / "b" / "jobs", "a/b/jobs"),
    "private": (of_mode(0o700), "jobs"),
    "read by others": (of_mode(0o755), "jobs"),
    "below a sticky one": (below(0o1777), "parent/jobs"),
    "there below a sticky one": (there_below(0o1777), "parent/jobs"),
    "link of ours": (link_of_ours, "real"),
    "relative link of ours": (relative_link_of_ours, "real/deeper"),
    "below a link of ours": (link_above, "real/deeper"),
    "with two dots": (lambda base: base / "a" / ".." / "jobs", "jobs"),
}


@pytest.mark.parametrize("folder_of", [job_files, classes])
@pytest.mark.parametrize(("way", "real"), ACCEPTED.values(), ids=list(ACCEPTED))
@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_a_folder_of_this_user_alone_is_taken_by_its_path_without_links(
    tmp_path: Path, way: Way, real: str, folder_of: Way, mask: int
) -> None:
    folder, there = way(tmp_path), set(tmp_path.rglob("*"))
    old = os.umask(mask)
    try:
        assert folder_of(folder) == (tmp_path / real).resolve()
    finally:
        os.umask(old)
    new = set(tmp_path.rglob("*")) - there
    assert {stat.S_IMODE(path.stat().st_mode) for path in new} <= {0o700, 0o600}


@pytest.mark.parametrize("uid", [1000, 0])
def test_group_0_is_a_group_of_others_for_root_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    parent = made(tmp_path / "home", 0o770)
    if parent.stat().st_gid != 0 or os.getuid() != 0:
        pytest.skip("only root makes a folder of group 0")
    os.chown(tmp_path, uid, 0)
    os.chown(parent, uid, 0)
    child = made(parent / "jobs", 0o700)
    os.chown(child, uid, 0)
    monkeypatch.setattr(os, "getuid", lambda: uid)
    try:
        if uid:
            assert classes(child) == child
        else:
            with pytest.raises(ValueError, match="chmod go-w"):
                classes(child)
    finally:
        os.chown(tmp_path, 0, 0)


def text_of_a_stranger(archive: Path) -> None:
    archive.write_text("a stranger's code")


def zip_of_a_stranger(archive: Path) -> None:
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("airflow_lake_provider/__init__.py", "a stranger's code")


def one_byte_more(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes() + b"\n")


def cut_off(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-1])


def same_bytes_that_others_may_change(archive: Path) -> None:
    archive.chmod(0o666)


def same_bytes_of_another(archive: Path) -> None:
    give_away(archive)


def link_to_the_same_bytes(archive: Path) -> None:
    archive.rename(archive.parent / "elsewhere")
    archive.symlink_to("elsewhere")


def link_to_a_victim(archive: Path) -> None:
    archive.unlink()
    archive.symlink_to(archive.parent / "victim")


def pipe(archive: Path) -> None:
    archive.unlink()
    os.mkfifo(archive, 0o600)


PLANTED = [
    text_of_a_stranger,
    zip_of_a_stranger,
    one_byte_more,
    cut_off,
    same_bytes_that_others_may_change,
    same_bytes_of_another,
    link_to_the_same_bytes,
    link_to_a_victim,
    pipe,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_what_lies_under_the_archives_name_is_replaced_by_the_packages_own_code(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    archive = job_archive(tmp_path)
    own = archive.read_bytes()
    plant(archive)
    # A pipe that is opened would wait for ever.
    task = threading.Thread(target=job_archive, args=(tmp_path,), daemon=True)
    task.start()
    task.join(10)
    assert not task.is_alive()
    status = archive.lstat()
    assert stat.S_ISREG(status.st_mode)
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o600, os.getuid())
    assert archive.read_bytes() == own
    assert victim.read_text() == "precious"


def test_a_folder_under_the_archives_name_is_an_error_and_not_code(tmp_path: Path) -> None:
    archive = job_archive(tmp_path)
    archive.unlink()
    archive.mkdir()
    with pytest.raises(OSError, match=archive.name):
        job_archive(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_strange_turn_of_the_class_archive_neither_hangs_nor_leads_elsewhere(tmp_path: Path, kind: str) -> None:
    folder, victim = classes(tmp_path / "classes"), tmp_path / "victim"
    victim.write_text("precious")
    archive = ClassArchive(folder=folder, digest="0" * 16)
    turn = folder / f"spark-classes-{archive.digest}.turn"
    if kind == "pipe":
        os.mkfifo(turn, 0o600)
    elif kind == "link":
        turn.symlink_to(victim)
    else:
        turn.mkdir()
    task = threading.Thread(target=archive.release, args=("a",), daemon=True)
    task.start()
    task.join(10)
    assert not task.is_alive()
    assert archive.options("a") == ""
    assert victim.read_text() == "precious"

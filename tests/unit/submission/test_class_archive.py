from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_lake_provider.submission.class_archive import ClassArchive, archive_folder, driver_java, has_own_archive


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = archive_folder(str(tmp_path / "archives"))
    assert found is not None
    return found


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A Spark of one jar, and a folder of settings."""
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark.jar").write_bytes(b"one")
    return home


@pytest.fixture
def java(tmp_path: Path) -> Path:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    return java


def made(archive: ClassArchive, attempt: str, content: bytes = b"classes") -> None:
    """Do what a driver and its worker do."""
    assert f"-XX:ArchiveClassesAtExit={archive.folder}/" in archive.options(attempt)
    path = archive.options("x").partition("=")[2]
    assert path == "", "a second driver was told to make the archive as well"
    (archive.folder / f"spark-classes-{archive.digest}.{attempt}.new").write_bytes(content)
    archive.accept(attempt, is_whole=True)
    archive.release(attempt)


def test_the_first_driver_makes_the_archive_and_later_ones_use_it(folder: Path, java: Path, spark_home: Path) -> None:
    archive = ClassArchive.of(folder, java, spark_home, [], {})
    assert archive.file is None
    made(archive, "a")
    assert archive.file is not None
    assert archive.file.read_bytes() == b"classes"
    assert f"-XX:SharedArchiveFile={archive.file} -Xshare:auto" in archive.options("b")
    assert [path.name for path in folder.iterdir()] == [archive.file.name]


def test_a_driver_that_failed_or_was_killed_leaves_its_turn_to_the_next(
    folder: Path, java: Path, spark_home: Path
) -> None:
    archive = ClassArchive.of(folder, java, spark_home, [], {})
    assert archive.options("a")
    unfinished = folder / f"spark-classes-{archive.digest}.a.new"
    unfinished.write_bytes(b"half")
    archive.release("b")
    assert archive.options("b") == ""
    archive.release("a")
    assert not unfinished.exists()
    assert "ArchiveClassesAtExit" in archive.options("b")
    # The worker of the second died as well, without a word.
    turn = folder / f"spark-classes-{archive.digest}.turn"
    os.utime(turn, (time.time() - 7_200,) * 2)
    archive.accept("a", is_whole=True)
    assert archive.file is None
    assert "ArchiveClassesAtExit" in archive.options("c")


def test_what_killed_attempts_leave_is_removed_when_nobody_can_still_be_at_it(
    folder: Path, java: Path, spark_home: Path
) -> None:
    archive, other = (replace(ClassArchive.of(folder, java, spark_home, [], {}), digest=name) for name in "ab")
    for killed in (archive, other):
        assert killed.options("killed")
        (folder / f"spark-classes-{killed.digest}.killed.new").write_bytes(b"half")
    left = sorted(folder.iterdir())
    assert archive.options("b") == ""
    assert sorted(folder.iterdir()) == left, "their drivers may still run"
    for path in left:
        os.utime(path, (time.time() - 7_200,) * 2)
    made(archive, "c")
    assert [path.name for path in folder.iterdir()] == ["spark-classes-a-7.jsa"]


def test_a_java_that_makes_no_archive_is_asked_once(folder: Path, java: Path, spark_home: Path) -> None:
    archive = ClassArchive.of(folder, java, spark_home, [], {})
    archive.options("a")
    archive.accept("a", is_whole=True)
    archive.release("a")
    assert (archive.file, archive.options("b")) == (None, "")
    (spark_home / "jars" / "spark.jar").write_bytes(b"another")
    assert ClassArchive.of(folder, java, spark_home, [], {}).options("b")


def test_an_archive_of_a_jvm_that_ended_badly_is_not_kept(folder: Path, java: Path, spark_home: Path) -> None:
    archive = ClassArchive.of(folder, java, spark_home, [], {})
    archive.options("a")
    (folder / f"spark-classes-{archive.digest}.a.new").write_bytes(b"half")
    archive.accept("a", is_whole=False)
    assert (archive.file, archive.options("b")) == (None, "")


@pytest.mark.parametrize("change", ["cut", "foreign", "link"])
def test_an_archive_that_is_not_whole_or_not_ours_alone_is_not_used(
    folder: Path, java: Path, spark_home: Path, tmp_path: Path, change: str
) -> None:
    archive = ClassArchive.of(folder, java, spark_home, [], {})
    made(archive, "a")
    file = archive.file
    assert file is not None
    if change == "cut":
        file.write_bytes(b"class")
    elif change == "foreign":
        file.chmod(0o666)
    else:
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    assert (archive.file, archive.options("b")) == (None, "")


def test_each_java_spark_jar_and_option_has_an_archive_of_its_own(folder: Path, java: Path, spark_home: Path) -> None:
    jar = spark_home / "iceberg.jar"
    jar.write_bytes(b"iceberg")
    other = java.parents[2] / "jdk-21" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\n")
    options = {"SPARK_SUBMIT_OPTS": "-XX:+UseZGC"}
    cases = [(java, [], {}), (other, [], {}), (java, [jar], {}), (java, [], options)]
    digests = [ClassArchive.of(folder, of, spark_home, jars, given).digest for of, jars, given in cases]
    jar.write_bytes(b"another iceberg")
    digests.append(ClassArchive.of(folder, java, spark_home, [jar], {}).digest)
    assert len(set(digests)) == 5
    assert ClassArchive.of(folder, java, spark_home, [], {}).digest == digests[0]


def test_sparks_jars_come_before_its_settings_and_before_ours(folder: Path, java: Path, spark_home: Path) -> None:
    assert ClassArchive.of(folder, java, spark_home, [], {}).class_path == ()
    jar = spark_home / "iceberg.jar"
    in_front = f"{spark_home}/jars/*"
    assert ClassArchive.of(folder, java, spark_home, [jar], {}).class_path == (in_front, str(jar))
    (spark_home / "conf").mkdir()
    assert ClassArchive.of(folder, java, spark_home, [], {}).class_path == ()
    (spark_home / "conf" / "log4j2.properties").write_text("")
    assert ClassArchive.of(folder, java, spark_home, [], {}).class_path == (in_front,)


def test_archives_that_nobody_used_for_a_month_are_removed(folder: Path, java: Path, spark_home: Path) -> None:
    for name, days in (("old", 31), ("young", 29)):
        path = folder / f"spark-classes-{name}-3.jsa"
        path.write_bytes(b"abc")
        os.utime(path, (time.time() - days * 86_400,) * 2)
    made(ClassArchive.of(folder, java, spark_home, [], {}), "a")
    assert sorted(path.name.split("-")[2] for path in folder.iterdir() if "-3." in path.name) == ["young"]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    with pytest.raises(ValueError, match="other users may write"):
        archive_folder(str(tmp_path / "shared"))


def test_a_folder_is_made_for_its_user_alone_and_off_means_none(tmp_path: Path) -> None:
    assert (archive_folder("off"), archive_folder(" ")) == (None, None)
    folder = archive_folder(str(tmp_path / "a" / "b"))
    assert folder == tmp_path / "a" / "b"
    assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(ValueError, match="without spaces"):
        archive_folder(str(tmp_path / "a b"))
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        archive_folder(str(tmp_path / "file"))


def test_java_is_the_one_that_spark_submit_takes(java: Path) -> None:
    assert driver_java({"JAVA_HOME": str(java.parents[1])}) == java
    assert driver_java({"JAVA_HOME": "/nowhere", "PATH": str(java.parent)}) is None
    java.chmod(0o700)
    assert driver_java({"PATH": str(java.parent)}) == java
    assert has_own_archive(["-Xmx1g", "-XX:SharedArchiveFile=/opt/spark.jsa"])
    assert not has_own_archive(["-Xmx1g", ""])


def test_a_real_java_makes_and_takes_the_archive_behind_a_folder_of_settings(folder: Path, spark_home: Path) -> None:
    java = driver_java(os.environ)
    if java is None:
        pytest.skip("no java on this machine")
    code = spark_home / "Hello.java"
    code.write_text('public class Hello { public static void main(String[] a) { System.out.println("hello"); } }')
    jdk = java.resolve().parent
    if not (jdk / "javac").exists():
        pytest.skip("no compiler of Java on this machine")
    subprocess.run([str(jdk / "javac"), "-d", str(spark_home), str(code)], check=True)
    jar = spark_home / "jars" / "spark.jar"
    jar.unlink()
    subprocess.run([str(jdk / "jar"), "cf", str(jar), "-C", str(spark_home), "Hello.class"], check=True)
    (spark_home / "conf").mkdir()
    (spark_home / "conf" / "spark-defaults.conf").write_text("")
    archive = ClassArchive.of(folder, java, spark_home, [], {})
    # As spark-submit puts it together.
    class_path = ":".join([*archive.class_path, f"{spark_home}/conf", f"{spark_home}/jars/*"])

    def run(*options: str) -> str:
        command = [str(java), "-cp", class_path, *options, "Hello"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert run(*archive.options("a").split()) == "hello\n"
    archive.accept("a", is_whole=True)
    archive.release("a")
    loaded = run(*archive.options("b").split(), "-Xlog:class+load")
    assert "Hello source: shared objects file (top)" in loaded
    # One that the JVM cannot take is left out without a word.
    other = [option for option in archive.options("b").split() if not option.startswith("-Xlog")]
    jar.write_bytes(jar.read_bytes() + b"\n")
    assert "hello" in run(*other)

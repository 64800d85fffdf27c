from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError
from airflow_lake_provider.spark_jobs.sources import input_files
from airflow_lake_provider.spark_jobs.sources.arrival_order import Scan, with_arrival
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files, location_of
from tests.spark.jvm_commands import commands


def fill(folder: Path, count: int) -> None:
    for number in range(count):
        for path in (folder / f"{number}.json", folder / "below" / f"{number}.json", folder / "_hidden" / "h.json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("", "**/[0-9]*.json"), ("*", "**/[0-9]*.json"), ("*.json", "[0-9]*.json"), ("b*", "below/*.json")],
)
def test_the_commands_of_a_listing_do_not_grow_with_its_files(
    spark: SparkSession, tmp_path: Path, pattern: str, found: str
) -> None:
    sent = {}
    for count in (3, 300):
        fill(folder := tmp_path / str(count), count)
        with commands(spark) as sent[count]:
            files = list_input_files(spark, f"{folder}/{pattern}")
        assert [file.path for file in files] == sorted(f"file:{path}" for path in folder.glob(found))
    # The first also looks names up.
    assert len(sent[300]) <= len(sent[3])


@pytest.mark.parametrize("pattern", ["", "*", "[0-9]*"])
def test_the_commands_of_a_listing_do_not_grow_with_its_folders(
    spark: SparkSession, tmp_path: Path, pattern: str
) -> None:
    sent = {}
    for count in (3, 60):
        for number in range(count):
            (folder := tmp_path / str(count) / f"{number} %20é" / "below").mkdir(parents=True)
            (folder / "a.json").touch()
            (folder.parent / "b.json").touch()
        with commands(spark) as sent[count]:
            files = list_input_files(spark, f"{tmp_path}/{count}/{pattern}")
        assert [file.path for file in files] == sorted(f"file:{path}" for path in tmp_path.glob(f"{count}/**/*.json"))
    assert len(sent[60]) <= len(sent[3])


def test_the_commands_that_number_files_do_not_grow_with_them(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "in", 300)
    files = list_input_files(spark, f"{tmp_path}/in")
    rows = spark.read.text(f"{tmp_path}/in")
    sent = {}
    for count in (10, 600):
        with commands(spark) as sent[count]:
            with_arrival(spark, files[:count], Scan(rows=rows))
    assert len(files) == 600
    assert len(sent[600]) <= len(sent[10])


def test_a_tree_is_listed_alike_by_folder_and_by_pages(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "in", 5)
    (tmp_path / "in" / "empty").mkdir()
    by_folder = list_input_files(spark, f"{tmp_path}/in")
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext
    root = jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/in")
    filesystem = root.getFileSystem(context._jsc.hadoopConfiguration())
    by_pages = input_files._files_below(input_files._FileStatuses(spark), filesystem, root)
    assert sorted(by_pages) == list(by_folder)
    assert len(by_folder) == 10


def test_a_file_that_links_show_again_is_listed_once(spark: SparkSession, tmp_path: Path) -> None:
    day, outside = tmp_path / "in" / "2026-01-01", tmp_path / "outside"
    for folder in (day, outside):
        folder.mkdir(parents=True)
        (folder / "a.json").write_text("{}")
    # Each sorts before what it shows, too.
    for link, target in {"latest": day, "1-first": day, "self": tmp_path / "in", "up": tmp_path}.items():
        (tmp_path / "in" / link).symlink_to(target)
    (day / "b.json").symlink_to(day / "a.json")
    own = f"file:{day}/a.json"
    assert [file.path for file in list_input_files(spark, f"{tmp_path}/in")] == [own]
    assert [file.path for file in list_input_files(spark, f"{tmp_path}/in/*")] == [own]
    assert [file.path for file in list_input_files(spark, f"{tmp_path}/in/*/*.json")] == [own]
    # A link alone is read, as is what no other path of the source shows.
    assert [file.path for file in list_input_files(spark, f"{tmp_path}/in/latest")] == [
        f"file:{tmp_path}/in/latest/a.json"
    ]
    for link in ("more", "more2"):
        (tmp_path / "in" / link).symlink_to(outside)
    linked = f"file:{tmp_path}/in/more/a.json"
    assert [file.path for file in list_input_files(spark, f"{tmp_path}/in")] == [own, linked]


@pytest.mark.parametrize("step", ["refuse_unread_names", "_links_in"])
def test_a_folder_that_goes_away_meanwhile_is_work_for_a_retry(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    fill(tmp_path / "in", 2)
    look = getattr(input_files, step)

    def look_too_late(folder: str, *more: Any) -> Any:
        if folder.endswith("/below"):
            shutil.rmtree(folder)
        return look(folder, *more)

    monkeypatch.setattr(input_files, step, look_too_late)
    with pytest.raises(JobFailedError, match=r"a folder of source '.*/in' was listed and is gone \(.*/in/below"):
        list_input_files(spark, f"{tmp_path}/in")


def test_a_folder_of_a_hidden_name_is_read_where_the_path_names_it(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "_in", 2)
    expected = sorted(f"file:{path}" for path in (tmp_path / "_in").glob("**/[0-9]*.json"))
    for path in ("_in", "_in/", "*/../_in"):
        assert [file.path for file in list_input_files(spark, f"{tmp_path}/{path}")] == expected
    assert list_input_files(spark, f"{tmp_path}/*") == ()
    assert list_input_files(spark, f"{tmp_path}/_in/_*") == ()


@pytest.mark.parametrize("pattern", ["{a,b", "[ab", "a\\"])
def test_a_glob_that_is_not_closed_is_no_work_for_a_retry(spark: SparkSession, tmp_path: Path, pattern: str) -> None:
    with pytest.raises(BadInputError, match=r"is no glob: (Unclosed|An escaped character) .* close each bracket"):
        list_input_files(spark, f"{tmp_path}/{pattern}")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        *((name, pattern) for name in (b"\xff\xe9.csv", b"b/\xe9.csv") for pattern in ("in", "*", "in/{b,?}*")),
        *((b"\xe9/a.csv", pattern) for pattern in ("i?/", "in/*", "in/*/*.csv", "i*/*/a.csv")),
        (b"b/\xe9.csv", "in/*/*.csv"),
    ],
)
def test_a_name_that_java_does_not_read_is_refused_where_the_path_takes_it_in(
    spark: SparkSession, tmp_path: Path, name: bytes, pattern: str
) -> None:
    path = tmp_path / "in" / os.fsdecode(name)
    path.parent.mkdir(parents=True)
    path.touch()
    (tmp_path / "in" / "b.csv").touch()
    with pytest.raises(BadInputError, match=r"in.* has a name that Java does not read as UTF-8.*rename it"):
        list_input_files(spark, f"{tmp_path}/{pattern}")
    if pattern != "in":
        with pytest.raises(BadInputError, match=r"in.* has a name that Java does not read"):
            list_input_files(spark, f"{{{tmp_path}/c,{tmp_path}}}/{pattern}")
    for others in ("in/b.csv*", "in/{b.csv,c/d.csv}"):
        assert [file.path for file in list_input_files(spark, f"{tmp_path}/{others}")] == [f"file:{tmp_path}/in/b.csv"]
    assert list_input_files(spark, f"{tmp_path}/in/?.csv/*") == ()


def test_a_file_that_is_named_needs_no_list_of_its_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(folder: str) -> Any:
        # As a folder of mode 0711 does to all but its owner.
        raise PermissionError(folder)

    (tmp_path / "a.csv").touch()
    monkeypatch.setattr(input_files, "scandir", refusing)
    assert [file.path for file in list_input_files(spark, f"{tmp_path}/a.csv")] == [f"file:{tmp_path}/a.csv"]


@pytest.mark.parametrize("target", ["gone.csv", "b.csv"])
@pytest.mark.parametrize(
    "pattern", ["in", "in/", "*", "in/*.csv", "in/[ab]*", "*/b.csv", "{in/b,c/d}.csv", "in/{b,c}.csv", "in/b.csv/*"]
)
def test_a_link_that_leads_nowhere_is_refused_where_the_path_takes_it_in(
    spark: SparkSession, tmp_path: Path, pattern: str, target: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").touch()
    # That one of the names leads to itself.
    (tmp_path / "in" / "b.csv").symlink_to(tmp_path / "in" / target)
    with pytest.raises(BadInputError, match=r"in/b.csv is a link to .*in/\w+.csv, where the driver sees nothing"):
        list_input_files(spark, f"{tmp_path}/{pattern}")
    for others in ("in/a*", "{in/a,in/c}.csv", "in/[!b].csv", "in/\\b.csv*x"):
        assert len(list_input_files(spark, f"{tmp_path}/{others}")) == (0 if others.endswith("x") else 1)
    (tmp_path / "in" / "b.csv").rename(tmp_path / "in" / "_b.csv")
    assert len(list_input_files(spark, f"{tmp_path}/in")) == 1


def test_a_name_outside_of_ascii_is_refused_where_java_reads_ascii_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("é.csv", "_é.csv", "b.csv"):
        (tmp_path / name).touch()
    assert len(list_input_files(spark, str(tmp_path))) == 2
    monkeypatch.setattr(input_files, "encoding_of_names", lambda _: "ANSI_X3.4-1968")
    for pattern in ("", "*.csv"):
        with pytest.raises(BadInputError, match=r"é\.csv has a name .*ANSI_X3.4-1968.*LC_ALL"):
            list_input_files(spark, f"{tmp_path}/{pattern}")
    assert len(list_input_files(spark, f"{tmp_path}/b*")) == 1


def test_only_on_a_cluster_a_path_without_a_scheme_is_warned_of(spark: SparkSession) -> None:
    master = spark.sparkContext.master
    try:
        spark.sparkContext.master = "yarn"
        address, warnings = (found := location_of(spark, "/in/*.csv")).address, found.warnings
        assert address == "file:/in/*.csv"
        assert len(warnings) == 1
        assert "'/in/*.csv' names no file system" in warnings[0]
        assert "file:/in/*.csv" in warnings[0]
        assert location_of(spark, "file:///in/*.csv").warnings == ()
    finally:
        spark.sparkContext.master = master

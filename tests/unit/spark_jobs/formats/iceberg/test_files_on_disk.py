"""Files of a disk are listed as Hadoop lists them, without a process for each."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.listed_files import files_on_disk


def test_files_below_a_folder_are_listed_with_sizes_and_times_and_links_are_followed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "table", tmp_path / "elsewhere"
    names = ("data/a.parquet", "data/k=a b%20/é.parquet", "data/_hidden/.x")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
        os.utime(folder / name, ns=(0, 1_234_567_891_000))
    elsewhere.mkdir()
    (elsewhere / "far.parquet").touch()
    (folder / "way").symlink_to(elsewhere)
    # None of these has an end, or a file.
    (folder / "data" / "round").symlink_to(folder)
    (folder / "itself").symlink_to(folder / "itself")
    (folder / "nothing").symlink_to(tmp_path / "gone")
    listed = {location: (size, at) for location, size, at in files_on_disk(str(folder))}
    assert listed.keys() == {f"file:{folder}/{name}" for name in (*names, "way/far.parquet")}
    assert {listed[f"file:{folder}/{name}"] for name in names} == {(len(name.encode()), 1_234_567) for name in names}


def test_a_folder_that_is_not_there_has_no_files_and_a_name_of_other_bytes_is_no_error(tmp_path: Path) -> None:
    assert list(files_on_disk(str(tmp_path / "gone"))) == []
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")).touch()
    assert [location for location, _, _ in files_on_disk(str(tmp_path))] == [f"file:{tmp_path}/\ufffd.parquet"]

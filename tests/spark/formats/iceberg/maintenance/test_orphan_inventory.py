"""Orphan files by an inventory of the store in place of a listing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import listed_files
from tests.spark import hostile_tables as hostile
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import remove_orphans as remove
from tests.spark.orphaned_files import files_of, made_old, orphan


def test_an_inventory_stands_for_a_listing(spark: SparkSession, tmp_path: Path) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    made_old(table)
    gone, unlisted = orphan(table, "data/orphan.parquet"), orphan(table, "data/unlisted.parquet")
    foreign = hostile.victim(tmp_path, "foreign.parquet")
    listed = [str(path) for path in (*files_of(table) - {unlisted}, foreign)]
    times = [datetime.now(UTC) - timedelta(days=10)] * len(listed)
    columns = {
        "file_path": listed,
        "last_modified": pa.array(times, pa.timestamp("us", "UTC")),
        "size": [6] * len(listed),
    }
    pq.write_table(pa.table(columns), tmp_path / "inventory.parquet")

    report = remove(table, inventory=str(tmp_path / "inventory.parquet"))

    assert (report.files_removed, gone.exists(), unlisted.exists(), foreign.exists()) == (1, False, True, True)
    assert report.files_listed == len(listed) - 1
    csv = tmp_path / "inventory.csv"
    csv.write_text(f"file_path,last_modified,size\nfile:{unlisted},2020-01-01T00:00:00Z,6\n")
    assert remove(table, inventory=str(csv)).files_removed == 1
    assert table.rows_read() == table.rows


def test_an_old_inventory_hides_no_other_catalog_and_removes_nothing_that_was_committed_since(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    made_old(table)
    names = ("committed", "gone", "orphan")
    committed, gone, left = (orphan(table, f"data/{name}.parquet") for name in names)
    lines = [f"file:{path},2020-01-01T00:00:00Z,{path.stat().st_size}" for path in files_of(table)]
    inventory = tmp_path / "inventory.csv"
    inventory.write_text("\n".join(["file_path,last_modified,size", *lines]))
    # All of this came after the list was made.
    table.append(3, 3)
    hostile.add_data_file(table, f"file:{committed}")
    gone.unlink()
    young = orphan(table, "metadata/00009-young.metadata.json", 3600)
    other = orphan(table, "metadata/00099-aa.metadata.json")
    with pytest.raises(UnsupportedError, match="beside it lies version 99"):
        remove(table, inventory=str(inventory))
    other.unlink()
    young.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(listed_files, "chunks_of_listing", lists_nothing)
        with pytest.raises(UnsupportedError, match=r"inventory\.csv' is older than version 3 of the metadata"):
            remove(table, inventory=str(inventory))
    before = files_of(table)

    report = remove(table, mode="quarantine", inventory=str(inventory))

    # A file that is gone was neither removed, nor could it not be.
    assert (report.files_removed, report.warnings) == (1, ())
    assert before - files_of(table) == {left}


def lists_nothing(*_: Any) -> Any:
    raise UnsupportedError("lists no files")

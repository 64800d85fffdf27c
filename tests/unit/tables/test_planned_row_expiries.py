"""Dry runs of an expiry of rows from a table with deletes by position: they count the rows that readers see."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.reports.job import Outcome, RowExpiryReport
from airflow_lake_provider.contracts.specs.maintenance import RowExpirySpec
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from airflow_lake_provider.tables.iceberg.maintenance_plans import plan_row_expiry
from tests.made_tables import MIB, MadeDelete, MadeFile, MadeTable

NOW = datetime.now(UTC)


def planned(folder: Path, table: MadeTable, max_share: float = 1.0) -> RowExpiryReport:
    """Return the plan of a table whose files have no bounds, so that any of their rows may be too old."""
    location = table.write(folder / "orders", NOW)
    file = Path(location.removeprefix("file://"))
    file.write_text(file.read_text().replace('int"', 'date"'))
    spec = RowExpirySpec(
        catalog="lake",
        table="shop.orders",
        run=RunIdentity.of("dag", "run", "task", "-1"),
        column="day",
        keep=timedelta(days=30),
        max_share=max_share,
        asked_at=NOW,
    )
    return plan_row_expiry(LoadedIcebergTable(StaticTable.from_metadata(location)), spec)


TEN_ROWS = [MadeFile(MIB, rows=10)]


@pytest.mark.parametrize(
    ("version", "kind"), [(3, "vector"), (2, "position")], ids=["vector", "position deletes of one file"]
)
def test_rows_that_are_deleted_by_position_are_none_of_those_that_would_go(
    tmp_path: Path, version: int, kind: str
) -> None:
    made = MadeTable(files=TEN_ROWS, deletes=[MadeDelete(kind, 3, target=0)], version=version, is_partitioned=False)
    report = planned(tmp_path, made)
    assert report.rows_deleted == 7
    assert "0 to 7 of 7 rows would go, 0% to 100%" in report.reason


def test_deletes_that_files_share_leave_the_count_at_most(tmp_path: Path) -> None:
    made = MadeTable(files=[*TEN_ROWS, *TEN_ROWS], deletes=[MadeDelete("position", 3)], is_partitioned=False)
    report = planned(tmp_path, made)
    assert report.rows_deleted == 20
    assert "0 to 20 of 20 rows would go, 0% to 100%" in report.reason


def test_a_file_whose_rows_are_all_deleted_would_still_go(tmp_path: Path) -> None:
    made = MadeTable(files=TEN_ROWS, deletes=[MadeDelete("vector", 10, target=0)], version=3, is_partitioned=False)
    report = planned(tmp_path, made)
    assert (report.outcome, report.rows_deleted) == (Outcome.PLANNED, 0)
    assert "0 to 0 of 0 rows would go" in report.reason


# The run compares the rows that match with a share of all records, those that are deleted by position included.
@pytest.mark.parametrize(("share", "is_refused"), [(0.7, False), (0.69, True)])
def test_the_limit_is_that_of_the_run(tmp_path: Path, share: float, is_refused: bool) -> None:
    made = MadeTable(files=TEN_ROWS, deletes=[MadeDelete("vector", 3, target=0)], version=3, is_partitioned=False)
    assert ("would be refused" in planned(tmp_path, made, share).reason) is is_refused

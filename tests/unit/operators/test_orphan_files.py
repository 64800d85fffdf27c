"""The worker's part of a look for orphan files: what it refuses before Spark starts, and what no form can ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    InvalidSpecError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.job import SpecFrame
from airflow_lake_provider.contracts.specs.maintenance import OrphanFilesSpec
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.maintenance.locations import TableLocations
from airflow_lake_provider.operators.catalog_tables import CatalogTables
from airflow_lake_provider.operators.orphan_files import LakeRemoveOrphanFilesOperator, OrphanFilesAction

FRAME = SpecFrame(catalog="lake_default", table_format="iceberg", run=RunIdentity.of("d", "r", "t", "-1"))
RUN: Any = None


def completed(table: str = "shop.orders", tables: CatalogTables | None = None, **given: Any) -> OrphanFilesSpec:
    action = OrphanFilesAction(tables or CatalogTables("lake_default"))
    return action.completed(OrphanFilesSpec(table=table, **given), RUN)


def test_all_tables_of_the_catalog_are_compared_once_for_a_run_of_many_tasks(
    orders: Table, lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_catalog.create_namespace("other.deep")
    for name in ("shop.a", "other.deep.b"):
        lake_catalog.create_table(name, orders.schema())
    lists, listing = [0], LakeCatalogHook.list_tables

    def counted(hook: LakeCatalogHook, *arguments: Any) -> Any:
        lists[0] += 1
        return listing(hook, *arguments)

    monkeypatch.setattr(LakeCatalogHook, "list_tables", counted)
    tables = CatalogTables("lake_default")
    for name in ("shop.orders", "shop.a"):
        spec = completed(name, tables, mode="delete")
        assert (spec.tables_checked, spec.unknown_tables) == (3, ())
        assert abs(datetime.now(UTC) - spec.asked_at) < timedelta(minutes=1)
        assert spec.framed(FRAME).mode.removes
    assert lists == [1]
    tables.forget()
    completed("shop.a", tables)
    assert lists == [2]


Change = Callable[[SqlCatalog, Table], object]
OVERLAPS: dict[str, Change] = {
    "a table within": lambda catalog, table: catalog.create_table(
        "shop.inner", table.schema(), location=f"{table.location()}/data/inner"
    ),
    "the same location": lambda catalog, table: catalog.create_table(
        "shop.twin", table.schema(), location=f"{table.location()}/"
    ),
    "a table around": lambda catalog, table: catalog.create_table(
        "shop.outer", table.schema(), location=table.location().rpartition("/")[0]
    ),
    "a declared path": lambda catalog, table: catalog.create_table(
        "shop.data", table.schema(), properties={"write.data.path": f"{table.location()}/data"}
    ),
    "a path of an older release": lambda catalog, table: catalog.create_table(
        "shop.data", table.schema(), properties={"write.object-storage.path": f"{table.location()}/data"}
    ),
    "the metadata of another namespace": lambda catalog, table: (
        catalog.create_namespace("far"),
        catalog.create_table(
            "far.away", table.schema(), properties={"write.metadata.path": f"{table.location()}/metadata"}
        ),
    ),
}


def with_an_earlier_path(catalog: SqlCatalog, table: Table) -> None:
    other = catalog.create_table(
        "shop.data", table.schema(), properties={"write.data.path": f"{table.location()}/data"}
    )
    with other.transaction() as change:
        change.remove_properties("write.data.path")


def with_the_same_dotted_name(catalog: SqlCatalog, table: Table) -> None:
    """Make ("far", "a.b") beside ("far", "a", "b") at one place: each is another table."""
    catalog.create_namespace("far.a")
    location = f"{table.location()}/data/x"
    catalog.create_table(("far", "a", "b"), table.schema(), location=location)
    catalog.create_table(("far", "a.b"), table.schema(), location=location)


OVERLAPS["a path that earlier metadata declared"] = with_an_earlier_path


@pytest.mark.parametrize("change", OVERLAPS.values(), ids=OVERLAPS)
@pytest.mark.parametrize("mode", ["dry-run", "quarantine", "delete"])
def test_a_location_that_overlaps_another_tables_is_refused(
    orders: Table, lake_catalog: SqlCatalog, change: Change, mode: str
) -> None:
    change(lake_catalog, orders)
    with pytest.raises(UnsupportedError, match=r"shop\.orders: .* overlaps .* of (?:shop|far)\..*Nothing was removed"):
        completed(mode=mode)
    assert completed(mode="restore").tables_checked is None


def test_a_table_of_the_same_dotted_name_is_another_table(orders: Table, lake_catalog: SqlCatalog) -> None:
    with_the_same_dotted_name(lake_catalog, orders)
    with pytest.raises(UnsupportedError, match=r"far\.a\.b: .* overlaps .* of far\.a%2Eb;"):
        completed("far.a.b")


def test_a_table_that_cannot_be_read_is_refused_where_it_lies_here_and_passed_where_it_lies_elsewhere(
    orders: Table, lake_catalog: SqlCatalog, tmp_path: Path
) -> None:
    inside = lake_catalog.create_table("shop.inside", orders.schema(), location=f"{orders.location()}/data/x")
    beside = lake_catalog.create_table("shop.beside", orders.schema(), location=f"file://{tmp_path}/beside")
    for broken in (inside, beside):
        Path(broken.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(UnsupportedError, match=r"of shop\.inside, which cannot be read"):
        completed()
    lake_catalog.drop_table("shop.inside")
    assert completed(mode="delete").tables_checked == 2


def test_a_table_whose_place_nobody_knows_stops_a_removal_and_no_dry_run(
    orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = CatalogTables("lake_default")
    unknown = [TableLocations(name=f"shop.t{number}", error="the server gave 500") for number in range(4)]
    monkeypatch.setattr(CatalogTables, "locations", lambda _: unknown)
    for mode in ("delete", "quarantine"):
        with pytest.raises(UnsupportedError, match=r"shop\.t0 \(the server gave 500\); .* and 1 more are not known"):
            completed(tables=tables, mode=mode)
    assert len(completed(tables=tables).unknown_tables) == 3


@pytest.mark.parametrize("others", ["BrokenMetadataError: gone", "CatalogUnavailableError: 503"])
def test_a_place_that_the_catalog_did_not_say_is_asked_for_by_a_retry(
    orders: Table, monkeypatch: pytest.MonkeyPatch, others: str
) -> None:
    unknown = [
        TableLocations(name="shop.a", error="CatalogUnavailableError: table shop.a did not answer: 503"),
        TableLocations(name="shop.b", error=others),
    ]
    monkeypatch.setattr(CatalogTables, "locations", lambda _: unknown)
    # A retry would meet the broken one again.
    kind, advice = (CatalogUnavailableError, "Try again") if "503" in others else (UnsupportedError, "Mend or drop")
    with pytest.raises(kind, match=rf"shop\.a \(.*503\); .* are not known, .*\. {advice}"):
        completed(mode="delete")


def test_a_removal_that_nobody_has_compared_tables_for_is_not_sent() -> None:
    for given in ({}, {"tables_checked": 3, "unknown_tables": ("a.b",)}):
        for mode in ("delete", "quarantine"):
            with pytest.raises(InvalidSpecError, match="folders of all tables of the catalog have to be compared"):
                replace(OrphanFilesSpec(table="shop.orders", mode=mode), **given).framed(FRAME)  # type: ignore[arg-type]  # a word of an author
    OrphanFilesSpec(table="shop.orders").framed(FRAME)


def test_a_table_whose_owner_does_not_allow_it_is_skipped_without_spark(orders: Table) -> None:
    """apache/iceberg#5718: Nessie has refs that a table does not show, so it says gc.enabled=false."""
    action = OrphanFilesAction(CatalogTables("lake_default"))
    spec = OrphanFilesSpec(table="shop.orders")
    assert action.report_without_spark(spec) is None
    with orders.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    report = action.report_without_spark(spec)
    assert report is not None
    assert (report.outcome, "gc.enabled is false" in report.reason) == (Outcome.SKIPPED, True)
    with pytest.raises(MissingTableError, match=r"did you mean shop\.orders"):
        completed("shop.order")


def test_a_look_removes_nothing_unless_the_code_says_so_and_no_form_reaches_that() -> None:
    job = LakeRemoveOrphanFilesOperator(task_id="t", table="shop.orders")
    assert job.mode.value == "dry-run"
    shown = {"older_than", "inventory"}
    fixed = {"mode", "max_share", "prefix_mismatch_mode", "quarantine_for", "flink_jobs_older_than"}
    assert shown <= set(job.template_fields)
    assert not fixed & set(job.template_fields)


WRONG = [
    ({"older_than": "PT23H"}, "older_than is 23:00:00, less than a day"),
    ({"older_than": timedelta(0)}, "older_than must be a positive timedelta"),
    ({"quarantine_for": "PT1H"}, "quarantine_for is 1:00:00, less than a day"),
    ({"flink_jobs_older_than": timedelta(days=-1)}, "flink_jobs_older_than"),
    ({"max_share": 0}, r"max_share must be above 0 and at most 1, got 0"),
    ({"max_share": 1.5}, "max_share must be"),
    ({"max_share": "{{ params.share }}"}, "max_share is not templated"),
    ({"mode": "{{ params.mode }}"}, "mode is not templated"),
    ({"mode": "remove"}, "mode must be one of 'dry-run', 'quarantine', 'delete', 'restore'"),
    ({"prefix_mismatch_mode": "delete"}, "prefix_mismatch_mode must be one of 'error', 'ignore'"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=str)
def test_what_could_take_files_of_a_writer_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        LakeRemoveOrphanFilesOperator(task_id="t", table="shop.orders", **given)

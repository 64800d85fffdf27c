"""Views and tables of other formats: a catalog lists them beside its tables, and maintenance says so of each."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from hive_metastore.ttypes import SerDeInfo, StorageDescriptor
from hive_metastore.ttypes import Table as HiveTable
from moto import mock_aws
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.cli.print_tables import exit_where_broken
from airflow_lake_provider.hooks.bounded_catalogs.iceberg_catalog import catalog_opener
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.hooks.table_plans import table_plans
from airflow_lake_provider.maintenance.fleet_run import fleet_run
from airflow_lake_provider.maintenance.plan import TablePlan
from airflow_lake_provider.operators.catalog_tables import CatalogTables
from airflow_lake_provider.tables.base import ListedTable
from tests.unit.hooks.rest_server import serve_json

ICEBERG = {"table_type": "ICEBERG", "metadata_location": "s3://b/orders/metadata/1.metadata.json"}
# Name, kind, parameters and location of an entry, and how it is listed.
METASTORE: list[tuple[str, str, dict[str, str], str, ListedTable]] = [
    (
        "orders",
        "EXTERNAL_TABLE",
        ICEBERG,
        "s3://b/orders",
        ListedTable(("shop", "orders"), ICEBERG["metadata_location"]),
    ),
    ("v", "VIRTUAL_VIEW", {}, "", ListedTable(("shop", "v"), foreign="a view")),
    ("iv", "VIRTUAL_VIEW", {"table_type": "ICEBERG-VIEW"}, "", ListedTable(("shop", "iv"), foreign="a view")),
    ("mv", "MATERIALIZED_VIEW", {}, "s3://b/mv", ListedTable(("shop", "mv"), None, "a view", "s3://b/mv")),
    (
        "d",
        "EXTERNAL_TABLE",
        {"spark.sql.sources.provider": "DELTA"},
        "s3://b/d",
        ListedTable(("shop", "d"), None, "a table of format 'delta'", "s3://b/d"),
    ),
    ("h", "MANAGED_TABLE", {}, "s3://b/h", ListedTable(("shop", "h"), None, "a table of format 'hive'", "s3://b/h")),
]


@pytest.fixture
def view(orders: Table, lake_catalog: SqlCatalog, tmp_path: Path) -> None:
    """Beside a table, a view as Iceberg's own JDBC catalog writes one."""
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) "
            "VALUES ('lake_default', 'shop', 'daily', 'file:///nowhere/1.gz.metadata.json', 'VIEW')"
        )


@pytest.mark.usefixtures("view")
@pytest.mark.parametrize("patterns", ["shop.*", ["shop.orders", "shop.daily"]])
def test_a_view_that_a_pattern_means_is_reported_as_unsupported_and_stops_nobody(patterns: str | list[str]) -> None:
    plans = {each.table: each for each in table_plans(patterns)}
    assert plans.keys() == {"shop.orders", "shop.daily"}
    assert plans["shop.orders"].error is None
    assert plans["shop.daily"].error == (
        "UnsupportedError: shop.daily: it is a view, and Iceberg alone is maintained; leave it out by '!shop.daily'"
    )
    (report,) = fleet_run(plans.values(), core_seconds=60, most_tables=10).not_run
    assert (report["table"], report["outcome"]) == ("shop.daily", "unsupported")
    assert [each.table for each in table_plans(["shop.*", "!shop.daily"])] == ["shop.orders"]


@pytest.mark.usefixtures("view")
def test_a_view_has_an_entry_of_health_and_no_folder() -> None:
    assert {each.table: bool(each.error) for each in table_health("shop.*")} == {
        "shop.orders": False,
        "shop.daily": True,
    }
    assert [each.name for each in CatalogTables("lake_default").locations()] == ["shop.orders"]


@contextmanager
def rest_catalog(views: int) -> Iterator[str]:
    """Serve a namespace with a table, and views that are answered with a status."""
    lists = ["GET /v1/{prefix}/namespaces", "GET /v1/{prefix}/namespaces/{namespace}/tables"]

    def answer(address: str) -> tuple[int, Any]:
        path, status = address.partition("?")[0], 200
        body: dict[str, Any] = {
            "defaults": {},
            "overrides": {},
            "endpoints": [*lists, "GET /v1/{prefix}/namespaces/{namespace}/views"],
        }
        if path.endswith("/namespaces"):
            body = {"namespaces": [] if "parent" in address else [["shop"]]}
        elif path.endswith("/tables"):
            body = {"identifiers": [{"namespace": ["shop"], "name": "orders"}]}
        elif path.endswith("/views"):
            status, body = views, {"identifiers": [{"namespace": ["shop"], "name": "daily"}]}
            if views == 299:
                body = {"views": None}
            elif views != 200:
                body = {"error": {"message": "no", "type": "ForbiddenException", "code": views}}
        return status, body

    with serve_json(answer) as uri:
        yield uri


@pytest.mark.parametrize(
    ("status", "listed"),
    [(200, ["shop.orders", "shop.daily"]), *((refusal, ["shop.orders"]) for refusal in (403, 404, 299))],
)
def test_views_of_a_rest_catalog_are_listed_where_it_shows_them(
    status: int, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with rest_catalog(status) as uri:
        fields = {"conn_type": "iceberg", "extra": {"type": "rest", "uri": uri}}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(fields))
        found = LakeCatalogHook().list_tables()
    assert [str(each) for each in found] == listed
    assert [each.foreign for each in found] == [None, "a view"][: len(found)]


def test_entries_of_glue_are_listed_with_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "k")
    with mock_aws():
        glue = boto3.client("glue", "eu-west-1")
        glue.create_database(DatabaseInput={"Name": "shop"})
        for name, kind, parameters, place, _ in METASTORE:
            storage = {"StorageDescriptor": {"Location": place}} if place else {}
            entry = {"Name": name, "TableType": kind, "Parameters": parameters, **storage}
            glue.create_table(DatabaseName="shop", TableInput=entry)
        catalog: Any = catalog_opener("glue")("lake", {"glue.region": "eu-west-1"})
        assert catalog.listed_tables(()) == [each for *_, each in METASTORE]
        assert catalog.listed_tables(("absent",)) == []


def test_entries_of_a_hive_metastore_are_listed_with_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [
        HiveTable(tableName=name, dbName="shop", tableType=kind, parameters=given, sd=StorageDescriptor(location=place))
        for name, kind, given, place, _ in METASTORE
    ]
    # As Spark writes a table of its own sources.
    by_spark = StorageDescriptor(
        location="s3://b/x-__PLACEHOLDER__", serdeInfo=SerDeInfo(parameters={"path": "s3://b/p"})
    )
    provider = {"spark.sql.sources.provider": "parquet"}
    tables.append(HiveTable(tableName="p", dbName="shop", tableType="MANAGED_TABLE", parameters=provider, sd=by_spark))

    class Metastore(SimpleNamespace):
        def __enter__(self) -> Metastore:
            return self

        def __exit__(self, *_: object) -> None: ...

    catalog: Any = catalog_opener("hive")("lake", {"uri": "thrift://127.0.0.1:1"})
    catalog._client = Metastore(
        get_all_tables=lambda db_name: [each.tableName for each in tables],
        get_table_objects_by_name=lambda dbname, tbl_names: tables,
    )
    placed = ListedTable(("shop", "p"), None, "a table of format 'parquet'", "s3://b/p")
    assert catalog.listed_in(("shop",)) == [*(each for *_, each in METASTORE), placed]


def test_thousands_of_views_are_no_thousands_of_reports_and_fail_no_command() -> None:
    moment = datetime(2026, 11, 27, tzinfo=UTC)
    why = "UnsupportedError: it is a view"
    plans = [TablePlan(table=f"shop.v{number}", planned_at=moment, error=why) for number in range(1_000)]
    broken = TablePlan(table="shop.zz", planned_at=moment, error="BrokenMetadataError: gone")
    reports = fleet_run([*plans, broken], core_seconds=60, most_tables=10).not_run
    assert len(reports) == 101
    assert reports[-1]["table"] == "shop.zz"
    exit_where_broken(plans)
    with pytest.raises(SystemExit):
        exit_where_broken([*plans, broken])

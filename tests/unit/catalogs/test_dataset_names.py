"""Names of datasets are those of OpenLineage's naming specification and of its Spark integration."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.operators.openlineage import (
    DatasetName,
    default_location,
    name_in_catalog,
    name_of_files,
    name_of_location,
)

REGIONS = {"glue.region": "eu-west-1", "s3.region": "eu-west-1"}
ORDERS = TableName.parse("eu.shop.orders")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://lake/wh/shop/orders", ("s3://lake", "wh/shop/orders")),
        ("s3a://lake/wh/shop/orders/", ("s3://lake", "wh/shop/orders")),
        ("gs://lake", ("gs://lake", "/")),
        (
            "abfs://box@account.dfs.core.windows.net/wh/t",
            ("abfss://box@account.dfs.core.windows.net", "wh/t"),
        ),
        ("abfss://box:hush@account/wh/t?sig=hush", ("abfss://box@account", "wh/t")),
        ("kafka://broker:9092/orders", ("kafka://broker:9092", "orders")),
        ("s3://lake/a#b/t", ("s3://lake", "a#b/t")),
        ("mysql://db:3306/shop.orders", ("mysql://db:3306", "shop.orders")),
        ("postgres://db:5432/shop.public.orders", ("postgres://db:5432", "shop.public.orders")),
        ("hdfs://namenode:8020/wh/t", ("hdfs://namenode:8020", "/wh/t")),
        ("file:///mnt/in", ("file", "/mnt/in")),
        ("/mnt/in", ("file", "/mnt/in")),
        ("sftp://user:hush@host/in", ("sftp://host", "/in")),
        ("s3://[lake/t", None),
        ("in/a", None),
        ("", None),
    ],
)
def test_a_location_is_named_by_its_store_and_its_path(location: str, expected: tuple[str, str] | None) -> None:
    assert name_of_location(location) == (None if expected is None else DatasetName(*expected))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("s3a://in/orders/*.parquet", "orders"),
        ("s3a://in/orders/day={1,2}/a.csv", "orders"),
        ("s3a://in/orders/part-?.csv", "orders"),
        ("s3a://in/orders/a.csv", "orders/a.csv"),
        ("s3a://in/*.csv", "/"),
    ],
)
def test_files_of_a_pattern_are_named_by_their_folder(path: str, name: str) -> None:
    assert name_of_files(path) == DatasetName("s3://in", name)


def connection(host: str | None = None, **extra: Any) -> CatalogConnection:
    return CatalogConnection.from_fields(conn_id="lake", host=host, extra=extra)


@pytest.mark.parametrize(
    ("lake", "expected"),
    [
        (
            connection("https://c.example.com/api", type="rest", warehouse="lake"),
            ("https://c.example.com/api", "eu.shop.orders"),
        ),
        (
            connection("thrift://a:9083,thrift://b:9083", type="hive", warehouse="hdfs://n:8020/wh"),
            ("hive://a:9083", "eu.shop.orders"),
        ),
        (
            connection(
                type="glue",
                warehouse="s3://lake/wh",
                **{"glue.region": "eu-west-1", "glue.id": "1234", "s3.region": "eu-west-1"},
            ),
            ("arn:aws:glue:eu-west-1:1234", "table/eu/shop/orders"),
        ),
        (
            connection("sqlite:////var/lake/c.db", type="sql", warehouse="/var/lake/wh"),
            ("file", "/var/lake/wh/eu.shop.orders"),
        ),
        (
            connection("postgresql://db:5432/lake", type="sql", warehouse="s3://lake/wh", **{"s3.region": "eu-west-1"}),
            ("s3://lake", "wh/eu.shop.orders"),
        ),
    ],
)
def test_a_table_is_named_by_its_catalog(lake: CatalogConnection, expected: tuple[str, str]) -> None:
    assert name_in_catalog(lake, ORDERS) == DatasetName(*expected)


def test_a_table_that_is_not_there_yet_is_named_by_where_it_will_be() -> None:
    sql = connection("sqlite:////var/lake/c.db", type="sql", warehouse="/var/lake/wh")
    assert default_location(sql, ORDERS) == "file:///var/lake/wh/eu/shop/orders"
    # A REST server knows its warehouse by a name, and decides.
    assert default_location(connection("https://c.example.com", type="rest", warehouse="lake"), ORDERS) is None

"""Tables and catalogs that would choose a driver's code, or where its keys go: no action reads or writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.trusted_table import refuse_code_properties
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from airflow_lake_provider.spark_jobs.run_tasks import dispatch_action
from tests.spark.hostile_tables import on_disk
from tests.spark.maintained_table import CATALOG, RUN, MaintainedTable
from tests.spark.rest_answers import rest_catalog

# Starts a database in the working directory where it is loaded.
CLASS = "org.apache.derby.jdbc.EmbeddedDriver"
PROPERTIES = (
    {"write.location-provider.impl": CLASS},
    {"fs.file.impl": CLASS, "fs.file.impl.disable.cache": "true"},
    {"fs.s3a.endpoint": "http://127.0.0.1:1"},
    {"hadoop.security.credential.provider.path": "jceks://file/tmp/x"},
    {"parquet.crypto.factory.class": CLASS},
    {"orc.key.provider": CLASS},
    {"io.compression.codecs": CLASS},
    {"write.anything-impl": CLASS},
)
_COMMON: dict[str, Any] = {"catalog": CATALOG, "run": RUN}


@pytest.mark.parametrize("properties", PROPERTIES, ids=lambda each: next(iter(each)))
def test_a_table_whose_properties_choose_code_is_refused_by_name_until_they_are_unset(
    spark: SparkSession, properties: dict[str, str]
) -> None:
    table = MaintainedTable(spark, properties=properties)

    with pytest.raises(UnsupportedError) as refused:
        table.handle.refresh()

    assert {name for name in properties if name not in str(refused.value)} == set()
    assert not refused.value.retry_may_help
    listed = ", ".join(f"'{name}'" for name in properties)
    spark.sql(f"ALTER TABLE {table.name} UNSET TBLPROPERTIES ({listed})")
    assert table.handle.refresh().format_version == 3


@pytest.fixture(scope="module")
def refused_table(spark: SparkSession) -> MaintainedTable:
    return MaintainedTable(spark, properties=PROPERTIES[0])


ACTIONS: dict[str, Callable[[str, str], JobSpec]] = {
    "upsert": lambda bad, _: UpsertSpec(**_COMMON, table=bad, source=LakeTable(bad, name="s"), keys=("id",)),
    "upsert from it": lambda bad, good: UpsertSpec(
        **_COMMON, table=good, source=LakeTable(bad, name="s"), keys=("id",)
    ),
    "delete": lambda bad, _: DeleteRowsSpec(**_COMMON, table=bad, where="id = 1"),
    "update": lambda bad, _: UpdateRowsSpec(**_COMMON, table=bad, where="id = 1", assignments={"amount": "1"}),
    "compaction": lambda bad, _: CompactionSpec(**_COMMON, table=bad),
    "expiry": lambda bad, _: SnapshotExpirySpec(
        **_COMMON, table=bad, expire_before=datetime.now(UTC), expire_stage_branches_before=datetime.now(UTC)
    ),
    "incremental source": lambda bad, good: IncrementalSpec(
        **_COMMON, table=good, source=bad, consumer="c", keys=("id",), to_snapshot="1", query="SELECT * FROM changes"
    ),
    "incremental target": lambda bad, good: IncrementalSpec(
        **_COMMON, table=bad, source=good, consumer="c", keys=("id",), to_snapshot="1", query="SELECT * FROM changes"
    ),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_each_action_refuses_such_a_table_before_it_reads_or_writes(
    spark: SparkSession, refused_table: MaintainedTable, action: str
) -> None:
    good = MaintainedTable(spark)
    good.append(0, 1)
    with pytest.raises(UnsupportedError, match="location-provider"):
        dispatch_action(spark, ACTIONS[action](refused_table.name, good.name), Progress())
    assert good.rows_read() == good.rows


def test_readers_of_changes_refuse_it_too(spark: SparkSession, refused_table: MaintainedTable) -> None:
    with pytest.raises(UnsupportedError, match="location-provider"):
        read_changes(spark, refused_table.name, None, None)


REFUSED_CONFIGS: dict[str, dict[str, str]] = {
    "endpoint": {"s3.endpoint": "http://127.0.0.1:1"},
    "half": {"s3.endpoint": "http://127.0.0.1:1", "s3.access-key-id": "theirs"},
    "factory": {"client.factory": CLASS},
    "provider": {"client.credentials-provider": CLASS},
    "signer": {"s3.signer.uri": "http://127.0.0.1:1", "s3.remote-signing-enabled": "true"},
    "proxy": {"http-client.proxy-endpoint": "http://127.0.0.1:1"},
    "login": {"oauth2-server-uri": "http://127.0.0.1:1"},
    "public": {"s3.acl": "public-read"},
}
FOLLOWED_CONFIGS: dict[str, dict[str, str]] = {
    "plain": {},
    "vended": {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.endpoint": "http://127.0.0.1:1"},
    "hadoop": {"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"},
    "region": {"client.region": "eu", "s3.path-style-access": "true", "polaris.x": "y"},
}


def add_catalog(spark: SparkSession, name: str, uri: str) -> None:
    prefix = f"spark.sql.catalog.{name}"
    spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    settings = {"type": "rest", "uri": uri, "cache-enabled": "false", "s3.access-key-id": "ours"}
    for setting, value in {**settings, "s3.secret-access-key": "our secret"}.items():
        spark.conf.set(f"{prefix}.{setting}", value)


def trusts(spark: SparkSession, catalog: str, name: str) -> bool:
    try:
        IcebergTable(spark, catalog, TableName.parse(f"shop.{name}")).refresh()
    except UnsupportedError:
        return False
    return True


def test_a_rest_catalogs_answer_of_a_table_is_followed_only_where_it_chooses_no_code_and_redirects_no_keys(
    spark: SparkSession,
) -> None:
    table = MaintainedTable(spark)
    location = str(table.handle.java.operations().current().metadataFileLocation())
    metadata = json.loads(on_disk(location).read_text())
    with rest_catalog(metadata, location, {**REFUSED_CONFIGS, **FOLLOWED_CONFIGS}, {}) as uri:
        add_catalog(spark, "answering", uri)
        trusted = {name for name in (*REFUSED_CONFIGS, *FOLLOWED_CONFIGS) if trusts(spark, "answering", name)}
    assert trusted == set(FOLLOWED_CONFIGS)


@pytest.mark.parametrize("overrides", [{"s3.endpoint": "http://127.0.0.1:1"}, {"client.factory": CLASS}], ids=str)
def test_what_a_rest_catalog_overrides_for_all_tables_is_looked_at_as_well(
    spark: SparkSession, overrides: dict[str, str]
) -> None:
    table = MaintainedTable(spark)
    location = str(table.handle.java.operations().current().metadataFileLocation())
    metadata = json.loads(on_disk(location).read_text())
    name = f"overriding_{len(next(iter(overrides)))}"
    with rest_catalog(metadata, location, {"plain": {}}, overrides) as uri:
        add_catalog(spark, name, uri)
        assert not trusts(spark, name, "plain")


def test_a_class_that_the_session_gives_its_new_tables_is_trusted() -> None:
    properties = {"write.location-provider.impl": "com.site.Provider", "write.format.default": "parquet"}
    own = {"table-default.write.location-provider.impl": "com.site.Provider"}
    refuse_code_properties("shop.orders", properties, own)
    with pytest.raises(UnsupportedError):
        refuse_code_properties("shop.orders", properties, {"table-default.write.location-provider.impl": CLASS})

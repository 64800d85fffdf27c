"""Tables on object storage, by keys of the connection or of a REST catalog; the store does not check them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.reports.job import OrphanFilesReport
from airflow_lake_provider.contracts.specs.maintenance import OrphanFilesSpec, RemovalMode
from tests.end_to_end.lake_environment import REPOSITORY
from tests.end_to_end.postgresql_server import postgresql_server
from tests.end_to_end.secret_watch import new_mark
from tests.soak.driver import Driver
from tests.soak.lake import CATALOG, NAMESPACE, Lake
from tests.spark.conftest import lake_jars
from tests.topologies.conformance import Topology, assert_conforms
from tests.topologies.object_storage import BUCKET, aws_jars, object_storage
from tests.topologies.rest_catalog import rest_catalog

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture(scope="module")
def jars() -> tuple[Path, ...]:
    return aws_jars(Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake")) / "aws-jars")


def test_a_rest_catalog_hands_out_the_keys_of_its_object_storage(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], jars: tuple[Path, ...]
) -> None:
    warehouse, mark = f"s3://{BUCKET}/warehouse", new_mark()
    token = f"{mark}token"
    with object_storage(unused_tcp_port_factory(), tmp_path / "store.log", mark) as store:
        java = {**store, "s3.path-style-access": "true", "client.region": store["s3.region"]}
        behind = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{tmp_path}/behind.db",
            "jdbc.schema-version": "V1",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "warehouse": warehouse,
            "token": token,
            **java,
        }
        vended = {f"vend.{name}": value for name, value in java.items()}
        log = tmp_path / "requests.log"
        with rest_catalog(unused_tcp_port_factory(), log, {**behind, **vended}, jars) as uri:
            extra = {"type": "rest", "warehouse": warehouse, "token": token}
            topology = Topology(lake={"conn_type": "iceberg", "host": uri, "extra": extra}, jars=jars, mark=mark)
            assert_conforms(topology, tmp_path / "home", unused_tcp_port_factory())


def test_a_postgresql_catalog_has_its_tables_on_object_storage_by_keys_of_the_connection(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], jars: tuple[Path, ...]
) -> None:
    mark = new_mark()
    with (
        postgresql_server(f"{mark}p@ss/38:%") as database,
        object_storage(unused_tcp_port_factory(), tmp_path / "store.log", mark) as store,
    ):
        warehouse = f"s3://{BUCKET}/warehouse"
        lake = {
            "conn_type": "iceberg",
            "host": f"postgresql+psycopg2://127.0.0.1:{database.port}/postgres",
            "login": database.user,
            "password": database.password,
            "extra": {"type": "sql", "warehouse": warehouse, **store},
        }
        topology = Topology(lake=lake, jars=jars, mark=mark)
        assert_conforms(topology, tmp_path / "home", unused_tcp_port_factory())
        for name in ("shop.orders", "shop.copy"):
            assert topology.catalog().load_table(name).metadata_location.startswith(f"{warehouse}/")


@pytest.fixture(scope="module")
def aged(
    tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int], jars: tuple[Path, ...]
) -> Iterator[tuple[Lake, Driver, Any]]:
    """A lake, a driver and the bucket of a store whose objects are four days old."""
    home, server = tmp_path_factory.mktemp("aged"), (sys.executable, "-m", "tests.topologies.aged_store")
    class_path = ":".join([*lake_jars().split(","), *map(str, jars)])
    with object_storage(unused_tcp_port_factory(), home / "store.log", new_mark(), server) as store:
        lake = Lake.at(home / "lake", warehouse=f"s3://{BUCKET}/warehouse", **store)
        with Driver(lake, "orphans", SPARK_DIST_CLASSPATH=class_path) as driver:
            driver.sql(f"CREATE NAMESPACE {NAMESPACE}")
            yield lake, driver, _bucket(store)


def _bucket(store: Mapping[str, str]) -> Any:
    return boto3.resource(
        "s3",
        endpoint_url=store["s3.endpoint"],
        region_name=store["s3.region"],
        aws_access_key_id=store["s3.access-key-id"],
        aws_secret_access_key=store["s3.secret-access-key"],
    ).Bucket(BUCKET)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_orphan_files_of_a_bucket_go_to_the_quarantine_come_back_and_are_deleted_by_any_name_of_the_store(
    aged: tuple[Lake, Driver, Any], scheme: str
) -> None:
    lake, driver, bucket = aged
    table, folder = f"{NAMESPACE}.of_{scheme}", f"warehouse/{NAMESPACE}/of_{scheme}"
    driver.sql(f"CREATE TABLE {table} (id BIGINT, n INT) USING iceberg LOCATION '{scheme}://{BUCKET}/{folder}'")
    driver.sql(f"INSERT INTO {table} SELECT id, 1 FROM range(6)")
    # From now on the store is listed by this name, and metadata has files by the other one as well.
    driver.sql(f"ALTER TABLE {table} SET LOCATION 's3://{BUCKET}/{folder}'")
    driver.sql(f"DELETE FROM {table} WHERE id < 2")
    live = content(bucket, folder)
    old = {f"{folder}/{name}": name.encode() for name in ("data/a.parquet", "data/b/c d.parquet", "metadata/x-m0.avro")}
    young = {f"{folder}/data/young.parquet": b"a writer's, who has not committed"}
    # A table of a longer name, whose files begin alike.
    neighbour = {f"{folder}_2/data/a.parquet": b"of another table"}
    for key, body in {**old, **young, **neighbour}.items():
        bucket.put_object(Key=key, Body=body)

    def run(mode: RemovalMode) -> tuple[OrphanFilesReport, dict[str, bytes], list[bytes]]:
        """Return the report, what lies in its place, and what is in the quarantine."""
        identity = RunIdentity.of("orphans", f"{scheme} {mode.value}", "task", "-1")
        spec = OrphanFilesSpec(
            catalog=CATALOG,
            table=table,
            run=identity,
            mode=mode,
            max_share=1.0,
            asked_at=datetime.now(UTC),
            tables_checked=2,
        )
        report = driver.run(spec)
        assert isinstance(report, OrphanFilesReport), report
        there = content(bucket, folder)
        aside = [key for key in there if "/_quarantine/" in key and not key.endswith(".moves.jsonl")]
        in_place = {key: body for key, body in there.items() if "/_quarantine/" not in key}
        return report, in_place, sorted(there[key] for key in aside)

    everything = {**live, **old, **young, **neighbour}
    report, in_place, aside = run(RemovalMode.DRY_RUN)
    assert (report.orphans, in_place, aside) == ({"data file": 2, "manifest": 1}, everything, [])
    report, in_place, aside = run(RemovalMode.QUARANTINE)
    kept = {**live, **young, **neighbour}
    assert (report.files_removed, in_place, aside) == (3, kept, sorted(old.values()))
    report, in_place, aside = run(RemovalMode.RESTORE)
    assert (report.files_restored, in_place, aside) == (3, everything, [])
    report, in_place, aside = run(RemovalMode.DELETE)
    assert (report.files_removed, in_place, aside) == (3, kept, [])
    assert {row["id"] for row in lake.catalog().load_table(table).scan().to_arrow().to_pylist()} == {2, 3, 4, 5}


def content(bucket: Any, prefix: str) -> dict[str, bytes]:
    """Return the objects whose keys begin so."""
    return {each.key: each.get()["Body"].read() for each in bucket.objects.filter(Prefix=prefix)}

"""Tables on object storage, by keys of the connection or of a REST catalog; the store does not check them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.lake_environment import REPOSITORY
from tests.end_to_end.postgresql_server import postgresql_server
from tests.end_to_end.secret_watch import new_mark
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

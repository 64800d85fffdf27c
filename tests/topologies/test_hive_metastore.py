"""A Hive metastore, which is the one of Spark's own jars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hive_metastore.ttypes import MetaException
from pyiceberg.catalog.hive import HiveCatalog

from tests.topologies.conformance import Topology, assert_conforms
from tests.topologies.hive_metastore import hive_metastore

pytestmark = [pytest.mark.live, pytest.mark.slow]

# Of any property that this package writes.
_LONGEST_PROPERTY = 3_500


def test_a_hive_metastore_serves_the_whole_flow(tmp_path: Path, unused_tcp_port_factory: Callable[[], int]) -> None:
    with hive_metastore(unused_tcp_port_factory(), tmp_path / "metastore") as uri:
        lake = {"conn_type": "iceberg", "host": uri, "extra": {"type": "hive", "warehouse": f"file://{tmp_path}/lake"}}
        assert_conforms(Topology(lake=lake), tmp_path / "home", unused_tcp_port_factory())


def test_a_hive_metastore_keeps_our_longest_property_and_refuses_one_that_is_too_long(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> None:
    with hive_metastore(unused_tcp_port_factory(), tmp_path / "metastore") as uri:
        catalog = HiveCatalog("lake", uri=uri, warehouse=f"file://{tmp_path}/lake")
        catalog.create_namespace("shop")
        orders = catalog.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]))
        with orders.transaction() as change:
            change.set_properties({"lake.recent-run-keys": "k" * _LONGEST_PROPERTY})
        assert catalog.load_table("shop.orders").properties["lake.recent-run-keys"] == "k" * _LONGEST_PROPERTY
        # The limit is that of its database: 4,000 characters before Hive 2.3.
        with pytest.raises(MetaException, match="TABLE_PARAMS"):
            catalog.create_table("shop.other", orders.schema(), properties={"too-long": "k" * 40_000})

"""Nessie, which keeps tables of format version 2 only, and their snapshots for itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.lake_environment import REPOSITORY
from tests.end_to_end.secret_watch import new_mark
from tests.topologies.conformance import Topology, assert_conforms
from tests.topologies.nessie_catalog import java_21, nessie_catalog, nessie_jar
from tests.topologies.object_storage import BUCKET, aws_jars, object_storage

pytestmark = [pytest.mark.live, pytest.mark.slow]

_NO_CHANGES = "UnsupportedError: shop.orders: changes are told by row lineage, which begins with format version 3"
_NO_EXPIRY = "s: the table's gc.enabled is false: its files may belong to other tables, so nothing is expired"


@pytest.fixture(scope="module")
def fetched() -> Path:
    return Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake"))


def test_nessie_serves_the_flow_but_for_changes_which_are_refused_and_expiry_which_is_skipped(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], fetched: Path
) -> None:
    java, jar = java_21(fetched / "java"), nessie_jar(fetched / "nessie")
    port, warehouse, mark = unused_tcp_port_factory(), f"s3://{BUCKET}/warehouse", new_mark()
    with (
        object_storage(unused_tcp_port_factory(), tmp_path / "store.log", mark) as store,
        nessie_catalog(port, tmp_path / "nessie.log", jar, java, warehouse, store) as uri,
    ):
        extra = {"type": "rest", "warehouse": "lake", **store}
        lake = {"conn_type": "iceberg", "host": uri, "extra": extra}
        refusals = {"copy_1": _NO_CHANGES, "copy_2": _NO_CHANGES}
        jars = aws_jars(fetched / "aws-jars")
        topology = Topology(
            lake=lake, jars=jars, format_version=2, refusals=refusals, skipped_expiry=_NO_EXPIRY, mark=mark
        )
        assert_conforms(topology, tmp_path / "home", unused_tcp_port_factory())

"""A REST catalog that asks for a token, or hands one out to a client that knows its secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.topologies.conformance import Topology, assert_conforms
from tests.topologies.rest_catalog import rest_catalog

pytestmark = [pytest.mark.live, pytest.mark.slow]

_TOKEN, _SECRET = "hush-5d1f-token", "hush-91ce-client-secret"


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        pytest.param({"token": _TOKEN}, {"extra": {"token": _TOKEN}}, id="bearer token"),
        pytest.param(
            {"credential": f"lake:{_SECRET}"}, {"login": "lake", "password": _SECRET}, id="client credentials"
        ),
    ],
)
def test_a_rest_catalog_serves_the_whole_flow(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], asked: Mapping[str, str], shown: Mapping[str, Any]
) -> None:
    behind = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/behind.db", "jdbc.schema-version": "V1"}
    warehouse = f"file://{tmp_path}/warehouse"
    log = tmp_path / "requests.log"
    with rest_catalog(unused_tcp_port_factory(), log, {**behind, **asked, "warehouse": warehouse}) as uri:
        extra = {"type": "rest", "warehouse": warehouse, **shown.get("extra", {})}
        if "password" in shown:
            extra["oauth2-server-uri"] = f"{uri}/v1/oauth/tokens"
        lake = {"conn_type": "iceberg", "host": uri, **shown, "extra": extra}
        assert_conforms(Topology(lake=lake), tmp_path / "home", unused_tcp_port_factory())

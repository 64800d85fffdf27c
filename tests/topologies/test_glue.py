"""A Glue catalog with tables on S3, both imitated by moto; whoever commits names the version that he read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from tests.end_to_end.lake_environment import REPOSITORY
from tests.end_to_end.secret_watch import new_mark
from tests.topologies.conformance import Topology, assert_conforms
from tests.topologies.glue_catalog import WAREHOUSE, glue_catalog, glue_keys, updates
from tests.topologies.glue_server import REFUSED, UPDATED
from tests.topologies.object_storage import aws_jars

pytestmark = [pytest.mark.live, pytest.mark.slow]

_WRITERS, _ROUNDS = 6, 5


@dataclass(frozen=True)
class Glue:
    """A running catalog.

    :param lake: fields of a connection to it.
    :param mark: of its secrets.
    :param log: of the server.
    """

    lake: dict[str, Any]
    mark: str
    log: Path


@pytest.fixture
def glue(tmp_path: Path, unused_tcp_port_factory: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Glue]:
    """An empty catalog, whose keys are in the environment and whose connection is ``lake_default``."""
    mark, log = new_mark(), tmp_path / "glue.log"
    for name, value in glue_keys(mark).items():
        monkeypatch.setenv(name, value)
    with glue_catalog(unused_tcp_port_factory(), log, mark) as lake:
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(lake))
        yield Glue(dict(lake), mark, log)


def test_glue_serves_the_whole_flow_and_each_commit_names_the_version_that_it_replaces(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], glue: Glue
) -> None:
    jars = aws_jars(Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake")) / "aws-jars")
    topology = Topology(lake=glue.lake, jars=jars, environment=glue_keys(glue.mark), mark=glue.mark)
    assert_conforms(topology, tmp_path / "home", unused_tcp_port_factory())
    for name in ("shop.orders", "shop.copy"):
        assert topology.catalog().load_table(name).metadata_location.startswith(f"{WAREHOUSE}/")
        versions = updates(glue.log, name, UPDATED)
        # A table is created at version 1; None would be an update of whatever is there.
        assert versions == [str(number) for number in range(1, len(versions) + 1)]
        assert updates(glue.log, name, REFUSED) == []


def test_each_of_concurrent_changes_in_glue_is_kept_or_refused(glue: Glue) -> None:
    catalog = LakeCatalogHook().catalog
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    together = Barrier(_WRITERS)

    def made_by(writer: int) -> list[str]:
        """Set properties, one a round, and return those that were not refused."""
        hook, made = LakeCatalogHook(), []
        for number in range(_ROUNDS):
            name = f"writer-{writer}-{number}"
            table = hook.loaded("shop.orders")
            change = MetadataChange(table_uuid=table.facts.uuid, set_properties={name: "here"})
            together.wait(60)
            try:
                assert hook.commit_metadata(table, change)
            except CommitConflictError:
                continue
            made.append(name)
        return made

    with ThreadPoolExecutor(_WRITERS) as pool:
        made = {name for names in pool.map(made_by, range(_WRITERS)) for name in names}
    kept = {name for name in catalog.load_table("shop.orders").properties if name.startswith("writer-")}
    assert kept == made
    assert len(updates(glue.log, "shop.orders", REFUSED)) == _WRITERS * _ROUNDS - len(made) > 0

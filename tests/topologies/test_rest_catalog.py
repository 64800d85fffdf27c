"""A REST catalog that asks for a token, or hands one out to a client that knows its secret."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.hooks.maintenance_leases import MaintenanceLeases
from airflow_lake_provider.triggers.catalog_poller import subscribed
from tests.end_to_end.secret_watch import new_mark
from tests.soak.driver import Driver
from tests.soak.lake import CATALOG, NAMESPACE, Lake
from tests.topologies.conformance import Topology, assert_conforms
from tests.topologies.lossy_proxy import lossy_proxy
from tests.topologies.rest_catalog import rest_catalog
from tests.unit.hooks.test_maintenance_history import entry
from tests.unit.hooks.test_maintenance_leases import run

pytestmark = [pytest.mark.live, pytest.mark.slow]

_MARK = new_mark()
_TOKEN, _SECRET = f"{_MARK}token", f"{_MARK}client-secret"
_LOOK_SECONDS = 0.2


def behind(folder: Path) -> Mapping[str, str]:
    return {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder}/behind.db",
        "jdbc.schema-version": "V1",
        "warehouse": f"file://{folder}/warehouse",
    }


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
    log = tmp_path / "requests.log"
    with rest_catalog(unused_tcp_port_factory(), log, {**behind(tmp_path), **asked}) as uri:
        extra = {"type": "rest", "warehouse": behind(tmp_path)["warehouse"], **shown.get("extra", {})}
        if "password" in shown:
            extra["oauth2-server-uri"] = f"{uri}/v1/oauth/tokens"
        lake = {"conn_type": "iceberg", "host": uri, **shown, "extra": extra}
        assert_conforms(Topology(lake=lake, mark=_MARK), tmp_path / "home", unused_tcp_port_factory())


async def test_a_poller_is_answered_without_a_table_until_the_next_commit(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "requests.log"
    with rest_catalog(unused_tcp_port_factory(), log, {**behind(tmp_path), "token": _TOKEN}) as uri:
        monkeypatch.setenv(
            "AIRFLOW_CONN_LAKE_DEFAULT",
            json.dumps({"conn_type": "iceberg", "host": uri, "extra": {"type": "rest", "token": _TOKEN}}),
        )
        writer = RestCatalog("writer", uri=uri, token=_TOKEN)
        writer.create_namespace("shop")
        orders = writer.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]))
        for number in (1, 2):
            await asyncio.to_thread(orders.append, pa.table({"id": [number]}))
        with subscribed("lake_default", "shop.orders", "main", _LOOK_SECONDS) as subscription:
            for number in (3, 4):
                head = await subscription.next(within=60)
                assert head is not None
                assert head.head == str(orders.metadata.current_snapshot_id)
                looked = len(loads(log))
                assert await subscription.next(within=20 * _LOOK_SECONDS) is None
                looks = loads(log)[looked:]
                assert len(looks) > 3
                assert set(looks) == {"304"}
                await asyncio.to_thread(orders.append, pa.table({"id": [number]}))


def test_a_rest_catalog_keeps_history_and_leases(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with rest_catalog(
        unused_tcp_port_factory(), tmp_path / "requests.log", {**behind(tmp_path), "token": _TOKEN}
    ) as uri:
        lake = {"conn_type": "iceberg", "host": uri, "extra": {"type": "rest", "token": _TOKEN}}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(lake))
        reader = RestCatalog("reader", uri=uri, token=_TOKEN)
        history, leases = MaintenanceHistory(LakeCatalogHook()), MaintenanceLeases(LakeCatalogHook())

        assert history.prepare()
        assert history.record([entry("one"), entry("one", "shop.items")])
        # A retry of the task has the same run.
        assert history.record([entry("one")])
        table = reader.load_table(str(history.table))
        assert (table.format_version, table.scan().count()) == (2, 2)
        assert {name: each[0].outcome for name, each in (history.remembered().outcomes or {}).items()} == {
            "shop.orders": "done",
            "shop.items": "done",
        }

        assert leases.take(["shop.orders", "shop.items"], run("one")) == {}
        assert set(leases.take(["shop.items", "shop.customers"], run("two"))) == {"shop.items"}
        leases.give_back("one")
        left = reader.load_table(str(leases.table)).scan().to_arrow().to_pylist()
        assert [(row["table_name"], row["run_key"]) for row in left] == [("shop.customers", "two")]


def test_a_commit_of_a_compaction_whose_answer_is_lost_is_found_and_none_of_its_files_is_deleted(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> None:
    properties = {**behind(tmp_path), "token": _TOKEN}
    with (
        rest_catalog(unused_tcp_port_factory(), tmp_path / "requests.log", properties) as uri,
        lossy_proxy(uri) as proxy,
    ):
        lake = Lake.at(
            tmp_path / "lake", type="rest", uri=proxy.uri, warehouse=behind(tmp_path)["warehouse"], token=_TOKEN
        )
        with Driver(lake, "compaction") as driver:
            driver.sql(f"CREATE NAMESPACE {NAMESPACE}")
            # The first commit is that of data files, the second that of manifests.
            for runner, lost in ((CompactionRunner.ARROW, 1), (CompactionRunner.SPARK, 1), (CompactionRunner.ARROW, 2)):
                table = f"{NAMESPACE}.{runner.value}_{lost}"
                driver.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, cents BIGINT) USING iceberg")
                driver.sql(f"INSERT INTO {table} SELECT id, id * 7 FROM range(0, 90, 1, 3)")
                driver.sql(f"INSERT INTO {table} SELECT id, id * 7 FROM range(90, 100, 1, 2)")
                identity = RunIdentity.of("rest", table, "task", "-1")
                level = CompactionLevel.FULL
                spec = CompactionSpec(catalog=CATALOG, table=table, run=identity, runner=runner, level=level)
                proxy.lose = lost
                report = driver.run(spec)
                assert isinstance(report, CompactionReport), report
                assert (proxy.lose, report.outcome, report.attempts) == (lost - 2, Outcome.DONE, 1)
                assert (report.groups_rewritten, report.failures, report.warnings) == (1, (), ())
                assert lake.rows(table) == {id_: (id_ * 7,) for id_ in range(100)}
                again = driver.run(spec)
                assert isinstance(again, CompactionReport), again
                assert again.outcome is Outcome.NOTHING_DUE


def loads(log: Path) -> list[str]:
    """Return the status of each answer to a request for the table."""
    requests = [line.split() for line in log.read_text().splitlines() if line.startswith("GET ")]
    return [status for _, address, status in requests if "/tables/orders" in address]

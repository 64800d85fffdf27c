"""Assets of lake tables: a steady identity, one watcher each, and one reader of events."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.serialization.encoders import encode_asset_like

from airflow_lake_provider.assets.lake_table import changed_tables, lake_table_asset, snapshot_event, watches
from airflow_lake_provider.contracts.errors import InvalidConnectionError, InvalidSpecError
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook


def test_the_uri_names_the_connection_never_a_host(lake_connection: str) -> None:
    asset = lake_table_asset("shop.eu.orders")
    assert asset.uri == asset.name == "iceberg://lake_default/shop/eu/orders"


def test_an_authority_takes_the_place_of_the_connections_id() -> None:
    assert lake_table_asset("shop.orders", authority="corp-lake").uri == "iceberg://corp-lake/shop/orders"


@pytest.mark.parametrize("authority", ["", "a/b", "host:8181", "user@host"])
def test_an_authority_that_does_not_fit_a_uri_is_refused(authority: str) -> None:
    with pytest.raises(InvalidConnectionError, match="authority"):
        lake_table_asset("shop.orders", authority=authority)


class ApiServer:
    """The far end of a DAG processor's or worker's socket."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def send(self, message: object) -> ErrorResponse:
        self.asked.append(message)
        return ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)


def test_no_connection_is_read_while_a_dag_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", server, raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", "{broken")
    for conn_id in ("lake_default", "kept_in_the_database"):
        asset = lake_table_asset("shop.orders", lake_conn_id=conn_id, watch=True)
        assert asset.uri == f"iceberg://{conn_id}/shop/orders"
    assert server.asked == []
    with pytest.raises(InvalidConnectionError):
        LakeCatalogHook("kept_in_the_database").connection  # noqa: B018  the property reads it
    assert server.asked


def test_a_watched_asset_has_one_trigger_with_its_name() -> None:
    asset = lake_table_asset("shop.orders", watch=True, name="orders", poll_interval=timedelta(seconds=5))
    (watcher,) = asset.watchers
    assert watcher.trigger.serialize()[1] == {
        "table": "shop.orders",
        "asset_name": "orders",
        "lake_conn_id": "lake_default",
        "branch": "main",
        "poll_interval": 5.0,
        "min_added_rows": 0,
        "min_interval": 0.0,
    }


def test_airflow_can_store_a_watched_asset() -> None:
    asset = lake_table_asset("shop.orders", watch=True, min_added_rows=10, min_interval="PT5M")
    (stored,) = encode_asset_like(asset)["watchers"]
    assert stored["trigger"]["classpath"] == "airflow_lake_provider.triggers.lake_snapshot.LakeSnapshotEventTrigger"
    assert stored["trigger"]["kwargs"]["min_interval"] == 300.0


def test_a_branch_is_an_asset_of_its_own() -> None:
    main, audit = lake_table_asset("shop.orders"), lake_table_asset("shop.orders", branch="audit")
    assert audit.uri == "iceberg://lake_default/shop/orders/@audit"
    assert main.uri != audit.uri


def test_only_our_watcher_makes_an_asset_watched() -> None:
    assert watches(lake_table_asset("shop.orders", watch=True))
    assert not watches(lake_table_asset("shop.orders"))
    assert not watches(Asset("other"))
    assert not watches(AssetAlias("other"))


@pytest.mark.parametrize(
    "arguments",
    [{"table": "orders"}, {"poll_interval": -1}, {"min_interval": "tomorrow"}, {"min_added_rows": -1}],
    ids=str,
)
def test_nonsense_is_refused_while_the_dag_is_parsed(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidSpecError):
        lake_table_asset(**{"table": "shop.orders", **arguments})  # type: ignore[arg-type]  # wrong on purpose


def test_one_function_reads_both_kinds_of_event() -> None:
    own = {
        "table": "shop.orders",
        "branch": "main",
        "snapshot_id": "4611686018427387905",
        "previous_snapshot_id": "7",
        "counts": {"added-records": 3},
        "run_key": "0123456789abcdef",
    }
    watched = {"from_trigger": True, "payload": own}
    assert snapshot_event(own) == snapshot_event(watched) == own
    assert snapshot_event(SimpleNamespace(extra=watched)) == own


@pytest.mark.parametrize(
    "event",
    [{}, {"from_trigger": True}, {"from_trigger": True, "payload": "x"}, None, {"table": "shop.orders"}],
    ids=str,
)
def test_an_event_of_something_else_is_refused(event: object) -> None:
    with pytest.raises(InvalidSpecError, match="not an event of a lake table"):
        snapshot_event(event)


def test_changed_tables_are_those_of_events_on_main_of_the_connection_each_once() -> None:
    declared_elsewhere = lake_table_asset("shop.returns", lake_conn_id="other", authority="lake_default")

    def event(uri: str, table: str, name: str = "", **payload: Any) -> SimpleNamespace:
        extra = {"table": table, "branch": "main", "snapshot_id": "2", "previous_snapshot_id": "1", **payload}
        return SimpleNamespace(asset=SimpleNamespace(name=name or uri, uri=uri), extra=extra)

    events = [
        event("iceberg://lake_default/shop/orders", "shop.orders"),
        event("iceberg://lake_default/shop/orders", "shop.orders", snapshot_id="3"),
        event("iceberg://prod/shop/items", "shop.items"),
        event("iceberg://other/shop/orders", "shop.others"),
        event("iceberg://lake_default/shop/branched/@audit", "shop.branched", branch="audit"),
        event(declared_elsewhere.uri, "shop.returns", declared_elsewhere.name),
        SimpleNamespace(asset=SimpleNamespace(name="report", uri="s3://reports"), extra={"rows": 3}),
    ]
    assert changed_tables(events, "lake_default", ["lake_default", "prod"]) == ["shop.orders", "shop.items"]


@pytest.mark.parametrize("branches", [("a#b", "a#c"), ("a", "a/"), ("a?x=1&b=2", "a?b=2&x=1"), ("a%23b", "a#b")])
def test_two_branches_are_two_assets_whatever_airflow_cuts_off_a_uri(branches: tuple[str, str]) -> None:
    one, other = (lake_table_asset("shop.orders", branch=branch) for branch in branches)
    assert one.uri != other.uri
    # Airflow leaves them as they are, so that the outlet and the schedule are one asset.
    assert all(each.name == each.uri == Asset(each.uri).uri for each in (one, other))


@pytest.mark.parametrize("branch", ["audit/2026-11.28", "größe", "a@b"])
def test_a_branch_is_written_in_the_uri_as_it_is_where_it_can_be(branch: str) -> None:
    assert lake_table_asset("shop.orders", branch=branch).uri == f"iceberg://lake_default/shop/orders/@{branch}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("branch", value) for value in (None, "", "  ", 3, "main ", "audit\n")),
        *(("lake_conn_id", value) for value in (None, 3)),
        *(("watch", value) for value in ("yes", 1, None)),
        *(("min_added_rows", value) for value in (None, "5", 1.5, float("nan"), True, -1)),
        *((name, value) for name in ("poll_interval", "min_interval") for value in (float("nan"), float("inf"))),
        *((name, value) for name in ("poll_interval", "min_interval") for value in ([60], 10**400, -1, True)),
        ("min_interval", None),
        *(("extra", value) for value in ([1], "a=b", 5, {1: "a"})),
    ],
)
def test_an_argument_that_a_watcher_could_not_use_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidSpecError, match=name):
        lake_table_asset("shop.orders", **{"watch": True, name: value})


def test_a_text_may_say_whether_an_asset_is_watched() -> None:
    assert [watches(lake_table_asset(f"shop.{text}", watch=text)) for text in ("true", "false")] == [True, False]  # type: ignore[arg-type]  # of a variable

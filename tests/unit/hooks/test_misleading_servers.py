"""Servers that redirect, or that say how long to wait: they lead nowhere else, and keep nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from tests.unit.hooks.rest_server import Answers, hook, serve
from tests.unit.hooks.test_trusted_answers import answers_with


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("sign_in", ["credential", "auth"])
def test_a_token_of_another_server_is_not_taken_where_the_token_endpoint_leads_to_one(
    sign_in: str, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serve(Answers()) as thief, serve(Answers()) as server:
        server.redirects = {"/v1/oauth/tokens": (status, f"{thief.uri}/v1/oauth/tokens")}
        address = f"{server.uri}/v1/oauth/tokens"
        sent = {"client_id": "id", "client_secret": "SECRET", "token_url": address}
        ways: dict[str, dict[str, Any]] = {
            "credential": {"credential": "id:SECRET", "oauth2-server-uri": address},
            "auth": {"pyiceberg": {"auth": {"type": "oauth2", "oauth2": sent}}},
        }
        with pytest.raises(UnsupportedError, match="write that address into the connection"):
            hook(monkeypatch, tmp_path, server.uri, **ways[sign_in]).load_table("shop.orders")
    assert thief.seen == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", ["/v1/config/", "/moved/v1/config"])
def test_a_configuration_behind_a_redirect_is_judged_too(
    target: str, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    overrides = {"prefix": "lake", "fs.file.impl": "strangers.Code"}
    with serve(Answers(overrides=overrides, redirects={"/v1/config": (status, target)})) as server:
        lake = hook(monkeypatch, tmp_path, server.uri)
        lake.load_table("shop.orders")
        assert "/v1/lake/namespaces/shop/tables/orders" in server.seen[-1]
        with pytest.raises(UnsupportedError, match=r"fs\.file\.impl"):
            lake.refuse_for_spark([])


WAITS = {
    "s3.request-timeout": ("61", "1e9", "inf", "nan", "-1", "9" * 400),
    "s3.connect-timeout": ("100000", "1e9"),
    "rest.client.socket-timeout-ms": ("600001", "2147483647"),
    "rest.client.connection-timeout-ms": ("600001",),
    "rest.client.max-retries": ("21", "2147483647"),
}


@pytest.mark.parametrize("place", ["overrides", "table", "credentials"])
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WAITS.items() for value in values])
def test_a_server_does_not_make_us_wait_longer(
    name: str, value: str, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serve(answers_with(place, {name: value})) as server:
        lake = hook(monkeypatch, tmp_path, server.uri)
        assert name not in lake.load_table("shop.orders").io.properties
        with pytest.raises(UnsupportedError, match=name):
            lake.refuse_for_spark(["shop.orders"])
    with serve(answers_with(place, {name: "20"})) as server:
        lake = hook(monkeypatch, tmp_path, server.uri)
        assert lake.load_table("shop.orders").io.properties[name] == "20"
        lake.refuse_for_spark(["shop.orders"])

"""Policies that Apache Polaris keeps for tables, in the form of its documentation, served on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.maintenance_policy import OrphanMode
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.table_policy import table_policies
from airflow_lake_provider.maintenance.policy import Layer, TablePolicy, catalog_layer
from airflow_lake_provider.tables.base import CatalogPolicy
from tests.unit.hooks.rest_server import Answers, serve

PATH = "/polaris/v1/lake/applicable-policies"
ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
]
POLICIES = "GET /polaris/v1/{prefix}/applicable-policies"


@dataclass
class Polaris(Answers):
    """A catalog with one table and policies for it."""

    endpoints: list[str] = field(default_factory=lambda: [*ENDPOINTS, POLICIES])
    policies: Any = field(default_factory=list)
    namespace: dict[str, str] = field(default_factory=dict)

    def body(self, path: str) -> dict[str, Any]:
        if path.endswith("/config"):
            return {"defaults": {"prefix": "lake"}, "overrides": {}, "endpoints": self.endpoints}
        answers: dict[str, dict[str, Any]] = {
            "/v1/lake/namespaces": {"namespaces": []},
            "/v1/lake/namespaces/shop": {"namespace": ["shop"], "properties": self.namespace},
            "/v1/lake/namespaces/shop/tables": {"identifiers": [{"namespace": ["shop"], "name": "orders"}]},
            PATH: self.policies if isinstance(self.policies, dict) else {"applicable-policies": self.policies},
        }
        return answers.get(path) or super().body(path)


def applied(kind: str, content: Any, *, name: str = "mine", inherited: bool = False) -> dict[str, Any]:
    """Return a policy as the endpoint gives it; its content is a text."""
    text = content if isinstance(content, str) else json.dumps({"version": "2025-02-03", **content})
    return {
        "name": name,
        "policy-type": f"system.{kind}",
        "inherited": inherited,
        "namespace": ["shop"],
        "version": 3,
        "inheritable": True,
        "content": text,
    }


@pytest.fixture
def polaris(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Polaris]:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    server = Polaris()
    with serve(server):
        extra = {"type": "rest", "uri": server.uri}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": extra}))
        yield server


def orders() -> TablePolicy:
    (policy,) = table_policies("shop.orders")
    return policy


def test_each_type_of_policy_names_its_settings(polaris: Polaris) -> None:
    polaris.policies = [
        applied(
            "data-compaction", {"enable": True, "target_file_size_bytes": 134217728}, name="compact", inherited=True
        ),
        applied("metadata-compaction", {"enable": False}),
        applied("orphan-file-removal", {"enable": False, "older_than": 1707315296}),
        applied("snapshot-expiry", {"enable": True, "config": {"min_snapshot_to_keep": 3, "max_snapshot_age_days": 2}}),
        applied("custom-masking", {"enable": True}),
    ]
    policy = orders()
    named = {each.key: each.value for each in policy.values if each.layer is Layer.CATALOG}
    assert named == {
        "compaction.enabled": True,
        "compaction.target_file_size": 134217728,
        "manifests.enabled": False,
        "orphans.mode": "off",
        "expiry.enabled": True,
        "expiry.older_than": "P2D",
        "expiry.retain_last": 3,
    }
    origin = policy.value_of("compaction.target_file_size").origin
    assert origin == "policy 'compact' of the catalog, system.data-compaction"
    (asked,) = [each for each in polaris.seen if PATH in each]
    assert f"GET {PATH}?namespace=shop&target-name=orders" in asked


def test_a_policy_that_is_the_tables_own_goes_before_one_that_it_inherits(polaris: Polaris) -> None:
    polaris.policies = [
        applied("data-compaction", {"enable": True, "target_file_size_bytes": 2e8}, name="own"),
        applied("data-compaction", {"enable": True, "target_file_size_bytes": 1e8}, name="above", inherited=True),
    ]
    assert orders().value_of("compaction.target_file_size").value == 200_000_000


def test_a_policy_of_the_catalog_allows_nothing_that_deletes_and_a_namespace_goes_before_it(polaris: Polaris) -> None:
    polaris.policies = [
        applied("orphan-file-removal", {"enable": True}),
        applied("metadata-compaction", {"enable": True}),
    ]
    polaris.namespace = {"lake.maintenance.manifests.mergeable": "50"}
    policy = orders()
    assert policy.policy is not None
    assert policy.policy.orphans.mode is OrphanMode.OFF
    # Enabled is the default, so that saying it again changes nothing.
    assert {each.key: each.layer for each in policy.ignored}["orphans.mode"] is Layer.CATALOG
    assert policy.value_of("manifests.mergeable").layer is Layer.NAMESPACE


@pytest.mark.parametrize("status", [400, 403, 404, 405, 501])
def test_a_catalog_that_does_not_show_policies_is_no_fault(polaris: Polaris, status: int) -> None:
    polaris.redirects = {PATH: (status, "")}
    assert orders().error is None


def test_a_catalog_that_does_not_offer_policies_is_not_asked(polaris: Polaris) -> None:
    polaris.endpoints = ENDPOINTS
    assert orders().error is None
    assert [each for each in polaris.seen if "policies" in each] == []


def test_a_failing_server_leaves_the_policy_unknown(polaris: Polaris) -> None:
    polaris.redirects = {PATH: (500, "")}
    policy = orders()
    assert (policy.policy, policy.error is not None) == (None, True)


@pytest.mark.parametrize(
    "answer",
    [{"applicable-policies": "x"}, {"policies": []}, {"applicable-policies": [], "next-page-token": "again"}],
)
def test_an_answer_of_another_form_leaves_the_policy_unknown(polaris: Polaris, answer: dict[str, Any]) -> None:
    polaris.policies = answer
    assert "BrokenMetadataError" in (orders().error or "")
    assert len([each for each in polaris.seen if PATH in each]) <= 10


def test_the_limits_of_a_call_hold_for_policies_too(polaris: Polaris, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_ANSWER_MEGABYTES", "0.01")
    polaris.policies = [applied("data-compaction", {"enable": True, "config": {"x": "y" * 20_000}})]
    assert "the answer is larger than 0.00999" in (orders().error or "")


def test_a_redirect_to_another_server_is_not_followed(polaris: Polaris) -> None:
    polaris.redirects = {PATH: (307, "http://203.0.113.1/polaris")}
    assert "redirects to another server" in (orders().error or "")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"enable": 1}',
        '{"enable": "true"}',
        "[" * 10_000,
        '{"enable": true, "x": "' + "y" * 20_000,
    ],
)
def test_content_of_another_form_is_refused_by_the_policys_name(content: str) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        catalog_layer([CatalogPolicy("system.data-compaction", "\x1b[31mmine", content)])
    text = str(refused.value)
    assert text.startswith(r"policy '\x1b[31mmine' of the catalog, system.data-compaction: its content is ")
    assert text.endswith("; correct or detach it")
    assert len(text) < 300


UNREADABLE: list[tuple[str, Any]] = [
    ("orphan-file-removal", {"enable": "false"}),
    ("orphan-file-removal", {"enabled": False}),
    ("orphan-file-removal", "enable: false"),
    ("metadata-compaction", {"enable": 0}),
    ("snapshot-expiry", {"enable": True, "config": "min_snapshot_to_keep=3"}),
    ("snapshot-expiry", {"enable": True, "config": [3]}),
    ("snapshot-expiry", {"enable": True, "config": {"min_snapshot_to_keep": "three"}}),
    ("snapshot-expiry", {"enable": True, "config": {"min_snapshot_to_keep": True}}),
    ("snapshot-expiry", {"enable": True, "config": {"max_snapshot_age_days": "P3D"}}),
    ("snapshot-expiry", {"enable": True, "config": {"max_snapshot_age_days": True}}),
    ("snapshot-expiry", {"enable": True, "config": {"max_snapshot_age_days": -1}}),
    *(
        ("data-compaction", {"enable": False, "target_file_size_bytes": size})
        for size in ("big", -1, 1.5, True, [1], 1e400)
    ),
]


@pytest.mark.parametrize(("kind", "content"), UNREADABLE)
def test_a_restriction_that_cannot_be_read_leaves_the_table_alone(
    polaris: Polaris, tmp_path: Path, kind: str, content: Any
) -> None:
    (tmp_path / "lake_policy.yaml").write_text("tables: {'*': {orphans: {mode: delete}}}")
    polaris.policies = [applied(kind, content)]
    policy = orders()
    assert policy.policy is None
    assert (policy.error or "").startswith(f"BrokenMetadataError: policy 'mine' of the catalog, system.{kind}: ")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"min_snapshot_to_keep": 3.0, "max_snapshot_age_days": 2.0}, (3, timedelta(days=2))),
        # Polaris' schema takes texts in config, too.
        ({"min_snapshot_to_keep": "3", "max_snapshot_age_days": "2"}, (3, timedelta(days=2))),
        ({"min_snapshot_to_keep": None, "max_snapshot_age_days": None}, (None, None)),
        (None, (None, None)),
    ],
)
def test_whole_numbers_of_an_expiry_may_have_any_form_of_json(polaris: Polaris, config: Any, named: Any) -> None:
    polaris.policies = [applied("snapshot-expiry", {"enable": True, "config": config})]
    policy = orders().policy
    assert policy is not None
    assert (policy.expiry.retain_last, policy.expiry.older_than) == named


@pytest.mark.parametrize("given", ["x", 5, None, {"name": 5}, {"policy-type": ["system.data-compaction"]}])
def test_an_entry_that_is_no_policy_stops_nothing(polaris: Polaris, given: Any) -> None:
    polaris.policies = [given]
    assert orders().error is None

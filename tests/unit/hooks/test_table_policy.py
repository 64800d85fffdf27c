"""Policies of tables of real catalogs: properties of namespaces and tables, the file, and what stops nobody."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.author.maintenance_policy import OrphanMode
from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    InvalidSpecError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.hooks import look_at_tables
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.hooks.table_plans import table_plans
from airflow_lake_provider.hooks.table_policy import PolicyReader, table_policies
from airflow_lake_provider.maintenance.policy import Layer, TablePolicy
from tests.made_tables import MIB, MadeFile, MadeTable, register

NOW = datetime.now(UTC)
SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture(autouse=True)
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(folder))
    return folder


def by_name(policies: list[TablePolicy]) -> dict[str, TablePolicy]:
    return {each.table: each for each in policies}


def test_all_layers_of_a_real_catalog_are_merged(lake_catalog: SqlCatalog, orders: Table, dags: Path) -> None:
    (dags / "lake_policy.yaml").write_text("tables:\n  shop.*:\n    orphans: {mode: delete}\n    priority: 5\n")
    lake_catalog.update_namespace_properties(
        "shop", updates={"lake.maintenance.orphans.mode": "dry-run", "lake.maintenance.fresh-within": "PT6H"}
    )
    with orders.transaction() as transaction:
        transaction.set_properties(
            {
                "lake.maintenance.compaction.deleted-share": "0.3",
                "lake.maintenance.orphans.mode": "delete",
                "history.expire.max-snapshot-age-ms": "86400000",
            }
        )
    (policy,) = table_policies("shop.orders", policy={"compaction": {"level": "full"}})
    named = {each.key: (each.value, each.layer) for each in policy.values if each.layer is not Layer.DEFAULTS}
    assert named == {
        "orphans.mode": ("dry-run", Layer.NAMESPACE),
        "fresh_within": ("PT6H", Layer.NAMESPACE),
        "priority": (5, Layer.FILE),
        "compaction.deleted_share": (0.3, Layer.TABLE),
        "compaction.level": ("full", Layer.DAG),
        "expiry.older_than": ("P1D", Layer.TABLE),
    }
    assert [(each.key, each.layer) for each in policy.ignored] == [("orphans.mode", Layer.TABLE)]
    assert policy.policy is not None
    assert policy.policy.orphans.mode is OrphanMode.DRY_RUN


def test_properties_of_outer_namespaces_come_first_and_bind_inner_ones(lake_catalog: SqlCatalog) -> None:
    lake_catalog.create_namespace("eu", {"lake.maintenance.orphans.mode": "off", "lake.maintenance.priority": "-3"})
    inner = {"lake.maintenance.orphans.mode": "dry-run", "lake.maintenance.priority": "-4"}
    lake_catalog.create_namespace("eu.shop", inner)
    lake_catalog.create_table("eu.shop.orders", SCHEMA)
    (policy,) = table_policies("eu.*")
    assert policy.value_of("orphans.mode").origin == "property 'lake.maintenance.orphans.mode' of namespace eu"
    assert policy.value_of("priority").origin == "property 'lake.maintenance.priority' of namespace eu.shop"
    assert [each.origin for each in policy.ignored] == ["property 'lake.maintenance.orphans.mode' of namespace eu.shop"]


def test_a_property_that_is_no_setting_stops_its_own_table_and_no_other(
    lake_catalog: SqlCatalog, orders: Table, tmp_path: Path
) -> None:
    lake_catalog.create_table("shop.typo", SCHEMA, properties={"lake.maintenance.orphans.mod": "off"})
    lake_catalog.create_table("shop.vast", SCHEMA, properties={"lake.maintenance.owner": "\x1b[2J" + "x" * 100_000})
    lake_catalog.create_namespace("bad", {"lake.maintenance.paused": "perhaps"})
    lake_catalog.create_table("bad.table", SCHEMA)
    register(tmp_path / "catalog.db", "lake_default", "shop", {"gone": f"file://{tmp_path}/gone.metadata.json"})
    policies = by_name(table_policies())
    errors = {name: each.error or "" for name, each in policies.items()}
    assert errors["shop.orders"] == ""
    assert errors["shop.typo"].startswith(
        "BrokenMetadataError: table shop.typo: the property 'lake.maintenance.orphans.mod' is no setting; did you mean "
        "'lake.maintenance.orphans.mode'?"
    )
    assert errors["bad.table"].startswith(
        "BrokenMetadataError: namespace bad: the property 'lake.maintenance.paused' is"
    )
    assert "BrokenMetadataError" in errors["shop.gone"]
    assert errors["shop.vast"].isprintable()
    assert max(map(len, errors.values())) < 600
    # Nothing may be done with them.
    assert {name for name, each in policies.items() if each.policy is None} == errors.keys() - {"shop.orders"}


def test_each_namespace_is_asked_once_in_each_look_even_where_it_does_not_answer(
    lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        lake_catalog.create_table(f"shop.t{number}", SCHEMA)
    asked = []

    def unanswered(_: LakeCatalogHook, namespace: tuple[str, ...]) -> dict[str, str]:
        asked.append(namespace)
        raise CatalogUnavailableError("no answer")

    monkeypatch.setattr(LakeCatalogHook, "namespace_properties", unanswered)
    monkeypatch.setattr(look_at_tables, "BEFORE_SECOND_LOOK", 0.0)
    policies = table_policies("shop.*")
    # What it forbids is not known.
    assert {each.error for each in policies} == {"CatalogUnavailableError: no answer"}
    assert asked == [("shop",)] * 2


def test_a_namespace_that_answers_late_makes_no_other_wait(
    lake_catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("eu", "us"):
        lake_catalog.create_namespace(name)
        for number in range(3):
            lake_catalog.create_table(f"{name}.t{number}", SCHEMA)
    asked, both = [], Barrier(2, timeout=10)

    def slow(_: LakeCatalogHook, namespace: tuple[str, ...]) -> dict[str, str]:
        asked.append(namespace)
        both.wait()
        return {"lake.maintenance.priority": "-1"}

    monkeypatch.setattr(LakeCatalogHook, "namespace_properties", slow)
    policies = table_policies()
    assert [(each.error, each.value_of("priority").value) for each in policies] == [(None, -1)] * 6
    assert sorted(asked) == [("eu",), ("us",)]


def test_a_fault_of_file_or_dag_is_said_before_a_catalog_is_asked(
    dags: Path, monkeypatch: pytest.MonkeyPatch, lake_connection: str
) -> None:
    def asked(_: LakeCatalogHook) -> Any:
        raise AssertionError("the catalog was asked")

    monkeypatch.setattr(LakeCatalogHook, "connection", property(asked))
    with pytest.raises(InvalidSpecError, match="policy of the DAG: paused must be true or false, got 'maybe'"):
        table_policies(policy={"paused": "maybe"})
    (dags / "lake_policy.yaml").write_text("tables:\n  shop.*: {pausd: true}")
    with pytest.raises(InvalidSpecError, match=r"lake_policy\.yaml:2: a policy has no 'pausd'; did you mean 'paused'"):
        table_policies()
    with pytest.raises(InvalidSpecError, match=r"absent\.yaml: there is no such file of policies"):
        table_policies(policy_file="absent.yaml")


@pytest.mark.usefixtures("orders")
def test_a_table_that_is_named_has_to_exist() -> None:
    with pytest.raises(MissingTableError, match=r"table shop\.order does not exist; did you mean 'shop\.orders'"):
        table_policies("shop.order")
    assert table_policies("none.*") == []


@pytest.mark.usefixtures("tiny_connection")
def test_a_format_without_a_list_of_tables_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="table format 'tiny' lacks 'health'"):
        table_policies()


def test_health_is_judged_by_the_limits_of_each_tables_policy(
    orders: Table, append: Callable[..., int], dags: Path
) -> None:
    append(orders, 1)
    (dags / "lake_policy.yaml").write_text("tables: {shop.orders: {fresh_within: PT0.000001S}}")
    (found,) = table_health("shop.*", policies=PolicyReader(LakeCatalogHook()))
    assert "freshness" in [each.name for each in found.findings]
    with orders.transaction() as transaction:
        transaction.set_properties({"lake.maintenance.fresh-within": "P9D"})
    (found,) = table_health("shop.*", policies=PolicyReader(LakeCatalogHook()))
    assert found.findings == ()
    assert table_policies("shop.*")[0].limits.fresh_within == timedelta(days=9)


def test_a_default_that_is_tuned_has_its_origin_in_the_policy_and_in_the_reason_of_the_plan(
    lake_catalog: SqlCatalog, tmp_path: Path
) -> None:
    # Twenty files of 20 MiB each night for a week, beside 300 that are full.
    nightly = {place: {"added-data-files": "20", "added-files-size": str(20 * 20 * MIB)} for place in range(1, 8)}
    files = [MadeFile(500 * MIB, day=day) for day in range(300)]
    table = MadeTable(
        files=[*files, *(MadeFile(20 * MIB, day=1_000) for _ in range(20))],
        ages=tuple(timedelta(days=7 - place, hours=25) for place in range(8)),
        summaries=nightly,
    )
    lake_catalog.create_namespace_if_not_exists("shop")
    register(tmp_path / "catalog.db", "lake_default", "shop", {"nightly": table.write(tmp_path / "nightly", NOW)})
    on = {"tuning": {"enabled": True}}
    (policy,) = table_policies("shop.nightly", policy=on)
    value = policy.value_of("compaction.small_file_share")
    # About half of the 19.2 files that the merge of a day spares; where days begin depends on the hour of this test.
    assert value.layer is Layer.TUNED
    assert value.value == pytest.approx(9.6 / 320, rel=0.2)
    assert re.match(
        r"from 0\.2, since (8|9|10|11) files of 20 MiB are worth a merge, and 320 are there; ", value.origin
    )
    assert table_policies("shop.nightly")[0].value_of("compaction.small_file_share").layer is Layer.DEFAULTS
    (plan,) = table_plans("shop.nightly", policy=on, now=NOW)
    (reason,) = [each for action in plan.actions for each in action.reasons if each.name == "small-files"]
    assert re.search(r"the threshold is [234]%\. It is tuned from 0\.2, since ", reason.sentence)
    assert [each.action for each in table_plans("shop.nightly", now=NOW)[0].actions] == []

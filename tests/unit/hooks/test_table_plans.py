"""Plans of the tables of a catalog, by a policy for all or for each, and with an entry for a table that is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionPolicy, MaintenancePolicy
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.table_plans import table_plans
from tests.made_tables import register

Append = Callable[..., int]


@pytest.fixture
def three(orders: Table, lake_catalog: SqlCatalog, append: Append, tmp_path: Path) -> None:
    """Make a table that is due, one that is not, and one that is broken."""
    for number in range(8):
        append(orders, number)
    well = lake_catalog.create_table("shop.well", orders.schema(), properties={"maintenance": "rare"})
    append(well, 1)
    register(tmp_path / "catalog.db", "lake_default", "shop", {"gone": f"file://{tmp_path}/gone.metadata.json"})


@pytest.mark.usefixtures("three")
def test_tables_are_planned_by_the_default_policy_and_the_most_urgent_comes_first() -> None:
    plans = table_plans("shop.*")
    assert [(each.table, [task["action"] for task in each.tasks]) for each in plans] == [
        ("shop.orders", ["compaction"]),
        ("shop.gone", []),
        ("shop.well", []),
    ]
    assert "BrokenMetadataError" in (plans[1].error or "")


@pytest.mark.usefixtures("three")
def test_one_policy_may_be_that_of_all_tables() -> None:
    lax = MaintenancePolicy(compaction=CompactionPolicy(min_input_files=50), owner="nobody")
    plans = table_plans("shop.*", policy=lax)
    assert [each.tasks for each in plans] == [[], [], []]
    assert {each.owner for each in plans} == {"nobody"}


@pytest.mark.usefixtures("three")
def test_a_policy_may_follow_from_a_tables_name_and_properties() -> None:
    asked: dict[str, Mapping[str, str]] = {}

    def policy(name: str, properties: Mapping[str, str]) -> MaintenancePolicy:
        asked[name] = dict(properties)
        return MaintenancePolicy(priority=5 if properties.get("maintenance") == "rare" else 0)

    assert [each.table for each in table_plans("shop.*", policy=policy)] == ["shop.well", "shop.orders", "shop.gone"]
    assert (asked["shop.well"], asked["shop.gone"]) == ({"maintenance": "rare"}, {})


@pytest.mark.usefixtures("three")
def test_a_policy_that_is_broken_is_an_error_of_its_table_alone() -> None:
    def policy(name: str, _: Mapping[str, str]) -> MaintenancePolicy:
        if name != "shop.orders":
            return MaintenancePolicy()
        raise InvalidSpecError("shop.orders: lake.policy.expiry is no policy")

    errors = {each.table: each.error for each in table_plans("shop.*", policy=policy)}
    assert errors["shop.orders"] == "InvalidSpecError: shop.orders: lake.policy.expiry is no policy"
    assert errors["shop.well"] is None


@pytest.mark.usefixtures("three")
def test_ages_count_against_the_moment_that_is_given() -> None:
    later = datetime.now(UTC) + timedelta(days=9)
    expiry = {"expiry": {"min_snapshots": 7}}
    (plan,) = table_plans("shop.orders", policy=MaintenancePolicy.from_mapping(expiry, "policy"), now=later)
    assert [task["action"] for task in plan.tasks] == ["snapshot-expiry", "compaction"]
    assert plan.planned_at == later

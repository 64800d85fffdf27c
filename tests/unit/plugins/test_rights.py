"""Rights of users by real assets of a database, and by auth managers that differ in what they know of assets."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.asset import AssetActive, AssetModel
from sqlalchemy.orm import Session

from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.plugins.lake_page import routes
from tests.stored_assets import store_asset

VIEWER = SimpleAuthManagerUser(username="viewer", role="viewer")
NOBODY = SimpleAuthManagerUser(username="nobody", role=None)


class SomeDags(SimpleAuthManager):
    """The simple auth manager, whose viewers may read all assets, but for DAGs that a viewer may not read."""

    def __init__(self, *dag_ids: str) -> None:
        super().__init__(context=None)  # type: ignore[no-untyped-call]  # of Airflow
        self.dag_ids = dag_ids

    def is_authorized_dag(self, *, user: Any, details: Any = None, **asked: Any) -> bool:
        return details.id in self.dag_ids and super().is_authorized_dag(user=user, details=details, **asked)


class SomeAssets(SomeDags):
    """An auth manager that knows single assets, as those with a policy for each entity do."""

    def __init__(self, numbers: Collection[str]) -> None:
        super().__init__()
        self.numbers = numbers

    def is_authorized_asset(self, *, details: Any = None, **asked: Any) -> bool:
        return details is not None and details.id in self.numbers


@pytest.fixture
def numbers(session: Session) -> dict[str, str]:
    """Assets of the database, by table, as Airflow stores those of DAG files."""
    written = {"a.mine": "load_mine", "a.secret": "load_secret", "a.watched": None}
    return {
        table: str(store_asset(session, lake_table_asset(table, authority="shop"), dag_id))
        for table, dag_id in written.items()
    }


def seen(manager: Any, user: Any, session: Session, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    monkeypatch.setattr(routes, "get_auth_manager", lambda: manager)
    return routes.readable_assets(user, session)


@pytest.mark.usefixtures("numbers")
def test_a_right_on_all_assets_opens_the_tables_that_a_dag_of_the_user_writes(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen(SomeDags("load_mine"), VIEWER, session, monkeypatch) == {("shop", "a.mine")}
    assert seen(SomeDags(), VIEWER, session, monkeypatch) == set()
    assert seen(SomeDags("load_mine"), NOBODY, session, monkeypatch) == set()


def test_a_right_on_one_asset_opens_its_table_whoever_writes_it(
    session: Session, monkeypatch: pytest.MonkeyPatch, numbers: dict[str, str]
) -> None:
    manager = SomeAssets({numbers["a.watched"]})
    assert seen(manager, VIEWER, session, monkeypatch) == {("shop", "a.watched")}


def test_an_asset_that_no_dag_has_any_more_and_one_of_a_branch_open_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch, numbers: dict[str, str]
) -> None:
    uri = lake_table_asset("a.secret", authority="shop", branch="audit").uri
    session.query(AssetModel).filter_by(id=int(numbers["a.secret"])).update({"uri": uri})
    session.query(AssetActive).filter_by(name=lake_table_asset("a.mine", authority="shop").name).delete()
    session.commit()
    opened = seen(SomeAssets(numbers.values()), VIEWER, session, monkeypatch)
    assert ("shop", "a.watched") in opened
    assert {("shop", "a.mine"), ("shop", "a.secret")} & opened == set()

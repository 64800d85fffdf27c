"""Rights of a user: of which DAGs and tables Airflow's auth manager lets the page show entries.

Decision 69 says why a right on assets alone opens no table.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails, DagAccessEntity, DagDetails
from airflow.models.asset import AssetModel, TaskOutletAssetReference
from airflow.models.dag import DagModel
from sqlalchemy import select
from sqlalchemy.orm import Session


def readable_dags(dag_ids: Collection[str], user: Any, session: Session) -> set[str]:
    """Return the DAGs whose XCom a user may read.

    :param dag_ids: of which is asked.
    :param user: of Airflow's auth manager.
    :param session: of Airflow's database, which knows the teams of DAGs.
    """
    teams = DagModel.get_dag_id_to_team_name_mapping(list(dag_ids), session=session)
    manager = get_auth_manager()
    return {
        dag_id
        for dag_id in dag_ids
        if manager.is_authorized_dag(
            method="GET",
            access_entity=DagAccessEntity.XCOM,
            details=DagDetails(id=dag_id, team_name=teams.get(dag_id)),
            user=user,
        )
    }


def readable_assets(user: Any, session: Session) -> set[tuple[str, str]]:
    """Return authority and table of each lake table's asset that a user may read.

    Where the auth manager knows no single assets, these are the assets that a DAG writes whose XCom the user may read.

    :param user: of Airflow's auth manager.
    :param session: of Airflow's database.
    """
    asked = (
        select(AssetModel.id, AssetModel.uri, TaskOutletAssetReference.dag_id)
        .outerjoin(TaskOutletAssetReference, TaskOutletAssetReference.asset_id == AssetModel.id)
        .where(AssetModel.uri.startswith("iceberg://"), AssetModel.active.has())
    )
    assets = session.execute(asked).all()
    manager = get_auth_manager()
    # Whoever may read any asset was not given this one.
    may_read_any = manager.is_authorized_asset(method="GET", user=user)
    writers = readable_dags({dag_id for _, _, dag_id in assets if dag_id}, user, session) if may_read_any else set()
    uris = {number: uri for number, uri, dag_id in assets if dag_id in writers or not may_read_any}
    return {
        _table_of(uri)
        for number, uri in uris.items()
        if manager.is_authorized_asset(method="GET", details=AssetDetails(id=str(number)), user=user)
    }


def may_trigger(dag_id: str, user: Any, session: Session) -> bool:
    """Tell whether there is a DAG that maintains one table, and the user may start a run of it.

    :param dag_id: of ``[lake] maintenance_dag``; empty for none.
    :param user: of Airflow's auth manager.
    :param session: of Airflow's database.
    """
    dag = session.get(DagModel, dag_id) if dag_id else None
    if dag is None or dag.is_stale:
        return False
    team = DagModel.get_dag_id_to_team_name_mapping([dag_id], session=session).get(dag_id)
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id, team_name=team), user=user
    )


def _table_of(uri: str) -> tuple[str, str]:
    """Return authority and table; that of a branch, ``<table>.@<branch>``, is the name of none."""
    parts = urlsplit(uri)
    return parts.netloc, parts.path.strip("/").replace("/", ".")

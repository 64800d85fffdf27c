"""Assets in a database of Airflow's own models, as parsing DAG files stores them."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.models.asset import AssetActive, AssetModel, TaskOutletAssetReference
from airflow.models.dag import DagModel
from airflow.sdk import Asset
from sqlalchemy import insert, select
from sqlalchemy.orm import Session


def store_asset(session: Session, asset: Asset, dag_id: str | None = None) -> int:
    """Add an active asset, and return its number.

    :param asset: as a DAG file declares it.
    :param dag_id: DAG that writes it; None where it is only watched.
    """
    now = datetime.now(UTC)
    of_asset = {"name": asset.name, "uri": asset.uri}
    session.execute(insert(AssetModel).values(group="asset", extra={}, created_at=now, updated_at=now, **of_asset))
    session.execute(insert(AssetActive).values(**of_asset))
    number = session.scalars(select(AssetModel.id).where(AssetModel.uri == asset.uri)).one()
    if dag_id is not None:
        if session.get(DagModel, dag_id) is None:
            dag = DagModel(dag_id=dag_id, bundle_name="dags", fileloc="/dags/x.py", is_stale=False)  # type: ignore[no-untyped-call]
            session.add(dag)
            session.flush()
        writes = {"asset_id": number, "dag_id": dag_id, "task_id": "t", "created_at": now, "updated_at": now}
        session.execute(insert(TaskOutletAssetReference).values(**writes))
    session.commit()
    return number

"""Routes of the lake page. Each asks Airflow's auth manager who the user is, and of which DAGs the user may read XCom.

Airflow authenticates no app of a plugin by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from importlib.resources import files
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.common.router import AirflowRouter
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from airflow.sdk.configuration import conf
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, Response
from sqlalchemy.orm import Session

from airflow_lake_provider import __version__
from airflow_lake_provider.plugins.lake_page.page_data import read_fleet, read_table
from airflow_lake_provider.plugins.lake_page.rendering import CHARTS, Asked, render_fleet, render_table
from airflow_lake_provider.plugins.lake_page.stored_entries import dags_with_entries

# Nothing but files of our own: no script or style within a page, and no request to elsewhere.
SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'self'"
)
_HEADERS = {
    "Content-Security-Policy": SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_STATIC = files("airflow_lake_provider.plugins.lake_page") / "static"
_FILES = ("lake.css", "lake.js", "theme.js", "lake.svg", *CHARTS)

router = AirflowRouter(dependencies=[Depends(requires_access_view(AccessView.WEBSITE))])


def make_app() -> FastAPI:
    """Return the app that the api-server mounts."""
    app = FastAPI(title="Lake", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router)
    return app


@router.get("/", response_class=HTMLResponse)
def all_tables(session: SessionDep, user: GetUserDep, asked: Annotated[Asked, Depends()]) -> Response:
    """Show all tables whose DAG the user may read."""
    fleet = read_fleet(session, readable(dags_with_entries(session), user, session), datetime.now(UTC))
    return HTMLResponse(render_fleet(fleet, asked), headers=_HEADERS)


@router.get("/table", response_class=HTMLResponse)
def one_table(session: SessionDep, user: GetUserDep, table: str, conn: str = "") -> Response:
    """Show one table; to a user who may not read its DAGs, it does not exist."""
    dag_ids = readable(dags_with_entries(session), user, session)
    page = read_table(session, dag_ids, datetime.now(UTC), conn, table)
    if page is None:
        raise HTTPException(404, "no plan whose DAG you may read has looked at this table in the last 60 days")
    dag_id = conf.get("lake", "maintenance_dag", fallback="maintain_one_table")
    return HTMLResponse(render_table(page, dag_id if may_trigger(dag_id, user, session) else ""), headers=_HEADERS)


@router.get("/static/{name:path}")
def static_file(name: str) -> Response:
    """Return a script, a style or a picture of the page."""
    file = _STATIC / name
    if name not in _FILES or not file.is_file():
        raise HTTPException(404, "the page has no such file")
    kind = _KINDS[name[name.rindex(".") :]]
    headers = {**_HEADERS, "Cache-Control": "private, max-age=86400", "ETag": f'"{__version__}"'}
    return Response(file.read_bytes(), media_type=kind, headers=headers)


def readable(dag_ids: Collection[str], user: Any, session: Session) -> set[str]:
    """Return the DAGs whose XCom a user may read.

    :param dag_ids: that have left an entry.
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

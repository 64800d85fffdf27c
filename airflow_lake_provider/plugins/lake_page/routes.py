"""Routes of the lake page. Each asks Airflow's auth manager who the user is, and what the user may read.

Airflow authenticates no app of a plugin by itself. Decision 69 says why a right on assets alone opens no table.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from datetime import UTC, datetime
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    AccessView,
    AssetDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.common.router import AirflowRouter
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.asset import AssetModel, TaskOutletAssetReference
from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk.configuration import conf
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_lake_provider import __version__
from airflow_lake_provider.contracts.lake_page import PAGE, URL_ROUTE
from airflow_lake_provider.plugins.lake_page.addresses import login_url, root_path, table_url
from airflow_lake_provider.plugins.lake_page.page_data import read_fleet, read_table
from airflow_lake_provider.plugins.lake_page.rendering import (
    CHARTS,
    Asked,
    load_templates,
    render_fleet,
    render_missing,
    render_table,
)
from airflow_lake_provider.plugins.lake_page.stored_entries import dags_with_entries

# Param by which a run of the button's DAG gets the connection of the table's catalog.
CONNECTION = "lake_conn_id"
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
    """Return the app that the api-server mounts, ready to answer."""
    load_templates()
    app = FastAPI(title="Lake", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(router)
    app.add_exception_handler(HTTPException, _lead_to_login)  # type: ignore[arg-type]  # it wants one of any exception
    return app


async def _lead_to_login(request: Request, error: HTTPException) -> Response:
    """Lead a browser without a session to Airflow's login and back, as Airflow's UI does; others get the status."""
    if error.status_code != 401 or "text/html" not in request.headers.get("accept", ""):
        return await http_exception_handler(request, error)
    page = urlsplit(str(request.url))
    return RedirectResponse(login_url(f"{page.path}?{page.query}".rstrip("?")), headers=_HEADERS)


@router.get("/", response_class=HTMLResponse)
def all_tables(session: SessionDep, user: GetUserDep, asked: Annotated[Asked, Depends()]) -> Response:
    """Show all tables that the user may see."""
    dag_ids, assets = _seen(user, session)
    fleet = read_fleet(session, dag_ids, datetime.now(UTC), assets)
    return HTMLResponse(render_fleet(fleet, asked), headers=_HEADERS)


@router.get("/table", response_class=HTMLResponse)
def one_table(session: SessionDep, user: GetUserDep, table: str, conn: str = "") -> Response:
    """Show one table; to a user who may not see it, it does not exist."""
    dag_ids, assets = _seen(user, session)
    page = read_table(session, dag_ids, datetime.now(UTC), conn, table, assets)
    if page is None:
        return HTMLResponse(render_missing(table), status_code=404, headers=_HEADERS)
    dag_id = conf.get("lake", "maintenance_dag", fallback="maintain_one_table")
    if not may_trigger(dag_id, user, session):
        return HTMLResponse(render_table(page, ""), headers=_HEADERS)
    refusal = refusal_of(dag_id, page.state.conn_id, session)
    return HTMLResponse(render_table(page, dag_id, refusal), headers=_HEADERS)


@router.get("/open")
def open_page(user: GetUserDep, table: str = "", conn: str = "") -> Response:
    """Lead to a page within Airflow's UI; to the page itself where the user may not see plugins."""
    path = table_url(conn, table) if table else f"{root_path()}{PAGE}/"
    is_within = get_auth_manager().is_authorized_view(access_view=AccessView.PLUGINS, user=user)
    # The path behind the route is that of the frame in which the UI shows the page.
    return RedirectResponse(f"{root_path()}/plugin/{URL_ROUTE}{path}" if is_within else path, headers=_HEADERS)


@router.get("/static/{name:path}")
def static_file(name: str) -> Response:
    """Return a script, a style or a picture of the page."""
    file = _STATIC / name
    if name not in _FILES or not file.is_file():
        raise HTTPException(404, "the page has no such file")
    kind = _KINDS[name[name.rindex(".") :]]
    headers = {**_HEADERS, "Cache-Control": "private, max-age=86400", "ETag": f'"{__version__}"'}
    return Response(file.read_bytes(), media_type=kind, headers=headers)


def _seen(user: Any, session: Session) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the DAGs with entries that a user may read, and the assets by which the user sees those of others."""
    dag_ids = dags_with_entries(session)
    mine = readable_dags(dag_ids, user, session)
    return mine, readable_assets(user, session) if mine != dag_ids else set()


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


def refusal_of(dag_id: str, conn_id: str, session: Session) -> str:
    """Return why a run of the DAG is not offered for a table, as a sentence; empty where it is.

    Airflow takes a value that is no param of a DAG, and such a run would maintain a table of another catalog.

    :param dag_id: of a DAG that is there.
    :param conn_id: connection of the table's catalog.
    :param session: of Airflow's database.
    """
    try:
        dag = SerializedDagModel.get_dag(dag_id, session=session)
    # Whatever Airflow raises for what another version of it has stored.
    except Exception:  # noqa: BLE001
        dag = None
    if dag is None:
        return f"DAG {dag_id} cannot be read, so nobody knows which connections it takes."
    if CONNECTION not in dag.params:
        return f"DAG {dag_id} has no param {CONNECTION}, so a run may maintain a table of another catalog."
    param = copy(dag.params.get_param(CONNECTION))
    param.value = conn_id
    if param.resolve() != conn_id:
        return f"The param {CONNECTION} of DAG {dag_id} does not take {conn_id}."
    row = session.get(DagModel, dag_id)
    return f"DAG {dag_id} is paused, so a run would wait until somebody unpauses it." if row and row.is_paused else ""


def _table_of(uri: str) -> tuple[str, str]:
    """Return authority and table; that of a branch, ``<table>.@<branch>``, is the name of none."""
    parts = urlsplit(uri)
    return parts.netloc, parts.path.strip("/").replace("/", ".")

"""A lake table as an Airflow asset, its address, the events on it, and a refusal of declarations that disagree.

Airflow keeps one definition of an asset, that of the DAG file which it parsed last. A second definition with another
watcher would silently take the place of the first one. It is seen in one file, and where one process parses many files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from airflow.sdk import Asset, AssetWatcher, conf
from airflow.sdk.definitions._internal.contextmanager import DagContext

from airflow_lake_provider.contracts.argument_validation import flag, mapping, ref_name, text
from airflow_lake_provider.contracts.errors import InvalidConnectionError, InvalidSpecError
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.tables.detect_new_snapshot import EventThreshold
from airflow_lake_provider.triggers.lake_snapshot import LakeSnapshotEventTrigger
from airflow_lake_provider.triggers.watch_settings import DEFAULT_CONNECTION


@dataclass(frozen=True)
class DeclaredAsset:
    """Declaration of an asset.

    :param table: ``namespace.table``.
    :param watcher: arguments of its trigger; None where it is not watched.
    """

    lake_conn_id: str
    table: str
    branch: str
    watcher: Mapping[str, Any] | None = field(hash=False)

    def differs_from(self, other: DeclaredAsset) -> str:
        """Return the difference of two watchers for a message, empty where they are equal."""
        if self.watcher is None or other.watcher is None:
            names = [] if self.watcher is other.watcher else ["watch"]
            return ", ".join(f"{name}={self.watcher is not None} or {other.watcher is not None}" for name in names)
        names = [name for name in self.watcher if self.watcher[name] != other.watcher.get(name)]
        return ", ".join(f"{name}={self.watcher[name]!r} or {other.watcher.get(name)!r}" for name in names)


_newest: dict[tuple[str, str], DeclaredAsset] = {}
_by_dag_file: dict[tuple[str, str], dict[str, tuple[ModuleType, DeclaredAsset]]] = {}


def declare(name: str, uri: str, asset: DeclaredAsset) -> None:
    """Remember a declaration.

    :raises InvalidSpecError: while DAG files are parsed, when a declaration of the same asset has another watcher.
    """
    dag_file = _dag_file()
    if dag_file is not None:
        declared = _by_dag_file.setdefault((name, uri), {})
        for module_name, (module, other) in declared.items():
            # A file that was parsed again since then may have changed.
            is_current = sys.modules.get(module_name) is module
            if is_current and _belong_together(module, dag_file) and (difference := asset.differs_from(other)):
                raise InvalidSpecError(
                    f"asset {name!r} is declared differently in {_file_of(module)} and {_file_of(dag_file)}: "
                    f"{difference}. Airflow would keep only one of the two; declare the asset once and import it"
                )
        declared[dag_file.__name__] = (dag_file, asset)
    _newest[name, uri] = asset


def declared(name: str, uri: str) -> DeclaredAsset | None:
    """Return the newest declaration of an asset in this process; None for an asset that is not from here."""
    return _newest.get((name, uri))


def _dag_file() -> ModuleType | None:
    """Return the module that Airflow makes of the DAG file it parses now; None while it parses none."""
    name = getattr(DagContext, "current_autoregister_module_name", None)
    return sys.modules.get(name) if name else None


def _belong_together(one: ModuleType, other: ModuleType) -> bool:
    """Tell whether two DAG files are of one deployment: below one folder of the two, or below the DAGs folder."""
    folders = [Path(_file_of(module)).resolve().parent for module in (one, other)]
    roots = [*folders, Path(conf.get("core", "dags_folder")).resolve()]
    return any(all(folder.is_relative_to(root) for folder in folders) for root in roots)


def _file_of(module: ModuleType) -> str:
    return str(getattr(module, "__file__", None) or module.__name__)


REQUIRED_KEYS = ("table", "branch", "snapshot_id", "previous_snapshot_id")


def lake_table_asset(
    table: str,
    *,
    lake_conn_id: str = DEFAULT_CONNECTION,
    watch: bool = False,
    name: str | None = None,
    authority: str | None = None,
    branch: str = "main",
    poll_interval: timedelta | float | str | None = None,
    min_added_rows: int = 0,
    min_interval: timedelta | float | str = 0.0,
    extra: Mapping[str, Any] | None = None,
) -> Asset:
    """Return the asset of a table: ``iceberg://<authority>/<namespace>/<table>``. No connection is read.

    :param table: ``namespace.table``.
    :param lake_conn_id: connection of type ``iceberg``.
    :param watch: make events of every change of the table's rows, whoever commits it, while a DAG is scheduled on the
        asset. Operators of this package then make no event of their own on it. Give every DAG file the same value:
        the asset's definition is what operators go by.
    :param name: the asset's name; None takes the URI.
    :param authority: of the URI; None takes the connection's id.
    :param branch: branch to watch; main's asset has the URI above, another branch's asset has ``/@<branch>`` after it.
    :param poll_interval: seconds, timedelta or ISO-8601 text; None means ``[lake] snapshot_poll_interval``.
    :param min_added_rows: collect commits until they added this many rows.
    :param min_interval: least time between two events, likewise given.
    :param extra: the asset's extra.
    :raises InvalidSpecError: for a malformed table name, branch, number or duration, and where Airflow parses DAG files
        that declare the asset with different watchers.
    :raises InvalidConnectionError: for an authority that does not fit into a URI.
    """
    table_name = TableName.parse(table)
    uri = _uri_of(table_name, lake_conn_id, authority, branch)
    asset_name = name or uri
    known_extra: dict[str, Any] = {} if extra is None else mapping(extra, "extra", "names to values")
    EventThreshold(min_added_rows=min_added_rows)
    trigger = LakeSnapshotEventTrigger(
        table=str(table_name),
        asset_name=asset_name,
        lake_conn_id=lake_conn_id,
        branch=branch,
        poll_interval=poll_interval,
        min_added_rows=min_added_rows,
        min_interval=min_interval,
    )
    watchers = [AssetWatcher(name=f"snapshots of {table_name}", trigger=trigger)] if flag(watch, "watch") else []
    asset = Asset(name=asset_name, uri=uri, extra=known_extra, watchers=watchers)
    settings = trigger.serialize()[1] if watchers else None
    declare(asset.name, asset.uri, DeclaredAsset(lake_conn_id, str(table_name), branch, settings))
    return asset


def _uri_of(table: TableName, lake_conn_id: str, authority: str | None, branch: str) -> str:
    known_authority = checked_authority(text(lake_conn_id, "lake_conn_id") if authority is None else authority)
    return table.asset_uri(known_authority, branch=ref_name(text(branch, "branch"), "branch"))


def watches(asset: object) -> bool:
    """Tell whether an asset has this package's watcher, so that its events come from there and from nowhere else.

    :param asset: an outlet; anything that is not an asset is not watched.
    """
    watchers = asset.watchers if isinstance(asset, Asset) else []
    return any(isinstance(watcher.trigger, LakeSnapshotEventTrigger) for watcher in watchers)


def changed_tables(events: Iterable[Any], lake_conn_id: str, authorities: Iterable[str]) -> list[str]:
    """Return the tables of a connection on whose main branch asset events are, each once.

    :param events: of ``triggering_asset_events``; those of other assets, and of what is no name, are passed over.
    :param authorities: of the URIs of the connection's assets, for those that no DAG file here declares.
    """
    tables: dict[str, None] = {}
    for event in events:
        try:
            payload = snapshot_event(event)
            # Whoever may make events by Airflow's API chooses the text, which is no pattern.
            name = str(TableName.parse(payload["table"]))
        except InvalidSpecError:
            continue
        if payload["branch"] == "main" and is_of_connection(event.asset, lake_conn_id, authorities):
            tables[name] = None
    return list(tables)


def is_of_connection(asset: Any, lake_conn_id: str, authorities: Iterable[str]) -> bool:
    """Tell whether an asset is a lake table of a connection: by its declaration, or else by its URI.

    :param asset: of a DAG or of an event, with name and URI.
    :param authorities: of the URIs of the connection's assets, for those that no DAG file here declares.
    """
    if (declaration := declared(asset.name, asset.uri)) is not None:
        return declaration.lake_conn_id == lake_conn_id
    return bool(asset.uri.startswith(tuple(f"iceberg://{authority}/" for authority in authorities)))


def snapshot_event(event: object) -> dict[str, Any]:
    """Return the payload of an asset event, made by a watcher or by an operator.

    :param event: an event of ``triggering_asset_events`` or ``inlet_events``, or its ``extra``.
    :raises InvalidSpecError: when it is no event of a lake table.
    """
    extra = event if isinstance(event, Mapping) else getattr(event, "extra", None)
    given = extra if isinstance(extra, Mapping) else {}
    payload = given.get("payload") if given.get("from_trigger") else given
    missing = [key for key in REQUIRED_KEYS if not isinstance(payload, Mapping) or key not in payload]
    if missing:
        raise InvalidSpecError(f"{event!r} is not an event of a lake table: it lacks {', '.join(missing)}")
    return dict(payload or {})


_AUTHORITY = re.compile(r"[A-Za-z0-9._-]+")


def checked_authority(authority: object) -> str:
    """Return ``authority``; InvalidConnectionError unless it has only letters, digits, ``.``, ``_`` and ``-``."""
    if not isinstance(authority, str) or not _AUTHORITY.fullmatch(authority):
        raise InvalidConnectionError(
            f"asset authority {authority!r} does not fit into an asset URI; use letters, digits, '.', '_' and '-'"
        )
    return authority

"""Remember how assets of lake tables are declared in this process, and refuse declarations that disagree.

Airflow keeps one definition of an asset, that of the DAG file which it parsed last. A second definition with another
watcher would silently take the place of the first one. It is seen in one file, and where one process parses many files.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from airflow.sdk import conf
from airflow.sdk.definitions._internal.contextmanager import DagContext

from airflow_lake_provider.contracts.errors import InvalidSpecError


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

"""The worker's side of the format that only tests have: it reads the newest head of a table, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.contracts.capabilities import FormatCapabilities
from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.table_facts import MAIN, Reference, Snapshot, TableFacts, TableShape, TableState
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.tables.base import LoadedTable, MetadataVersion
from tests.tiny_format import TINY


class TinyCatalog:
    """Tables below the warehouse of a connection."""

    def __init__(self, connection: CatalogConnection) -> None:
        self._folder = Path(urlsplit(str(connection.warehouse)).path)

    def open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """A folder stays."""

    def count_namespaces(self) -> int:
        return len({name.rpartition(".")[0] for name in self._names()})

    def tables_in(self, namespace: tuple[str, ...]) -> list[str]:
        return [name for name in self._names() if name.startswith(f"{'.'.join(namespace)}.")]

    def load(self, name: TableName) -> TinyLoadedTable:
        heads = sorted((self._folder / str(name)).glob("head-*.json"))
        if not heads:
            raise MissingTableError(f"{name}: there is no head in {self._folder / str(name)}")
        head = heads[-1]
        at = head.stat().st_mtime_ns // 1_000_000
        return TinyLoadedTable(str(name), str(head.parent), json.loads(head.read_text()), at)

    def load_if_changed(
        self, name: TableName, seen: MetadataVersion | None
    ) -> tuple[TinyLoadedTable, MetadataVersion] | None:
        table = self.load(name)
        version = MetadataVersion(str(table.head["version"]))
        return None if version == seen else (table, version)

    def refuse_for_spark(self, name: TableName | None) -> None:
        """A head chooses no code."""

    def _names(self) -> Iterator[str]:
        return iter(sorted({head.parent.name for head in self._folder.glob("*/head-*.json")}))


@dataclass
class TinyLoadedTable(LoadedTable):
    """A head: of the history it knows the last commit alone."""

    capabilities: ClassVar[FormatCapabilities] = TINY
    name: str
    location: str
    head: dict[str, Any]
    at: int

    @property
    def facts(self) -> TableFacts:
        version = self.head["version"]
        newest = None if version is None else Snapshot(id=version, parent=None, at=self.at)
        return TableFacts(
            name=self.name,
            uuid=self.name,
            location=self.location,
            format_version=1,
            properties=self.head["properties"],
            snapshots={newest.id: newest} if newest else {},
            references={MAIN: Reference(name=MAIN, snapshot=newest.id, is_branch=True)} if newest else {},
            main_log=[(self.at, newest.id)] if newest else [],
            read_shape=self._shape,
        )

    def state(self) -> TableState:
        return TableState(snapshot=self.head["version"])

    def _shape(self) -> TableShape:
        columns = json.loads(self.head["columns"])["fields"]
        fields = [
            {"id": number, "name": each["name"], "required": not each["nullable"], "type": each["type"]}
            for number, each in enumerate(columns, 1)
        ]
        return TableShape(
            format_version=1,
            properties=self.head["properties"],
            schemas={0: {"fields": fields}},
            schema_id=0,
            partition_specs={0: []},
            spec_id=0,
        )

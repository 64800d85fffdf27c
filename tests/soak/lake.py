"""A catalog on SQLite in a folder of its own, described by one connection, for drivers that race on its tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog, load_catalog

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection

CATALOG = "lake_default"
NAMESPACE = "soak"


@dataclass(frozen=True)
class Head:
    """Head of main after one commit to the catalog.

    :param snapshot: id of the snapshot.
    :param parent: id of the one before it, None for the first.
    :param run_key: ``lake.run-key`` of its summary.
    :param operation: of Iceberg.
    """

    snapshot: str
    parent: str | None
    run_key: str | None
    operation: str


@dataclass(frozen=True)
class Lake:
    """Folder, connection and Spark settings."""

    home: Path
    connection: CatalogConnection

    @classmethod
    def at(cls, home: Path, **store: str) -> Lake:
        """Lay out an empty catalog below ``home``.

        :param store: extra of the connection where the warehouse lies elsewhere.
        """
        (home / "warehouse").mkdir(parents=True)
        extra = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse", **store}
        lake = cls(home, CatalogConnection.from_fields(conn_id=CATALOG, extra=extra))
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "WARN",
            "spark.local.dir": str(home / "scratch"),
            "spark.sql.warehouse.dir": str(home / "spark-warehouse"),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            **lake.connection.spark_settings(),
        }
        lake.properties.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        return lake

    @property
    def properties(self) -> Path:
        """Settings of a session, as spark-submit reads them."""
        return self.home / "spark.properties"

    def catalog(self) -> Catalog:
        """The catalog in PyIceberg."""
        return load_catalog(CATALOG, **self.connection.pyiceberg_properties())

    def rows(self, table: str) -> dict[int, tuple[Any, ...]]:
        """Rows by id; no id may occur twice."""
        found = self.catalog().load_table(table).scan().to_arrow().to_pylist()
        keyed = {row["id"]: tuple(value for name, value in row.items() if name != "id") for row in found}
        assert len(keyed) == len(found), f"keys occur twice in {sorted(row['id'] for row in found)}"
        return keyed

    def heads(self, table: str) -> list[Head]:
        """Return what main has been at, oldest first, also where the snapshots were expired since.

        Each commit to the catalog leaves a metadata file, and the newest lists the 100 before it. A refused commit's
        file is in no such list.
        """
        loaded = self.catalog().load_table(table)
        files = [*(entry.metadata_file for entry in loaded.metadata.metadata_log), loaded.metadata_location]
        found: list[Head] = []
        for file in files:
            head = _head(json.loads(Path(urlsplit(file).path).read_text()))
            if head is not None and (not found or head != found[-1]):
                found.append(head)
        return found


def _head(metadata: dict[str, Any]) -> Head | None:
    at = metadata.get("refs", {}).get("main", {}).get("snapshot-id")
    for snapshot in metadata["snapshots"]:
        if snapshot["snapshot-id"] == at:
            parent = snapshot.get("parent-snapshot-id")
            summary = snapshot["summary"]
            key = summary.get("lake.run-key")
            return Head(str(at), str(parent) if parent is not None else None, key, summary["operation"])
    return None

"""Many tables in a catalog on PostgreSQL, made by PyIceberg, and commits to them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

from tests.end_to_end.postgresql_server import postgresql_server

CATALOG = "lake"
# Metadata as that of a table which is written to and maintained.
_COLUMNS = 30
_SNAPSHOTS = 20
_SCHEMA = pa.schema([pa.field(f"c{number}", pa.int64()) for number in range(_COLUMNS)])


@dataclass
class WatchedLake:
    """Tables ``bench.t0000`` and so on.

    :param port: of the database.
    :param commits: seconds since the epoch of each snapshot that was committed to a table, by its id.
    """

    catalog: Catalog
    tables: list[str]
    port: int
    user: str
    password: str
    commits: dict[str, dict[int, float]] = field(default_factory=dict)

    def commit(self, table: str) -> None:
        """Append a row."""
        loaded = self.catalog.load_table(table)
        loaded.append(pa.table({name: [1] for name in _SCHEMA.names}, schema=_SCHEMA))
        snapshot = loaded.metadata.snapshots[-1]
        self.commits.setdefault(table, {})[snapshot.snapshot_id] = snapshot.timestamp_ms / 1000


@contextmanager
def watched_lake(folder: Path, tables: int) -> Iterator[WatchedLake]:
    """Serve a lake with that many tables, of 20 snapshots each."""
    # Hex, since Airflow's own connection takes the password inside the URI.
    with postgresql_server(password=uuid.uuid4().hex) as server:
        uri = f"postgresql+psycopg2://{server.user}:{server.password}@127.0.0.1:{server.port}/postgres"
        warehouse = folder / "warehouse"
        warehouse.mkdir()
        with closing(load_catalog(CATALOG, type="sql", uri=uri, warehouse=f"file://{warehouse}")) as catalog:
            names = [f"bench.t{number:04d}" for number in range(tables)]
            _make_tables(catalog, names, warehouse)
            yield WatchedLake(catalog, names, server.port, server.user, server.password)


def _make_tables(catalog: Catalog, names: list[str], warehouse: Path) -> None:
    catalog.create_namespace("bench")
    first = catalog.create_table("bench.first", schema=_SCHEMA, location=f"file://{warehouse}/first")
    for _ in range(_SNAPSHOTS):
        first.append(pa.table({name: [1] for name in _SCHEMA.names}, schema=_SCHEMA))
    metadata = json.loads(Path(first.metadata_location.removeprefix("file://")).read_text())
    for name in names:
        folder = warehouse / name
        (folder / "metadata").mkdir(parents=True)
        copy = folder / "metadata" / f"00000-{uuid.uuid4()}.metadata.json"
        copied = {**metadata, "table-uuid": str(uuid.uuid4()), "location": f"file://{folder}", "metadata-log": []}
        copy.write_text(json.dumps(copied))
        catalog.register_table(name, f"file://{copy}")

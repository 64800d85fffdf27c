"""Fixtures of unit tests: an Airflow home of their own, and a catalog on SQLite behind the default connection."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Airflow reads its home and settings once, on import; the settings of whoever starts the tests are none of theirs.
for name in [name for name in os.environ if name.startswith(("AIRFLOW_", "LAKE_"))]:
    del os.environ[name]
_home = tempfile.TemporaryDirectory(prefix="airflow-home-", ignore_cleanup_errors=True)
os.environ["AIRFLOW_HOME"] = _home.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "INFO"

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


def pytest_unconfigure() -> None:
    """Remove this process's Airflow home now, too: a worker of xdist may end without the clean-up of Python."""
    shutil.rmtree(_home.name, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def bytecode_made_once() -> Iterator[None]:
    """Compile each file of the jobs' archive once: a task that submits does, and hundreds of tests have such a task."""
    from airflow_lake_provider.submission import job_files

    compiled = job_files._bytecode

    @functools.cache
    def once(name: str, source: bytes, _python: bytes) -> bytes:
        return compiled(name, source)

    def for_this_python(name: str, source: bytes) -> bytes:
        return once(name, source, vars(job_files)["MAGIC_NUMBER"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_files, "_bytecode", for_this_python)
        yield


@pytest.fixture(autouse=True)
def masks_of_one_test() -> Iterator[None]:
    """Let Airflow forget the secrets of a test's connections.

    Each new one has it compile a pattern of all secrets again, which took half a second after some hundred tests.
    """
    yield
    if masker := sys.modules.get("airflow.sdk._shared.secrets_masker"):
        masker.reset_secrets_masker()


@pytest.fixture
def lake_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Connection ``lake_default``: a PyIceberg SQL catalog in a file; its id."""
    extra = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": extra}))
    return "lake_default"


@pytest.fixture
def tiny_connection(lake_connection: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same connection to tables of a format that only tests have, which one entry has registered; its id."""
    from airflow_lake_provider.contracts.capabilities import FORMATS
    from tests.tiny_format import TINY

    monkeypatch.setitem(FORMATS, TINY.name, TINY)
    connection = json.loads(os.environ["AIRFLOW_CONN_LAKE_DEFAULT"])
    connection["extra"]["table_format"] = TINY.name
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(connection))
    return lake_connection


@pytest.fixture
def lake_catalog(tmp_path: Path, lake_connection: str) -> Iterator[SqlCatalog]:
    """The catalog of ``lake_connection``, opened by PyIceberg alone, with the namespace ``shop``."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog(
        lake_connection, uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("shop")
    yield catalog
    catalog.close()


@pytest.fixture
def orders(lake_catalog: SqlCatalog) -> Table:
    """The table ``shop.orders`` with the column ``id``, without a snapshot."""
    import pyarrow as pa

    return lake_catalog.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]))


@pytest.fixture
def append() -> Callable[..., int]:
    """Append rows with these ids and return the snapshot's id."""
    import pyarrow as pa

    def run(table: Table, *ids: int, branch: str = "main") -> int:
        table.append(pa.table({"id": pa.array(ids, pa.int64())}), branch=branch)
        return table.metadata.refs[branch].snapshot_id

    return run


@pytest.fixture
def compact() -> Callable[[Table], int]:
    """Commit what a compaction commits, a ``replace`` snapshot over the same rows, and return its id.

    PyIceberg cannot compact, so this commits the metadata alone; manifests are those of the head.
    """
    from pyiceberg.table.snapshots import Operation, Summary
    from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate

    def run(table: Table) -> int:
        head = table.refresh().current_snapshot()
        assert head is not None
        counts = {"added-data-files": "1", "deleted-data-files": "2", "total-records": "2", "added-records": "2"}
        new = head.model_copy(
            update={
                "snapshot_id": table.metadata.new_snapshot_id(),
                "parent_snapshot_id": head.snapshot_id,
                "sequence_number": table.metadata.next_sequence_number(),
                "timestamp_ms": head.timestamp_ms + 1,
                "summary": Summary(Operation.REPLACE, **counts),
            }
        )
        moved = {"ref-name": "main", "type": "branch", "snapshot-id": new.snapshot_id}
        ref = SetSnapshotRefUpdate.model_validate(moved)
        expected = (AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": head.snapshot_id}),)
        table.catalog.commit_table(table, expected, (AddSnapshotUpdate(snapshot=new), ref))
        table.refresh()
        return new.snapshot_id

    return run

"""Metadata files that are gone, cut off, too large or packed many times over, named by a catalog in a database."""

from __future__ import annotations

import gzip
import json
import os
import socket
import sqlite3
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider.contracts.errors import (
    AccessDeniedError,
    BrokenMetadataError,
    LakeProviderError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

MEGABYTE = 1024 * 1024


def written(folder: Path, name: str, body: bytes) -> str:
    path = folder / name
    path.write_bytes(body)
    return f"file://{path}"


def pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe.metadata.json")
    return f"file://{folder}/pipe.metadata.json"


def changed(**values: object) -> Callable[[Path, bytes], str]:
    return lambda folder, body: written(folder, "c.metadata.json", json.dumps({**json.loads(body), **values}).encode())


def not_to_be_read(folder: Path, body: bytes) -> str:
    location = written(folder, "p.metadata.json", body)
    (folder / "p.metadata.json").chmod(0)
    if not os.access(folder / "p.metadata.json", os.R_OK):
        return location
    # Root may read that one, and not what the kernel only takes.
    written_only = (path for path in Path("/sys").glob("*/*/*/*/demote") if not path.stat().st_mode & 0o444)
    return f"file://{next(written_only, '/sys/kernel/mm/hugepages/hugepages-2048kB/demote')}"


def link_to_itself(folder: Path) -> str:
    (folder / "k.metadata.json").symlink_to(folder / "k.metadata.json")
    return f"file://{folder}/k.metadata.json"


FILES: dict[str, Callable[[Path, bytes], str]] = {
    "gone": lambda folder, _: f"file://{folder}/gone.metadata.json",
    "a folder": lambda folder, _: f"file://{folder}",
    "empty": lambda folder, _: written(folder, "e.metadata.json", b""),
    "cut off": lambda folder, body: written(folder, "c.metadata.json", body[: len(body) // 2]),
    "no text": lambda folder, _: written(folder, "n.metadata.json", os.urandom(1000)),
    "another object": lambda folder, _: written(folder, "o.metadata.json", b'{"a": 1}'),
    "null": lambda folder, _: written(folder, "0.metadata.json", b"null"),
    "not to be read": not_to_be_read,
    "a link to itself": lambda folder, _: link_to_itself(folder),
    "a list": lambda folder, _: written(folder, "l.metadata.json", b"[1]"),
    "nested deeply": lambda folder, _: written(folder, "d.metadata.json", b"[" * 100_000),
    "too large": lambda folder, body: written(folder, "t.metadata.json", body + b" " * (3 * MEGABYTE)),
    "too large unpacked": lambda folder, body: written(
        folder, "b.gz.metadata.json", gzip.compress(body + b" " * (64 * MEGABYTE))
    ),
    "a broken archive": lambda folder, body: written(folder, "b.gz.metadata.json", gzip.compress(body)[:-20]),
    "no archive": lambda folder, body: written(folder, "b.gz.metadata.json", body),
    "an endless device": lambda *_: "file:///dev/zero",
    "a pipe that nobody writes": lambda folder, _: pipe(folder),
    "another scheme": lambda *_: "gopher://nowhere/1.metadata.json",
    "no schema": changed(schemas=[], **{"current-schema-id": 9}),
    "a version of 99": changed(**{"format-version": 99}),
    "a surrogate": lambda folder, body: written(
        folder, "s.metadata.json", body.replace(b'"properties":{', b'"properties":{"a":"\\ud800",')
    ),
    "a number of 5,000 digits": changed(**{"last-updated-ms": "9" * 5000}),
}


@pytest.fixture
def point_at(
    orders: Table, append: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_ANSWER_MEGABYTES", "1")
    append(orders, 1)
    body = Path(orders.metadata_location.removeprefix("file://")).read_bytes()

    def run(name: str) -> None:
        location = FILES[name](tmp_path, body)
        with sqlite3.connect(tmp_path / "catalog.db") as connection:
            connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (location,))

    return run


@pytest.mark.parametrize("name", FILES)
def test_metadata_that_cannot_be_read_is_an_error_of_the_table_that_no_retry_mends(
    name: str, point_at: Callable[[str], None], lake_connection: str
) -> None:
    from airflow_lake_provider.cli.table_check import check
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.sensors.lake_snapshot import LakeSnapshotSensor
    from airflow_lake_provider.triggers.poll_threads import PollThreads

    point_at(name)
    looks: list[Callable[[], Any]] = [
        lambda: LakeCatalogHook(lake_connection).load_table("shop.orders"),
        lambda: PollThreads(lake_connection).look("shop.orders", ("main",), None),
        lambda: LakeSnapshotSensor(task_id="s", table="shop.orders", since="1").poke({}),
    ]
    begin = time.monotonic()
    for look in looks:
        with pytest.raises(LakeProviderError, match=r"shop\.orders") as failed:
            look()
        # Not every machine has a file that root may not read.
        kind = (AccessDeniedError, BrokenMetadataError) if name == "not to be read" else (BrokenMetadataError,)
        assert isinstance(failed.value, kind), failed.value
        assert len(str(failed.value)) < 2000
        str(failed.value).encode()
    asked: dict[str, Any] = {"table": "shop.orders", "conn_id": lake_connection, "keys": []}
    with pytest.raises(SystemExit, match=r"^(BrokenMetadata|AccessDenied)Error: .*shop\.orders"):
        check(Namespace(**asked, source=None, arguments=None, output="json", verbose=False))
    assert time.monotonic() - begin < 16


def of_version_3(metadata: dict[str, Any]) -> None:
    metadata.update({"format-version": 3, "next-row-id": 1})
    for snapshot in metadata["snapshots"]:
        snapshot.update({"first-row-id": 0, "added-rows": 1})


def with_column(kind: object) -> Callable[[dict[str, Any]], None]:
    column = {"id": 50, "name": "payload", "type": kind, "required": False}
    return lambda metadata: metadata["schemas"][0]["fields"].append(column)


def with_blob(metadata: dict[str, Any]) -> None:
    blob = {"type": "hive-column-statistics", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}
    sizes = {"file-size-in-bytes": 9, "file-footer-size-in-bytes": 1}
    of_head = {"snapshot-id": metadata["current-snapshot-id"], "statistics-path": "s3://b/s.puffin"}
    metadata["statistics"] = [{**of_head, **sizes, "blob-metadata": [blob]}]


def with_order_of_several(metadata: dict[str, Any]) -> None:
    term = {"source-ids": [1, 2], "transform": "zorder", "direction": "asc", "null-order": "nulls-first"}
    metadata["sort-orders"].append({"order-id": 7, "fields": [term]})


def with_transform(metadata: dict[str, Any]) -> None:
    field = {"source-id": 1, "field-id": 1000, "name": "place", "transform": "bucketV2[3]"}
    metadata["partition-specs"].append({"spec-id": 1, "fields": [field]})


def of_version_1_without_lists(metadata: dict[str, Any]) -> None:
    """Let snapshots name their manifests themselves, as with ``write.manifest-lists.enabled=false`` of old."""
    metadata.update({"format-version": 1, "schema": metadata["schemas"][0], "partition-spec": []})
    for snapshot in metadata["snapshots"]:
        snapshot["manifests"] = [snapshot.pop("manifest-list")]


# Metadata that Iceberg's Java library takes, and PyIceberg 0.12 does not.
AHEAD: dict[str, Callable[[dict[str, Any]], object]] = {
    "'variant'": with_column("variant"),
    "variant'": with_column({"type": "list", "element-id": 51, "element": "variant", "element-required": False}),
    "geometry(srid:3857)": with_column("geometry(srid:3857)"),
    "geography(srid:4326, spherical)": with_column("geography(srid:4326, spherical)"),
    "Multi argument transforms": with_order_of_several,
    "bucketV2[3]": with_transform,
    "hive-column-statistics": with_blob,
    "snapshot-log": lambda metadata: metadata.update({"snapshot-log": None}),
    "metadata-log": lambda metadata: metadata.update({"metadata-log": None}),
    "manifest-list": of_version_1_without_lists,
    "tag '4'": lambda metadata: metadata.update({"format-version": 4}),
}


@pytest.mark.parametrize("named", AHEAD)
def test_metadata_that_pyiceberg_does_not_know_is_not_called_broken(
    named: str, orders: Table, append: Callable[..., int], tmp_path: Path, lake_connection: str
) -> None:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    append(orders, 1)
    metadata = json.loads(Path(orders.metadata_location.removeprefix("file://")).read_bytes())
    of_version_3(metadata)
    AHEAD[named](metadata)
    location = written(tmp_path, "a.metadata.json", json.dumps(metadata).encode())
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (location,))
    with pytest.raises(UnsupportedError, match=r"shop\.orders.* PyIceberg") as refused:
        LakeCatalogHook(lake_connection).loaded("shop.orders")
    assert named in str(refused.value)
    assert "Restore" not in str(refused.value)


def test_packed_metadata_of_a_sound_size_is_read(
    orders: Table, append: Callable[..., int], tmp_path: Path, lake_connection: str
) -> None:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    append(orders, 1)
    body = Path(orders.metadata_location.removeprefix("file://")).read_bytes()
    packed = written(tmp_path, "p.gz.metadata.json", gzip.compress(body))
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (packed,))
    assert LakeCatalogHook(lake_connection).loaded("shop.orders").state().manifests == 1


@pytest.mark.usefixtures("orders")
def test_a_statement_of_sqlite_that_never_ends_is_interrupted(
    tmp_path: Path, lake_connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    monkeypatch.setenv("AIRFLOW__LAKE__CATALOG_TIMEOUT", "0.5")
    hook = LakeCatalogHook(lake_connection)
    _ = hook.catalog
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.executescript(
            "ALTER TABLE iceberg_tables RENAME TO kept; CREATE VIEW iceberg_tables AS WITH RECURSIVE n(i) AS "
            "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT kept.* FROM kept, n WHERE n.i < 0;"
        )
    begin = time.monotonic()
    with pytest.raises(LakeProviderError):
        hook.load_table("shop.orders")
    assert time.monotonic() - begin < 5


STORES: dict[str, dict[str, str]] = {
    "s3://b": {"s3.endpoint": "{}", "s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "x"},
    "gs://b": {"gcs.service.host": "{}", "gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": "1999999999999"},
}


@pytest.mark.parametrize("call", ["open", "exists", "len"])
@pytest.mark.parametrize("store", STORES)
def test_a_store_that_takes_connections_and_says_nothing_is_given_up_at_the_deadline(store: str, call: str) -> None:
    from pyiceberg.io import load_file_io

    from airflow_lake_provider.hooks.bounded_catalogs.metadata_files import bound_files
    from airflow_lake_provider.hooks.call_limits import within

    ask: Callable[[Any], Any] = {"open": lambda file: file.open(), "exists": lambda file: file.exists(), "len": len}[
        call
    ]
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host = f"http://127.0.0.1:{mute.getsockname()[1]}"
        properties = {name: value.format(host) for name, value in STORES[store].items()}
        file = bound_files(load_file_io(properties, f"{store}/x.json")).new_input(f"{store}/x.json")
        begin = time.monotonic()
        with within(0.5), pytest.raises(TimeoutError):
            ask(file)
        assert time.monotonic() - begin < 2


PRIVATE = {
    "JSON": b'{"conn": "postgres://user:TOPSECRET@host/db"}',
    "a list": b'["TOPSECRET"]',
    "text": b"TOPSECRET",
    "settings": b"[core]\nfernet_key = TOPSECRET\n",
    "the environment": b"A=b\0KEY=TOPSECRET\0",
    "nothing but a string": b'"TOPSECRET"',
    "no text": b"\xff\xfe TOPSECRET",
    "a table with a secret": b'{"format-version": 2, "properties": {"k": "TOPSECRET"}}',
}


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.usefixtures("orders")
def test_a_file_of_this_machine_that_is_no_metadata_is_not_shown(
    name: str, tmp_path: Path, lake_connection: str
) -> None:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

    location = written(tmp_path, "private", PRIVATE[name])
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (location,))
    with pytest.raises(BrokenMetadataError, match="cannot be read") as failed:
        LakeCatalogHook(lake_connection).load_table("shop.orders")
    assert "SECRET" not in str(failed.value)

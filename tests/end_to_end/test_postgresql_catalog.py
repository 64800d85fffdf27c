"""One connection on a real PostgreSQL server: Spark and PyIceberg share the catalog, the password stays unseen."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import psycopg2
import pytest
from pyiceberg.catalog import load_catalog

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from tests.spark.spark_application import run_in_spark

_DEBIAN_FOLDERS = "/usr/lib/postgresql"


@dataclass(frozen=True)
class Server:
    port: int
    user: str
    password: str


def find_binaries() -> Path:
    found = sorted(Path(_DEBIAN_FOLDERS).glob("*/bin/initdb")) + [Path(p) for p in [shutil.which("initdb")] if p]
    if not found:
        pytest.skip(f"no PostgreSQL server under {_DEBIAN_FOLDERS} or on PATH; install it: apt-get install postgresql")
    return found[-1].parent


def as_postgres(command: list[str], folder: Path) -> None:
    # The server refuses to run as root; Debian's package brings the user.
    program = shutil.which("runuser", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])) or "runuser"
    runuser = [program, "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*runuser, *command], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    binaries = find_binaries()
    folder = Path(mkdtemp(prefix="lake-postgresql-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Characters that a URI must escape; hex keeps it quotable in a file.
    password = f"p@ss/{secrets.token_hex(8)}:%"
    password_file = folder / "password"
    password_file.write_text(password)
    data = folder / "data"
    as_postgres(
        [f"{binaries}/initdb", "-D", str(data), "-U", "lake", "-A", "scram-sha-256", f"--pwfile={password_file}", "-N"],
        folder,
    )
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='' -c fsync=off"
    control = [f"{binaries}/pg_ctl", "-D", str(data), "-w"]
    as_postgres([*control, "-l", str(folder / "log"), "-o", options, "start"], folder)
    try:
        yield Server(port, "lake", password)
    finally:
        as_postgres([*control, "-m", "immediate", "stop"], folder)
        shutil.rmtree(folder)


@pytest.mark.live
@pytest.mark.slow
def test_a_postgresql_catalog_is_shared_by_spark_and_pyiceberg(server: Server, tmp_path: Path) -> None:
    connection = CatalogConnection.from_fields(
        conn_id="lake_pg",
        host=f"postgresql+psycopg2://127.0.0.1:{server.port}/postgres?application_name=lake",
        login=server.user,
        password=server.password,
        extra={"type": "sql", "warehouse": f"{tmp_path}/warehouse"},
    )
    answer = run_in_spark(
        connection,
        tmp_path,
        "CREATE NAMESPACE shop",
        "CREATE TABLE shop.orders (id BIGINT) USING iceberg",
        "INSERT INTO shop.orders VALUES (1), (2)",
        "SET",
        "SELECT sum(id) FROM shop.orders",
    )
    assert answer["rows"][-1] == [[3]]
    shown = dict(answer["rows"][3])
    assert shown["spark.sql.catalog.lake_pg.jdbc.password"] == "*********(redacted)"
    assert server.password not in str(answer["rows"])

    catalog = load_catalog(connection.catalog_name, **connection.pyiceberg_properties())
    assert sorted(catalog.load_table("shop.orders").scan().to_arrow()["id"].to_pylist()) == [1, 2]

    with closing(
        psycopg2.connect(
            host="127.0.0.1", port=server.port, user=server.user, password=server.password, dbname="postgres"
        )
    ) as database:
        cursor = database.cursor()
        cursor.execute("SELECT catalog_name, table_name, iceberg_type FROM iceberg_tables")
        assert cursor.fetchall() == [("lake_pg", "orders", "TABLE")]

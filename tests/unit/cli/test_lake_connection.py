"""``airflow lake connection`` through Airflow's own command line: does the catalog answer, and why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.unit.cli.lake_command import run_lake

SECRET = "hush-hush-secret"
# What ``airflow db migrate`` makes takes a minute; a connection needs these two.
_STORE = """
import sys
from airflow import settings
from airflow.models import Connection
from airflow.models.team import Team
from airflow.utils.session import create_session

for model in (Team, Connection):
    model.__table__.create(settings.engine)
with create_session() as session:
    session.add(Connection(conn_id="stored", conn_type="iceberg", host=sys.argv[1], extra=sys.argv[2]))
"""


def test_a_catalog_that_answers_is_said_with_its_namespaces(
    lake_catalog: SqlCatalog, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_catalog.create_namespace("mart")
    run_lake("connection")
    assert capsys.readouterr().out == "The sql catalog 'lake_default' answered: 2 namespaces.\n"


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (None, r"^connection 'nowhere' does not exist; create it"),
        ({"conn_type": "http", "host": "x"}, "^connection 'nowhere': its type is 'http', expected 'iceberg'"),
        ({"conn_type": "iceberg", "host": "http://x", "extra": {"warehose": "x"}}, "'warehose' is unknown"),
        ({"conn_type": "iceberg", "host": f"postgresql://u:{SECRET}@db/lake", "extra": {"type": "sql"}}, "password"),
    ],
)
def test_what_is_wrong_is_said_without_a_secret_and_the_exit_code_is_1(
    stored: dict[str, object] | None, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if stored is not None:
        monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", json.dumps(stored))
    # Python prints the text of an exit as an error, and exits with 1.
    with pytest.raises(SystemExit, match=why) as ended:
        run_lake("connection", "--conn-id", "nowhere")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert SECRET not in f"{ended.value.code}{printed}"


def test_a_connection_in_airflows_own_database_is_asked(tmp_path: Path) -> None:
    # Processes of their own: this one has no database, and reads the environment alone.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "_AIRFLOW_"))}
    environment = {
        **kept,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    extra = json.dumps({"type": "sql", "warehouse": f"{tmp_path}/warehouse"})
    store = [sys.executable, "-c", _STORE, f"sqlite:///{tmp_path}/catalog.db", extra]
    subprocess.run(store, env=environment, check=True, capture_output=True, timeout=300)
    command = ["airflow", "lake", "connection", "--conn-id"]
    done = subprocess.run([*command, "stored"], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("The sql catalog 'stored' answered: 0 namespaces.\n"), done.stderr
    assert done.returncode == 0
    done = subprocess.run([*command, "other"], env=environment, capture_output=True, text=True, check=False)
    assert "connection 'other' does not exist" in done.stderr
    assert done.returncode == 1

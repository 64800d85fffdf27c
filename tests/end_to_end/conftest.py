"""An Airflow home and a lake of their own for each session, and the environment that a user would set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def lake_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lake-home")
    (home / "warehouse").mkdir()
    return home


@pytest.fixture(scope="session")
def airflow_environment(lake_home: Path) -> dict[str, str]:
    lake = {"type": "sql", "uri": f"sqlite:///{lake_home}/catalog.db", "warehouse": f"file://{lake_home}/warehouse"}
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "AIRFLOW_HOME": str(lake_home / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LAKE__SPARK_JARS": os.environ.get("LAKE_JARS", str(REPOSITORY / ".lake" / "jars")),
        "AIRFLOW__LAKE__JOB_DIRECTORY": str(lake_home / "jobs"),
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "iceberg", "extra": lake}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_VAR_SHOP_INBOX": str(lake_home / "inbox"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.fixture(scope="session")
def migrated(airflow_environment: dict[str, str]) -> Mapping[str, str]:
    """The environment, with Airflow's database made."""
    subprocess.run(["airflow", "db", "migrate"], env=airflow_environment, check=True, capture_output=True)
    return airflow_environment

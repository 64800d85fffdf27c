"""Environment of Airflow's commands on a lake in a folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cryptography.fernet import Fernet

if TYPE_CHECKING:
    import pytest

REPOSITORY = Path(__file__).parents[2]
FERNET_KEY = Fernet.generate_key().decode()
_ARCHIVE = ("-XX:SharedArchiveFile=", "-Xlog:disable")


def environment_of(lake_home: Path) -> Mapping[str, str]:
    """Return the environment of Airflow's commands on a lake.

    :param lake_home: existing folder.
    """
    jars = Path(os.environ.get("LAKE_JARS", REPOSITORY / ".lake" / "jars"))
    assert list(jars.glob("*.jar")), f"no jars in {jars}; run scripts/setup, or name their folder in LAKE_JARS"
    lake = {"type": "sql", "uri": f"sqlite:///{lake_home}/catalog.db", "warehouse": f"file://{lake_home}/warehouse"}
    # Without class path and archive of the scripts: drivers here get their jars and classes as production drivers do.
    kept_out = ("AIRFLOW", "SPARK_DIST_CLASSPATH")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(kept_out)}
    options = [option for option in os.environ.get("SPARK_SUBMIT_OPTS", "").split() if not option.startswith(_ARCHIVE)]
    return {
        **inherited,
        # An interpreter that was started by its path still finds its own airflow and spark-submit.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(REPOSITORY),
        "AIRFLOW_HOME": str(lake_home / "airflow"),
        # Two processes that begin at once would each write a settings file, with a key of its own.
        "AIRFLOW__CORE__FERNET_KEY": FERNET_KEY,
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LAKE__SPARK_JARS": str(jars),
        "AIRFLOW__LAKE__CLASS_ARCHIVE": str(_made_once() / "classes"),
        "AIRFLOW__LAKE__JOB_DIRECTORY": str(lake_home / "jobs"),
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "iceberg", "extra": lake}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_VAR_SHOP_INBOX": str(lake_home / "inbox"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": " ".join(options),
    }


def quick_environment_of(lake_home: Path) -> Mapping[str, str]:
    """Return the environment without Spark's pages: if nobody looks, they take a driver 1.5 s of CPU time."""
    environment = environment_of(lake_home)
    options = f"{environment['SPARK_SUBMIT_OPTS']} -Dspark.ui.enabled=false"
    return {**environment, "SPARK_SUBMIT_OPTS": options.strip()}


def make_database(environment: Mapping[str, str]) -> None:
    """Give Airflow a database as ``airflow db migrate`` makes it: a copy of one that is made once for all tests.

    :param environment: of Airflow's commands; its home has no database yet.
    """
    home, made_once = Path(environment["AIRFLOW_HOME"]), _made_once()
    made_once.mkdir(parents=True, exist_ok=True)
    database = made_once / f"airflow-{version('apache-airflow-core')}.db"
    # Tests of several processes may begin at once.
    with (made_once / "airflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not database.exists():
            _migrate(environment, database)
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(database, home / "airflow.db")


def _migrate(environment: Mapping[str, str], database: Path) -> None:
    with TemporaryDirectory(dir=database.parent) as home:
        done = subprocess.run(
            ["airflow", "db", "migrate"],
            env={
                **environment,
                "AIRFLOW_HOME": home,
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"airflow db migrate ended with {done.returncode}:\n{done.stderr[-4000:]}"
        (Path(home) / "airflow.db").rename(database)


def _made_once() -> Path:
    """Return the folder of what all tests share."""
    return Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake")) / "test"


def make_lake_home(folders: pytest.TempPathFactory) -> Path:
    """Make the folder with ``catalog.db`` and ``warehouse`` of the connection ``lake_default``."""
    home = folders.mktemp("lake")
    (home / "warehouse").mkdir()
    return home

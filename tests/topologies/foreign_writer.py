"""Another writer: Spark SQL, without the package's upsert."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.submission.job_files import JobFiles
from tests.spark import one_connection_session


def append_order(name: str) -> None:
    """Append one order to a table of the default connection."""
    settings = {
        **LakeCatalogHook().connection.spark_settings(),
        "spark.jars": ",".join(_jars()),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    with tempfile.TemporaryDirectory() as folder:
        # In a private file: secrets among the settings would be seen on the command line.
        files = JobFiles.open(Path(folder), "foreign")
        files.write_settings(settings)
        files.settings.rename(files.settings.with_name("spark-defaults.conf"))
        done = subprocess.run(
            [sys.executable, str(one_connection_session.__file__)],
            input=json.dumps({"settings": {}, "statements": [f"INSERT INTO {name} VALUES (4, 'foreign', 4.00)"]}),
            env={**os.environ, "SPARK_CONF_DIR": str(files.settings.parent)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert "ANSWER " in done.stdout, f"Spark ended with {done.returncode}:\n{done.stderr[-4000:]}"


def _jars() -> list[str]:
    paths = [Path(name) for name in os.environ["AIRFLOW__LAKE__SPARK_JARS"].split(",")]
    return [str(jar) for path in paths for jar in (path.glob("*.jar") if path.is_dir() else [path])]

"""Another writer: Spark SQL, without the package's upsert."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.submission.job_files import JobFiles
from tests.spark.spark_application import ask_session


def append_order(name: str) -> None:
    """Append one order to a table of the default connection."""
    settings = {
        **LakeCatalogHook().connection.spark_settings(),
        "spark.jars": os.environ["AIRFLOW__LAKE__SPARK_JARS"],
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    with tempfile.TemporaryDirectory() as folder:
        # In a private file: secrets among the settings would be seen on the command line.
        files = JobFiles.open(Path(folder), "foreign")
        files.write_settings(settings)
        files.settings.rename(files.settings.with_name("spark-defaults.conf"))
        statement = f"INSERT INTO {name} VALUES (4, 'foreign', 4.00)"
        ask_session({}, [statement], Path(folder), SPARK_CONF_DIR=str(files.settings.parent))

"""Lay out one lake for whole Spark applications, and submit scripts to it by a bare ``spark-submit``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.submission.spark_installation import launch_environment, spark_submit_binary

EMPTY = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().stop()\n"


@dataclass(frozen=True)
class SubmittedLake:
    """Folders and settings of one run."""

    home: Path
    connection: CatalogConnection

    @classmethod
    def at(cls, home: Path, conn_id: str = "lake_default", settings: Mapping[str, str] | None = None) -> SubmittedLake:
        """Lay out a catalog below ``home``.

        :param conn_id: of the lake's connection, and the name of its catalog.
        :param settings: of the scripts, beside those of the connection.
        """
        (home / "warehouse").mkdir(parents=True)
        extra = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}
        os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps({"conn_type": "iceberg", "extra": extra})
        os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": "local[2]"})
        os.environ["AIRFLOW__LAKE__JOB_DIRECTORY"] = str(home / "jobs")
        connection = CatalogConnection.from_fields(conn_id=conn_id, extra=extra)
        lines = {"spark.log.level": "WARN", **connection.spark_settings(), **(settings or {})}
        (home / "bare.properties").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
        return cls(home, connection)

    def submit(self, code: str, *arguments: str, **environment: str) -> float:
        """Run a script by the same spark-submit and settings, and return its seconds.

        :param environment: variables beside this process's.
        """
        script = self.home / "script.py"
        script.write_text(code)
        jars = ",".join(str(jar) for jar in sorted(Path(os.environ["AIRFLOW__LAKE__SPARK_JARS"]).glob("*.jar")))
        command = [str(spark_submit_binary()), "--master", "local[2]", "--jars", jars]
        command += ["--properties-file", str(self.home / "bare.properties"), str(script), *arguments]
        variables = {**os.environ, **launch_environment("local[2]"), **environment}
        started = time.monotonic()
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        took = time.monotonic() - started
        if done.returncode:
            sys.exit(done.stderr[-4000:])
        return took


def task_context(run: str, map_index: int = -1, pushed: dict[str, Any] | None = None) -> Any:
    """Return what an operator sees of its task in a run that nobody scheduled.

    :param pushed: XCom of the run, which tasks push to and pull from.
    """
    xcom: dict[str, Any] = {} if pushed is None else pushed
    tries = {"try_number": 1, "max_tries": 0}
    instance = SimpleNamespace(dag_id="bench", run_id=run, task_id="bench", map_index=map_index, stats_tags={}, **tries)
    instance.xcom_push = lambda key, value, **_: xcom.update({key: value})
    instance.xcom_pull = lambda key, **_: xcom.get(key)
    return {
        "ti": instance,
        "dag_run": SimpleNamespace(run_after=None, start_date=None, clear_number=0),
        "outlet_events": {},
    }

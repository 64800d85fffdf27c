"""Start a Spark application in a process of its own, so that no other session's catalog can interfere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection

_APPLICATION = Path(__file__).with_name("one_connection_session.py")


def run_in_spark(connection: CatalogConnection, ivy_home: Path, *statements: str) -> dict[str, Any]:
    """Run SQL through the connection's own settings and packages, and nothing else that could name a catalog.

    :param connection: its settings and packages make the session.
    :param ivy_home: empty folder for Spark's own Ivy.
    :param statements: SQL texts.
    """
    settings = {
        **connection.spark_settings(),
        "spark.jars.packages": ",".join(connection.spark_packages()),
        "spark.jars.ivy": str(ivy_home),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1536m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
    }
    # Spark would first look into the user's Maven repository, and fail where that has a POM without its jar.
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Duser.home={ivy_home}".strip()
    return ask_session(settings, statements, ivy_home, SPARK_SUBMIT_OPTS=options)


def ask_session(
    settings: Mapping[str, str], statements: Sequence[str], folder: Path, **environment: str
) -> dict[str, Any]:
    """Run SQL in a session of its own and return what it answers.

    :param settings: are seen on the command line.
    :param statements: SQL texts.
    :param folder: to work in.
    :param environment: variables beside this process's.
    """
    finished = subprocess.run(
        [sys.executable, str(_APPLICATION)],
        input=json.dumps({"settings": settings, "statements": statements}),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
        check=False,
    )
    answers = [line for line in finished.stdout.splitlines() if line.startswith("ANSWER ")]
    assert answers, f"Spark ended with {finished.returncode}:\n{finished.stderr[-6000:]}"
    answer: dict[str, Any] = json.loads(answers[-1].removeprefix("ANSWER "))
    return answer

"""Start a Spark application in a process of its own, so that no other session's catalog can interfere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection

_APPLICATION = Path(__file__).with_name("one_connection_session.py")
_LONGEST_SECONDS = 300.0
# Takes SQL texts, and gives what the session answers to them.
Ask = Callable[..., dict[str, Any]]


@contextmanager
def session_of(connection: CatalogConnection, ivy_home: Path) -> Iterator[Ask]:
    """Open a session with the connection's own settings and packages, and nothing else that could name a catalog.

    :param connection: its settings and packages make the session.
    :param ivy_home: empty folder for Spark's own Ivy.
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
    with _session(settings, ivy_home, SPARK_SUBMIT_OPTS=options) as ask:
        yield ask


def ask_session(
    settings: Mapping[str, str], statements: Sequence[str], folder: Path, **environment: str
) -> dict[str, Any]:
    """Run SQL in a session of its own and return what it answers.

    :param settings: are seen on the command line.
    :param statements: SQL texts.
    :param folder: to work in.
    :param environment: variables beside this process's.
    """
    with _session(settings, folder, **environment) as ask:
        return ask(*statements)


@contextmanager
def _session(settings: Mapping[str, str], folder: Path, **environment: str) -> Iterator[Ask]:
    log = folder / "spark-application.log"
    with (
        log.open("w") as told,
        subprocess.Popen(
            [sys.executable, str(_APPLICATION)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            cwd=folder,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
        ) as process,
    ):
        assert process.stdin
        assert process.stdout

        def ask(*statements: str) -> dict[str, Any]:
            print(json.dumps({"settings": settings, "statements": statements}), file=process.stdin, flush=True)
            for line in process.stdout or ():
                if line.startswith("ANSWER "):
                    answer: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                    return answer
            raise AssertionError(f"Spark ended with {process.wait()}:\n{log.read_text()[-6000:]}")

        too_long = Timer(_LONGEST_SECONDS, process.kill)
        too_long.start()
        try:
            yield ask
        finally:
            process.stdin.close()
            process.wait()
            too_long.cancel()

"""Find the Spark that this worker submits with."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from airflow_lake_provider.contracts.errors import UnsupportedError


def refuse_mixed_installation() -> None:
    """Refuse pyspark and pyspark-client of two versions: both install into ``pyspark/`` and overwrite each other.

    :raises UnsupportedError: when both are installed and differ.
    """
    found = {}
    for name in ("pyspark", "pyspark-client"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if len(set(found.values())) > 1:
        raise UnsupportedError(
            f"pyspark {found['pyspark']} and pyspark-client {found['pyspark-client']} share one folder and have "
            "overwritten parts of each other; reinstall both with one version"
        )


def launch_environment(master: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what the process ``spark-submit`` needs beside the worker's own environment.

    :param master: Spark master URL.
    :param environment: the worker's; what is set there wins.
    """
    wanted = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    if master.startswith("local"):
        wanted["PYSPARK_PYTHON"] = sys.executable
    home = bundled_spark_home()
    if home is not None:
        wanted["SPARK_HOME"] = str(home)
    return {name: value for name, value in wanted.items() if name not in environment}


def spark_submit_binary(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the absolute path of the bundled ``spark-submit``; None when SPARK_HOME or the PATH shall decide."""
    home = bundled_spark_home()
    if home is None or "SPARK_HOME" in environment:
        return None
    return str(home / "bin" / "spark-submit")


def bundled_spark_home() -> Path | None:
    """Return the folder of an installed pyspark; None when there is only the client, which cannot submit."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent
    return home if (home / "bin" / "spark-submit").exists() else None

"""Plans of the start of a driver, on a Spark and a Java of empty files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.driver_start import DriverStart

LOCAL = SparkTarget(master="local[2]", cluster_mode=False)
CONNECTION = CatalogConnection.from_fields(
    conn_id="lake_default", extra={"type": "sql", "uri": "sqlite:////lake/catalog.db", "warehouse": "file:///lake"}
)


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java and a Spark of empty files, a jar of ours, and a folder for archives."""
    for name in ("jdk/bin/java", "spark/jars/spark.jar", "ours/iceberg.jar"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("AIRFLOW__LAKE__SPARK_JARS", str(tmp_path / "ours"))
    monkeypatch.setenv("AIRFLOW__LAKE__CLASS_ARCHIVE", str(tmp_path / "archives"))
    # Told where to listen, a driver is left alone.
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_CONF_DIR", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def planned(
    target: SparkTarget = LOCAL, settings: str = "", *, is_short: bool = False, **arguments: Any
) -> DriverStart:
    operator = LakeCompactionOperator(task_id="compact", table="shop.orders", **arguments)
    return DriverStart.plan(operator, target, CONNECTION, settings=settings, attempt="a", is_short=is_short)

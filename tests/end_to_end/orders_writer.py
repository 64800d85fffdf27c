"""Commits to shop.orders that do not go through Airflow: the package's own driver under a bare spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.spec_codec import Job, job_to_json
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.submission.job_files import APPLICATION, job_archive
from airflow_lake_provider.submission.spark_installation import launch_environment, spark_submit_binary

_SCHEMA = "op STRING, order_id STRING, customer_id BIGINT, status STRING, placed_at TIMESTAMP, total DECIMAL(12,2)"


def upsert_orders(environment: Mapping[str, str], folder: Path, changes: list[dict[str, Any]]) -> None:
    """Apply changes by ``order_id``; those with ``op`` of ``d`` delete.

    :param environment: has the connection and the jars.
    :param folder: empty folder for the batch and its spec.
    """
    folder.mkdir()
    (folder / "batch.json").write_text("\n".join(json.dumps(change) for change in changes))
    spec = UpsertSpec(
        catalog="lake_default",
        table="shop.orders",
        run=RunIdentity.of("batch", folder.name),
        source=Files(path=str(folder / "batch.json"), format="json", schema=_SCHEMA, name="orders_writer"),
        keys=("order_id",),
        delete_when="op = 'd'",
        schema_contract=SchemaContract(exclude_columns=("op",)),
    )
    (folder / "spec.json").write_text(job_to_json(Job({"orders": spec})))
    command = [*_spark_submit(environment, folder), "--spec", str(folder / "spec.json")]
    done = subprocess.run(
        [*command, "--report", str(folder / "report.json")],
        env={**environment, **launch_environment("local[2]", environment=environment), **_prepared()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-8000:]
    (report,) = json.loads((folder / "report.json").read_text())["tasks"].values()
    assert report["report"]["outcome"] == "applied"


def _prepared() -> dict[str, str]:
    """Return class path and archive of classes of the scripts, with which a driver needs a third less CPU time."""
    names = ("SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS")
    return {name: os.environ[name] for name in names if name in os.environ}


def _spark_submit(environment: Mapping[str, str], folder: Path) -> list[str]:
    extra = json.loads(environment["AIRFLOW_CONN_LAKE_DEFAULT"])["extra"]
    settings = {
        **CatalogConnection.from_fields(conn_id="lake_default", extra=extra).spark_settings(),
        "spark.ui.enabled": "false",
    }
    if "SPARK_DIST_CLASSPATH" not in _prepared():
        jars = Path(environment["AIRFLOW__LAKE__SPARK_JARS"]).glob("*.jar")
        settings["spark.jars"] = ",".join(map(str, jars))
    properties = folder / "spark.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    binary = spark_submit_binary(environment) or "spark-submit"
    options = ["--master", "local[2]", "--properties-file", str(properties), "--py-files", str(job_archive(folder))]
    return [binary, *options, str(APPLICATION)]

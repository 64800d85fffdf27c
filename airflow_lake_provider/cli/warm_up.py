"""``airflow lake warm-up``: make the archive of classes before the first task needs it."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.cli.command_process import as_command, printable, run_driver
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.specs.spec_codec import Job
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
from airflow_lake_provider.operators.driver_start import DriverStart
from airflow_lake_provider.operators.spark_submission import SparkSubmission

_CATALOG = "lake_warm_up"
_RUN = RunIdentity.of("lake", "warm-up")
_SPARK = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.defaultCatalog": _CATALOG,
}
_SPARK_CATALOG = {
    "": "org.apache.iceberg.spark.SparkCatalog",
    ".catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
    ".warehouse": "warm-up",
}


def warm_up(args: argparse.Namespace) -> None:
    """Make the archive, unless there is one, and say where it is.

    :param args: ``conn_id`` and ``spark_conn_id``.
    :raises SystemExit: no archive can be made here; it says why.
    """
    with as_command():
        target = SparkTarget.read(args.spark_conn_id, None)
        if target.cluster_mode:
            raise SystemExit("Drivers run in the cluster, so no archive on this machine would be used.")
        connection = LakeCatalogHook(args.conn_id).connection
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            start = _run(args.spark_conn_id, target, connection, Path(folder))
    if start.archive is None:
        raise SystemExit("No archive can be made. The log above says why, or [lake] class_archive is 'off'.")
    file = start.archive.file
    if file is None:
        raise SystemExit(
            f"No archive was made in {start.archive.folder}. The log above has what the driver said. Without one, "
            "another driver makes it now, or this Java made none before."
        )
    outcome = f"made in {time.monotonic() - started:.0f} s" if start.makes_archive else "was there"
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB, {outcome}")


def _run(spark_conn_id: str, target: SparkTarget, connection: CatalogConnection, folder: Path) -> DriverStart:
    attempt = SparkSubmission.open(Job({"warm-up": _spec(folder)}), connection, target, run=_RUN)
    submit = SparkSubmitOperator(task_id="submit", conn_id=spark_conn_id, name="lake warm-up", conf={})
    start = attempt.driver_start(submit)
    try:
        if not start.makes_archive:
            return start
        catalog = {f"spark.sql.catalog.{_CATALOG}{name}": value for name, value in _SPARK_CATALOG.items()}
        attempt.files.write_settings({"spark.log.level": "WARN", **_SPARK, **catalog})
        failure = run_driver(submit, attempt, start)
        reports = attempt.read_reports().values()
        if failure is not None and not reports:
            raise SystemExit(printable(f"The driver has failed: {failure}"))
        start.accept(is_whole=failure is None and all(isinstance(report, JobReport) for report in reports))
        return start
    finally:
        attempt.close()
        start.release()


def _spec(folder: Path) -> UpsertSpec:
    """Return an upsert that a table is created for, of rows that need most of what small jobs need."""
    rows = "".join(json.dumps({"id": number, "n": number, "name": f"row {number}"}) + "\n" for number in range(100))
    (folder / "rows.jsonl").write_text(rows)
    return UpsertSpec(
        catalog=_CATALOG,
        table="warm.up",
        run=_RUN,
        source=Files(str(folder), format="json", name="warm-up"),
        keys=("id",),
        order_by=("n",),
    )

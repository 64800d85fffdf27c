"""Write the lake: run this in a checkout of commit 9bcfaf4, see tests/data/lake_of_9bcfaf4/README.md.

::

    python -m tests.make_earlier_lake FOLDER lake.tar.xz
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.spark_jobs.actions.incremental_run import run_incremental
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.earlier_lake import REVENUE, ROOT, deliveries, write
from tests.spark.conftest import lake_jars
from tests.spark.upsert_flow import Flow


def main(folder: Path, archive: Path) -> None:
    """Apply what each source brought, and pack the lake."""
    spark, tables = _session(folder), {}
    for name, delivery in deliveries().items():
        plain: dict[str, Any] = {"source": delivery.source, "delete_when": None, "exclude_columns": ()}
        flow = Flow(spark, f"lake.{name}", folder / "inbox" / name, {**plain, **delivery.arguments})
        for number, files in enumerate(delivery.before or [{}], start=1):
            write(flow.inbox, files)
            print(name, flow.apply(f"run {number}").reason)
        assert _rows(spark, name) == delivery.rows_before, (name, _rows(spark, name))
    head = _first(spark, "SELECT snapshot_id FROM lake.products.snapshots ORDER BY committed_at DESC")
    spec = IncrementalSpec(
        catalog="lake_default",
        table="lake.revenue",
        run=RunIdentity.of("dag", "run 1", "task", "-1"),
        source="lake.products",
        consumer="revenue",
        keys=("id",),
        to_snapshot=head,
        query=REVENUE,
    )
    print("revenue", run_incremental(spark, spec, Progress()).reason)
    for row in spark.sql("SHOW TABLES IN lake").collect():
        log = f"SELECT file FROM lake.{row.tableName}.metadata_log_entries ORDER BY timestamp DESC"
        tables[row.tableName] = _first(spark, log)
    (folder / "tables.json").write_text(json.dumps(tables, indent=1, sort_keys=True) + "\n")
    spark.stop()
    with tarfile.open(archive, "w:xz") as packed:
        for name in ("inbox", "warehouse", "tables.json"):
            packed.add(folder / name, name, filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if entry.name.endswith(".crc") else entry


def _first(spark: SparkSession, query: str) -> str:
    return str(spark.sql(query).collect()[0][0])


def _rows(spark: SparkSession, name: str) -> dict[int, tuple[Any, ...]]:
    return {row.id: (row.n, row.note) for row in spark.sql(f"SELECT id, n, note FROM lake.{name}").collect()}


def _session(folder: Path) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    catalog = "spark.sql.catalog.lake_default"
    settings = {
        "spark.ui.enabled": "false",
        "spark.jars": lake_jars(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": "lake_default",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"{ROOT}/warehouse",
        **{f"spark.hadoop.fs.viewfs.mounttable.earlier.link./{name}": f"file://{folder}/{name}" for name in FOLDERS},
    }
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sql("CREATE NAMESPACE lake")
    return session


FOLDERS = ("inbox", "warehouse")
if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())

"""Start the one session in which all sides of a warm benchmark play."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
from pyspark import SparkConf
from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.session.open_session import fit_session, settings_at_start
from airflow_lake_provider.submission.spark_installation import collector_option, settings_folder


def open_session(home: Path) -> SparkSession:
    """Start the one session of all sides, set up as a driver of ours is."""
    jars = [str(jar) for jar in sorted(Path(os.environ["AIRFLOW__LAKE__SPARK_JARS"]).glob("*.jar"))]
    conf = settings_folder(Path(pyspark.__file__).parent, os.environ)
    extensions = ["org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"]
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **settings_at_start(SparkConf(loadDefaults=False)),
        "spark.driver.memory": os.environ.get("LAKE_BENCH_MEMORY", "6g"),
        # As the operator gives it. With the JVM's default a side paid for the heap of the side before it.
        "spark.driver.extraJavaOptions": collector_option([os.environ.get("SPARK_SUBMIT_OPTS", "")], os.environ, conf),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(home / "scratch"),
        "spark.sql.warehouse.dir": str(home / "delta"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"file://{home}/warehouse",
    }
    if delta := os.environ.get("LAKE_DELTA_JARS"):
        jars += [str(jar) for jar in sorted(Path(delta).glob("*.jar"))]
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    settings |= {"spark.jars": ",".join(jars), "spark.sql.extensions": ",".join(extensions)}
    builder = SparkSession.builder.master("local[2]").appName("upsert benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    fit_session(spark, spark.sparkContext.getConf())
    return spark

"""Archive the classes of a Spark driver (class data sharing), so that the drivers after it load them from memory.

``scripts/setup`` runs it once, with the JVM's option that dumps the archive when this process ends.
"""

from __future__ import annotations

import tempfile
from typing import Any

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf


def load_classes() -> None:
    """Do a little of everything that a small job does: a catalog, JSON, a window, a MERGE."""
    with tempfile.TemporaryDirectory() as folder:
        spark = _session(folder)
        text = spark.range(10).select(sf.to_json(sf.struct("id")).alias("value"))
        text.write.text(f"{folder}/lines")
        rows = spark.read.text(f"{folder}/lines").select(sf.from_json("value", "id BIGINT, n BIGINT").alias("row"))
        newest = Window.partitionBy("id").orderBy("n")
        rows.select("row.*").withColumn("n", sf.row_number().over(newest)).createOrReplaceTempView("batch")
        spark.sql("CREATE NAMESPACE lake.shop")
        spark.sql("CREATE TABLE lake.shop.t (id BIGINT, n BIGINT) USING iceberg TBLPROPERTIES ('format-version'='3')")
        for _ in range(2):
            spark.sql(
                "MERGE INTO lake.shop.t USING batch ON t.id = batch.id "
                "WHEN MATCHED THEN UPDATE SET n = batch.n WHEN NOT MATCHED THEN INSERT *"
            )
        gateway: Any = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        # The JVM ends when its input does, and writes the archive then.
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _session(folder: str) -> SparkSession:
    catalog = "spark.sql.catalog.lake"
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{catalog}.warehouse": f"file://{folder}/warehouse",
    }
    builder = SparkSession.builder.master("local[2]").appName("class archive")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    load_classes()

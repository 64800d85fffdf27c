"""Revenue of the shop, computed by PySpark in the driver of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf


def revenue_by_day(spark: SparkSession, inputs: Mapping[str, DataFrame], params: Mapping[str, Any]) -> DataFrame:
    """Return a row for each day: its orders but those of a status, and what they are worth.

    :param inputs: ``orders``.
    :param params: ``left_out``, the status.
    """
    orders = inputs["orders"].where(sf.col("status") != params["left_out"])
    return orders.groupBy(sf.to_date("placed_at").alias("day")).agg(
        sf.count(sf.lit(1)).alias("orders"), sf.sum("total").cast("decimal(14,2)").alias("revenue")
    )

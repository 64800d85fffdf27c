"""A function of a user's own, beside the file that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def numbers(spark: SparkSession, inputs: Mapping[str, DataFrame], params: Mapping[str, Any]) -> DataFrame:
    """Return two rows of a day."""
    return spark.createDataFrame([(1, params["day"]), (2, params["day"])], "id BIGINT, day STRING")

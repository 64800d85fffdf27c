"""Code of the author's that a task runs in its driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def cheapest(spark: SparkSession, inputs: Mapping[str, DataFrame], params: Mapping[str, Any]) -> DataFrame:
    print(f"prices are at most {params['most']}")
    return inputs["prices"].filter(f"price <= {params['most']}")

"""Syntax that Spark 4 has and Spark 3.5 has not."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession


def parses(spark: SparkSession, statement: str) -> bool:
    """Tell whether this Spark's parser takes a statement; nothing of it is run."""
    session: Any = spark._jsparkSession
    try:
        session.sessionState().sqlParser().parsePlan(statement)
    except ParseException:
        return False
    return True


def skip_without_pipes(spark: SparkSession, text: str) -> None:
    """Skip a test of a text that has ``|>`` where this Spark has none."""
    if "|>" in text and not parses(spark, "FROM VALUES (1) AS v(x) |> WHERE x = 1"):
        pytest.skip("this Spark has no pipe syntax")

"""Key and order columns whose values no engine compares are refused by name, before Spark fails over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.sources.test_unreadable_files import flow

LINE = (
    '{"id": 1, "m": {"a": 1}, "s": {"m": {"a": 1}}, "l": [{"a": 1}], "v": {"a": 1}, "sv": {"v": 1}, "a": [1], '
    '"p": {"x": 1}}\n'
)
TYPES = (
    "id BIGINT, m MAP<STRING, INT>, s STRUCT<m: MAP<STRING, INT>>, l ARRAY<MAP<STRING, INT>>, v VARIANT, "
    "sv STRUCT<v: VARIANT>, a ARRAY<INT>, p STRUCT<x: INT>"
)


@pytest.mark.parametrize("column", ["m", "s", "l", "v", "sv"])
def test_a_column_that_cannot_be_ordered_is_refused_as_key_and_as_order(
    spark: SparkSession, tmp_path: Path, column: str
) -> None:
    (tmp_path / "a.json").write_text(LINE)
    source = Files(str(tmp_path / "a.json"), format="json", schema=TYPES, name="source")
    ways: dict[str, dict[str, Any]] = {
        "key columns": {"keys": (column,)},
        "order_by columns": {"keys": ("id",), "order_by": (column,)},
    }
    for said, asked in ways.items():
        with pytest.raises(BadInputError, match=rf"{said} {{'{column}': "):
            flow(spark, tmp_path, "unordered").apply(column, source=source, **asked)


@pytest.mark.parametrize("column", ["a", "p"])
def test_lists_and_structs_identify_no_row(spark: SparkSession, tmp_path: Path, column: str) -> None:
    (tmp_path / "a.json").write_text(LINE)
    source = Files(str(tmp_path / "a.json"), format="json", schema=TYPES, name="source")
    with pytest.raises(BadInputError, match=rf"key columns {{'{column}': .*cannot identify a row"):
        flow(spark, tmp_path, "unordered").apply(column, source=source, keys=(column,))

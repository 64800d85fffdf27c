"""Random histories over types of keys and formats of files; ``scripts/soak histories`` plays many, and longer ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.soak.histories import verdict
from tests.spark.typed_history import TypedHistory

CASES: dict[str, dict[str, Any]] = {
    "texts in ORC": {"kinds": ["STRING"], "file_format": "orc", "version": "3", "metrics": "full"},
    "days in Avro": {"kinds": ["DATE", "BINARY"], "file_format": "avro", "version": "3"},
    "texts in Parquet": {"kinds": ["STRING"], "file_format": "parquet", "version": "2", "metrics": "truncate(1)"},
}


@pytest.mark.in_every_part
@pytest.mark.parametrize("case", sorted(CASES))
def test_keys_of_any_type_in_files_of_any_format_are_found(spark: SparkSession, tmp_path: Path, case: str) -> None:
    TypedHistory.drawn(spark, tmp_path / "inbox", case, **CASES[case]).play(5)


def test_a_soak_whose_time_is_over_before_all_histories_are_played_fails() -> None:
    assert verdict(100, 100, []) == ("100 of 100 histories, 0 failed: []", 0)
    assert verdict(100, 100, [7])[1] == 1
    told, code = verdict(3, 100, [])
    assert (code, told.split(";")[0]) == (1, "3 of 100 histories, 0 failed: []")

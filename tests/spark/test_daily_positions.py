"""A part of the runs of ``scripts/soak positions``, with a fixed seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied import source_position
from tests.soak.positions import soak
from tests.spark.upsert_flow import Flow

pytestmark = pytest.mark.in_every_part


def test_runs_over_a_path_of_a_day_count_every_file_once_and_leave_a_small_position(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few files fit into a property that most of the runs write a list beside the metadata.
    monkeypatch.setattr(source_position, "MAX_VALUE_CHARACTERS", 300)
    print(soak(Flow(spark, "positions.daily", tmp_path / "inbox"), runs=12, seed=11, clean_every=6, rows_every=2))

"""A twentieth of ``scripts/soak faults``: calls that fail within jobs, and drivers that are killed."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.soak.fault_kills import kill_drivers
from tests.soak.fault_kinds import KINDS
from tests.soak.faults import FaultSoak
from tests.soak.faulty_session import FaultySession
from tests.soak.lake import Lake
from tests.soak.tiny_batches import planned_for_tiny_batches

pytestmark = pytest.mark.in_every_part


def test_after_a_fault_a_table_is_as_before_or_after_the_job_and_a_retry_applies_it_once(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake = Lake.at(tmp_path_factory.mktemp("faults") / "lake")
    spark.sparkContext.setLogLevel("OFF")
    try:
        with FaultySession.over(lake, spark) as session, planned_for_tiny_batches(session.spark):
            soak = FaultSoak(session, lake, "1", per_table=5)
            soak.play(range(len(KINDS)), faults=100)
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    assert soak.failed == {}
    assert soak.faults >= 100


def test_the_retry_of_a_driver_that_was_killed_anywhere_applies_its_job_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # What removes files and rows: test_killed_driver.py kills loads.
    kinds = ("orphan files", "row expiry")
    killed, failed = kill_drivers(Lake.at(tmp_path_factory.mktemp("killed") / "lake"), "6", kills=2, kinds=kinds)
    assert failed == []
    assert killed.total() == 2

"""A table that has forgotten its older runs, and tries of such a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity

_RUN_AFTER = datetime(2026, 1, 1, tzinfo=UTC)


def forget_runs(spark: SparkSession, table: str) -> None:
    """Say on a table that run keys of a day after the run were dropped."""
    until = int((_RUN_AFTER + timedelta(days=1)).timestamp())
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lake.run-keys-dropped-before' = '{until}')")


def old_run(try_number: int) -> RunIdentity:
    """Return a try of the run."""
    return RunIdentity.of("dag", "old run", "task", "-1", try_number=try_number, run_after=_RUN_AFTER)

"""A driver that kills itself and its JVM at the moment that an environment variable names."""

from __future__ import annotations

import os
import signal

from airflow_lake_provider.spark_jobs.formats.iceberg.upserts import position_upsert
from tests.soak.served_specs import serve
from tests.spark.upsert_flow import InterruptedProgress

KILL_AT = "LAKE_TEST_KILL_AT"
# The phase that begins at that moment; the other two moments are within the last phase, and after it.
PHASES = {"before stage": "stage", "after stage": "commit", "after copying": "commit", "before publish": "publish"}
AFTER_VECTORS, AFTER_COMMIT = "after vectors", "after commit, before the report"


def kill() -> None:
    """Kill this process and its JVM, which is in the same process group; nothing of either runs on."""
    os.killpg(0, signal.SIGKILL)


def serve_until_killed() -> None:
    """Serve specs; the first upsert that gets there is the last."""
    moment = os.environ[KILL_AT]
    if moment == AFTER_VECTORS:
        vars(position_upsert)["commit_row_delta"] = lambda *_: kill()
    before_report = {"before_report": kill} if moment == AFTER_COMMIT else {}
    serve(lambda: InterruptedProgress(at=PHASES.get(moment, ""), then=kill), **before_report)

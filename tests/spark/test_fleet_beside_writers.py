"""A twentieth of the soak of the fleet: tables are maintained beside writers, and nobody loses a row or a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.fleet import SECONDS, soak

pytestmark = pytest.mark.in_every_part


def test_no_batch_fails_and_no_row_is_lost_while_tables_are_maintained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AIRFLOW_CONN_LAKE_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT", "AIRFLOW__LAKE__JOB_DIRECTORY"):
        # The soak sets them, and they are put back.
        monkeypatch.setenv(name, "")
    seen = soak(tmp_path, seed=20, seconds=SECONDS / 20, partitions=250)
    assert seen["failed"] == []
    assert seen["runs"] >= 2
    assert seen["arrow_share"] >= 0.7

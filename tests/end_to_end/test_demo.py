"""The DAGs of dags/, run as the README's first command runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_demo_brings_every_table_to_what_the_source_database_held(
    airflow_environment: Mapping[str, str], tmp_path: Path
) -> None:
    environment = {**airflow_environment, "LAKE_HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path / "airflow")}
    done = subprocess.run(
        [sys.executable, "scripts/demo.py", "--at-once"],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "every table equals the oracle" in done.stdout
    result = json.loads((tmp_path / "demo.json").read_text())
    assert result["wrong"] == []
    for gained in ("files", "delete_files", "bytes", "snapshots", "stored_files"):
        before, after = (sum(counts[gained] for counts in result[when].values()) for when in ("before", "after"))
        # All parts at once are one commit, which leaves little to tidy up.
        assert after <= before
    for dag in (
        "ingest_orders",
        "load_order_events",
        "on_new_orders_snapshot",
        "nightly_maintenance",
        "expire_at_once",
    ):
        assert f"airflow dags test {dag}" in done.stdout

"""A task that is killed while its driver lives on, and the retry that meets that driver."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.table.snapshots import ancestors_of

from tests.end_to_end.airflow_command import DAGS, AirflowCommand, dag_run, processes
from tests.shop_oracle import SHOP, keys_of, oracle


def test_a_retry_beside_the_living_driver_of_a_killed_task_applies_the_batch_once(
    migrated: Mapping[str, str], lake_home: Path
) -> None:
    inbox = lake_home / "killed-inbox"
    inbox.mkdir()
    for part in SHOP.glob("part-*.jsonl.gz"):
        shutil.copy(part, inbox)
    environment = {**migrated, "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS), "AIRFLOW_VAR_SHOP_INBOX": str(inbox)}
    test_run = dag_run("products_once")

    killed = AirflowCommand(environment, test_run)
    killed.wait_for("[lake] read ...")
    os.kill(killed.process.pid, signal.SIGKILL)
    killed.process.wait()
    drivers = processes("run_job.py --spec")
    assert drivers, "the driver died with its task, so this test would prove nothing"

    output = AirflowCommand(environment, test_run).wait()

    table = load_catalog("lake_default", type="sql", uri=f"sqlite:///{lake_home}/catalog.db").load_table(
        "shop.products"
    )
    rows = table.scan().to_arrow().to_pylist()
    assert {tuple(row[key] for key in keys_of("products")): row for row in rows} == oracle("products")
    assert len(rows) == len(oracle("products"))
    history = [s.summary for s in ancestors_of(table.current_snapshot(), table.metadata) if s.summary]
    run_keys = [summary["lake.run-key"] for summary in history if summary["lake.run-key"]]
    assert len(run_keys) == 1, f"the batch was committed by {run_keys}"
    assert "shop.products: applied" in output or "shop.products: already-applied" in output

"""Secrets of the connection stay out of command lines, logs, XCom, templates, Spark's environment and events."""

from __future__ import annotations

import json
import shutil
import stat
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.end_to_end.airflow_command import DAGS, AirflowCommand, processes
from tests.shop_oracle import SHOP

SECRETS = {"s3.secret-access-key": "hush-0f6a2c-secret", "s3.access-key-id": "hush-77ab31-key-id"}


class Watch:
    """Looks at every process, Spark's environment page and the settings file while a job runs."""

    def __init__(self, jobs: Path, ui_port: int) -> None:
        self.jobs, self.ui_port = jobs, ui_port
        self.command_lines: list[str] = []
        self.environment = ""
        self.modes: set[int] = set()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while not self.stopped.is_set():
            self.command_lines += processes("hush-").values()
            self.modes |= {stat.S_IMODE(file.stat().st_mode) for file in self.jobs.glob("*/spark.properties")}
            self._read_environment()
            time.sleep(0.5)

    def _read_environment(self) -> None:
        base = f"http://127.0.0.1:{self.ui_port}/api/v1/applications"
        try:
            with urllib.request.urlopen(base, timeout=5) as answer:
                application = json.load(answer)[0]["id"]
            with urllib.request.urlopen(f"{base}/{application}/environment", timeout=5) as answer:
                self.environment = answer.read().decode()
        except (OSError, urllib.error.URLError, IndexError, ValueError):
            return


def test_no_secret_of_the_connection_is_seen_anywhere_and_a_cluster_of_workers_runs_the_job(
    migrated: Mapping[str, str], lake_home: Path, unused_tcp_port: int
) -> None:
    inbox, events, jobs = lake_home / "secret-inbox", lake_home / "spark-events", lake_home / "secret-jobs"
    for folder in (inbox, events, jobs):
        folder.mkdir()
    shutil.copy(SHOP / "part-1.jsonl.gz", inbox)
    lake = json.loads(migrated["AIRFLOW_CONN_LAKE_DEFAULT"])
    lake["extra"] = {**lake["extra"], **SECRETS, "warehouse": f"file://{lake_home}/secret-warehouse"}
    defaults = lake_home / "spark-conf"
    defaults.mkdir()
    (defaults / "spark-defaults.conf").write_text(
        f"spark.ui.enabled true\nspark.ui.port {unused_tcp_port}\nspark.driver.bindAddress 127.0.0.1\n"
        "spark.driver.host 127.0.0.1\nspark.executor.memory 1g\n"
    )
    environment = {
        **migrated,
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW_VAR_SHOP_INBOX": str(inbox),
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps(lake),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local-cluster[2,1,1024]"}),
        "AIRFLOW__LAKE__JOB_DIRECTORY": str(jobs),
        "SPARK_EVENTS": f"file://{events}",
        "SPARK_CONF_DIR": str(defaults),
    }
    watch = Watch(jobs, unused_tcp_port)
    output = AirflowCommand(environment, ("dags", "test", "products_once")).wait()
    watch.stopped.set()
    watch.thread.join(30)

    assert "[lake] commit" in output
    assert "hush-" not in output
    assert watch.command_lines == []
    assert watch.modes == {0o600}
    assert "spark.sql.catalog.lake_default.s3.secret-access-key" in watch.environment
    assert "hush-" not in watch.environment
    assert list(jobs.glob("attempt-*")) == [], "the settings outlived the task"
    written = [
        file for folder in (events, Path(migrated["AIRFLOW_HOME"])) for file in folder.rglob("*") if file.is_file()
    ]
    assert any(events in file.parents for file in written)
    # The database of Airflow holds XCom and rendered templates; the connection itself is in the environment only.
    assert [file for file in written if b"hush-" in file.read_bytes()] == []

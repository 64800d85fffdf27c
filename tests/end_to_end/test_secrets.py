"""Secrets of the connection stay out of command lines, logs, XCom, templates, Spark's environment and events."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.end_to_end.airflow_command import DAGS, AirflowCommand
from tests.end_to_end.secret_watch import SecretWatch, assert_no_secret_was_seen, pages_at
from tests.shop_oracle import SHOP

SECRETS = {"s3.secret-access-key": "hush-0f6a2c-secret", "s3.access-key-id": "hush-77ab31-key-id"}


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
    with SecretWatch(jobs, partial(pages_at, unused_tcp_port)) as watch:
        output = AirflowCommand(environment, ("dags", "test", "products_once")).wait()

    assert "[lake] commit" in output
    assert any("spark.sql.catalog.lake_default.s3.secret-access-key" in page for page in watch.environments)
    assert_no_secret_was_seen(watch, output, events, [Path(migrated["AIRFLOW_HOME"])])

"""Provider info for Airflow: operators, sensors, triggers, hooks, commands and ``[lake]`` settings."""

from __future__ import annotations

from typing import Any

INTEGRATION = "Lake tables"


def get_provider_info() -> dict[str, Any]:
    """Return the provider description that Airflow reads through the entry point ``apache_airflow_provider``."""
    return {
        "package-name": "airflow-lake-provider",
        "name": "Lake",
        "description": "Upserts into lake tables with PySpark, their maintenance, and DAGs that run on new snapshots.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["software"]}],
        "operators": [
            _modules(
                "operators",
                *("upsert", "append", "overwrite_partitions", "incremental", "delete_rows", "update_rows"),
                *("compaction", "snapshot_expiry", "orphan_files", "rewrite_manifests", "row_expiry", "statistics"),
                *("rollback", "publish_branch", "tags", "table_upgrade", "lake_application", "dead_letter_replay"),
                *("maintenance_plan", "lake_maintenance"),
            )
        ],
        "sensors": [_modules("sensors", "lake_snapshot")],
        "triggers": [_modules("triggers", "lake_snapshot", "yarn_application")],
        "hooks": [_modules("hooks", "lake_catalog")],
        "cli": ["airflow_lake_provider.cli.definition.lake_commands"],
        "extra-links": [
            f"airflow_lake_provider.operators.{name}"
            for name in (
                "outcome.ReportLink",
                *("links.SparkApplicationLink", "links.YarnApplicationLink", "links.LakePageLink"),
            )
        ],
        "config": {"lake": {"description": "Settings of lake tables and of the jobs on them.", "options": _options()}},
    }


def _modules(folder: str, *names: str) -> dict[str, Any]:
    modules = [f"airflow_lake_provider.{folder}.{name}" for name in names]
    return {"integration-name": INTEGRATION, "python-modules": modules}


def _options() -> dict[str, dict[str, Any]]:
    return {**_options_of_catalogs(), **_options_of_maintenance(), **_options_of_drivers()}


def _options_of_catalogs() -> dict[str, dict[str, Any]]:
    return {
        "snapshot_poll_interval": _option(
            "Seconds between two looks at a table's head by sensors and triggers.", kind="float", default="60"
        ),
        "watch_connections": _option(
            "Looks at tables of one catalog that a triggerer makes at once, each on a connection of its own.",
            kind="integer",
            default="4",
        ),
        "watch_look_timeout": _option(
            "Seconds after which a look at a table counts as failed.", kind="float", default="30"
        ),
        "watch_overdue_intervals": _option(
            "Poll intervals without an answered look after which a table raises the alarm.", kind="float", default="2"
        ),
        "catalog_timeout": _option(
            "Seconds in which a call of a catalog ends: opening it, listing its tables, loading one, a commit of "
            "metadata.",
            kind="float",
            default="60",
        ),
        "catalog_answer_megabytes": _option(
            "MiB that an answer of a catalog, a metadata file or a manifest may have, unpacked.",
            kind="float",
            default="128",
        ),
    }


def _options_of_maintenance() -> dict[str, dict[str, Any]]:
    return {
        "policy_file": _option(
            "YAML file with maintenance policies of tables, relative to the folder of DAGs. Empty: "
            "'lake_policy.yaml' there, where it exists.",
            example="policies/lake.yaml",
        ),
        "maintenance_history": _option(
            "Table of the catalog to which a run of maintenance appends what it did; it is made when it is missing. "
            "'off', or empty: none.",
            default="lake_ops.maintenance_history",
        ),
        "maintenance_leases": _option(
            "Table of the catalog with the tables that a run of maintenance has leased, which other runs leave alone; "
            "it is made when it is missing. 'off', or empty: none.",
            default="lake_ops.maintenance_leases",
        ),
        "maintenance_dag": _option(
            "DAG that the lake page triggers for one table, with params as those of the example 'maintain_one_table', "
            "'lake_conn_id' among them. "
            "Empty: none.",
            default="maintain_one_table",
        ),
    }


def _options_of_drivers() -> dict[str, dict[str, Any]]:
    return {
        "spark_jars": _option(
            "Jars on the machine that submits, which already hold the Iceberg runtime and the catalog's driver: "
            "comma-separated paths, each a jar, a glob or a folder of jars. Empty: Maven coordinates are passed to "
            "Spark as packages. "
            "'provided': the cluster has them, and neither is passed.",
            example="/opt/lake/jars",
        ),
        "class_archive": _option(
            "Folder on the worker for archives of the classes that its Spark drivers load, which lets them start "
            "quicker. Only the worker's own user may write to it. 'off': none.",
            default="~/.cache/airflow-lake",
        ),
        "report_location": _option(
            "Folder where a driver in cluster mode leaves its report; any path that fsspec and the driver both reach.",
            example="s3://lake-reports/airflow",
        ),
        "job_directory": _option(
            "Folder on the worker for the spec, the report and the settings file (mode 0600) of an attempt. "
            "Empty: a folder below the system's temporary directory.",
            example="/var/lib/airflow/lake-jobs",
        ),
        "spark_log_folder": _option(
            "Folder on the worker for Spark's own lines, one file for each try, which the task's log names. Only the "
            "worker's own user may write to it. Empty: 'lake_spark' in [logging] base_log_folder. 'off': all lines "
            "are in the task's log.",
            example="/mnt/shared/lake_spark",
        ),
        "spark_log_days": _option(
            "Days after which a file of Spark's own lines is removed; 0 keeps all.", kind="integer", default="14"
        ),
    }


def _option(description: str, *, kind: str = "string", default: str = "", example: str | None = None) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "example": example,
        "default": default,
    }

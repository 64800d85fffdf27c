"""Run the README's DAG in an environment that has only the wheel: SQLite as catalog, a local Spark, two files."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from scripts.package_environment import PackageEnvironment, StepFailedError

README = Path(__file__).resolve().parents[1] / "README.md"
MONDAY = {"id": 1, "name": "Ada", "city": "London"}
TUESDAY = {"id": 1, "name": "Ada", "city": "Paris"}
_ROWS = """
import json
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
table = LakeCatalogHook("lake_default").load_table("shop.customers")
print(json.dumps(table.scan().to_arrow().to_pylist()))
"""


def ten_lines(source: str | None = None) -> str:
    """Return the code of the README's DAG.

    :param source: files in place of those that it names.
    """
    (code,) = re.findall(r"```python\n(.+?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return str(code) if source is None else re.sub(r'source="[^"]*"', f"source={json.dumps(source)}", code)


def providers_listed(environment: PackageEnvironment, home: Path) -> dict[str, str]:
    """Return the providers that Airflow knows, their version by name.

    :param home: for Airflow.
    :raises StepFailedError: Airflow refuses a provider.
    """
    output = environment.run(
        "airflow", "providers", "list", "--output", "json", environment={"AIRFLOW_HOME": str(home)}
    )
    # Airflow may say something before.
    listed = json.loads(output[output.index("[{") :])
    return {each["package_name"]: each["version"] for each in listed}


def run_ten_lines(environment: PackageEnvironment, home: Path, runs: int = 2) -> None:
    """Run the DAG, each time with a newer file, and read the table.

    :param home: folder for Airflow's home, the files and the lake; replaced.
    :param runs: one or two.
    :raises StepFailedError: a command failed, or the table has other rows.
    """
    shutil.rmtree(home, ignore_errors=True)
    (home / "dags").mkdir(parents=True)
    (home / "in").mkdir()
    (home / "warehouse").mkdir()
    (home / "dags/customers.py").write_text(ten_lines(f"{home}/in/*.jsonl"), encoding="utf-8")
    settings = _settings(home)
    environment.run("airflow", "db", "migrate", environment=settings)
    for name, row in (("monday", MONDAY), ("tuesday", TUESDAY))[:runs]:
        (home / "in" / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
        environment.run("airflow", "dags", "test", "customers", environment=settings)
        output = environment.run(str(environment.python), "-c", _ROWS, environment=settings)
        rows = json.loads(output.splitlines()[-1])
        if rows != [row]:
            raise StepFailedError(f"after {name} the table has {rows}, expected {[row]}; see {environment.log}")


def _settings(home: Path) -> dict[str, str]:
    lake = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LAKE__JOB_DIRECTORY": str(home / "jobs"),
        # Of this repository, checked by SHA-256.
        "AIRFLOW__LAKE__SPARK_JARS": os.environ["LAKE_JARS"],
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "iceberg", "extra": lake}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }

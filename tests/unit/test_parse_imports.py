"""DAG processor, scheduler and triggerer load nothing of Spark, and nothing heavy to parse a DAG.

Each test asks an interpreter of its own, because pytest's has long imported all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_lake_provider.get_provider_info import get_provider_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

REPOSITORY = Path(__file__).parents[2]
OURS = "airflow_lake_provider"

SPARK = ("pyspark", "py4j")
# Each takes a tenth of a second or more to import, or is the client of one store.
HEAVY = (*SPARK, "pyiceberg", "pyarrow", "numpy", "pandas", "boto3", "botocore", "s3fs", "gcsfs", "adlfs", "duckdb")


def modules_for_authors() -> list[str]:
    """Return what a DAG file may import: all that the provider names, and the folders that hold classes for authors."""
    info = get_provider_info()
    kinds = ("operators", "sensors", "triggers", "hooks")
    named = {module for kind in kinds for entry in info[kind] for module in entry["python-modules"]}
    for folder in (*kinds, "assets", "contracts", "catalogs"):
        sources = (REPOSITORY / OURS / folder).glob("*.py")
        named |= {f"{OURS}.{folder}.{source.stem}" for source in sources if source.stem != "__init__"}
    return [OURS, f"{OURS}.get_provider_info", *sorted(named)]


def loaded_after(code: str, home: Path, suspects: tuple[str, ...]) -> list[str]:
    """Run code in a new interpreter, and return which of the suspects it has loaded then."""
    asked = f"\nimport json, sys\nprint(json.dumps([name for name in {suspects!r} if name in sys.modules]))"
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run(
        [sys.executable, "-c", code + asked], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    loaded: list[str] = json.loads(run.stdout.splitlines()[-1])
    return loaded


def test_importing_all_that_a_dag_file_may_import_loads_nothing_heavy(tmp_path: Path) -> None:
    imports = "\n".join(f"import {module}" for module in modules_for_authors())
    assert loaded_after(imports, tmp_path, HEAVY) == []


def test_parsing_the_dags_of_the_repository_loads_nothing_heavy(tmp_path: Path) -> None:
    files = sorted(str(file) for file in (REPOSITORY / "dags").glob("*.py"))
    assert files
    code = (
        "from airflow.dag_processing.dagbag import DagBag\n"
        f"bag = DagBag(dag_folder={str(tmp_path)!r}, collect_dags=False)\n"
        f"for file in {files!r}:\n"
        "    bag.process_file(file)\n"
        f"assert (len(bag.dags), bag.import_errors) == ({len(files)}, {{}}), bag.import_errors"
    )
    assert loaded_after(code, tmp_path, HEAVY) == []


def test_a_trigger_that_sees_a_new_snapshot_loads_nothing_of_spark(
    tmp_path: Path, orders: Table, append: Callable[..., int]
) -> None:
    append(orders, 1, 2)
    code = (
        "import asyncio\n"
        f"from {OURS}.triggers.lake_snapshot import LakeSnapshotTrigger\n"
        "trigger = LakeSnapshotTrigger(table='shop.orders', since='2020-01-01T00:00:00Z', poll_interval=1)\n"
        "event = asyncio.run(anext(trigger.run()))\n"
        "assert event.payload['status'] == 'success', event.payload"
    )
    assert loaded_after(code, tmp_path, SPARK) == []


@pytest.mark.parametrize("module", ["pyarrow", "pyiceberg.table"])
def test_what_is_loaded_is_seen(module: str, tmp_path: Path) -> None:
    assert module.partition(".")[0] in loaded_after(f"import {module}", tmp_path, HEAVY)

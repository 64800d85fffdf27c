"""Run the Spark tests on Spark 3.5 with Scala 2.12, without Airflow: ``scripts/matrix spark-3.5 [pytest arguments]``.

The environment below LAKE_HOME/matrix is made once, some 450 MB; its jars have a lock of their own. ``--core`` runs
the few tests that CI runs. Python 3.11 is the newest that PySpark 3.5 knows.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from scripts import test_results  # noqa: E402  # found by the line above
from scripts.fetch_jars import fetch_missing, read_lock  # noqa: E402
from scripts.package_environment import PackageEnvironment, find_pythons  # noqa: E402

PYSPARK = "3.5.9"
PYTHON = "3.11"
LOCK = REPOSITORY / "scripts/jars-spark-3.5.lock"
ALLOWED_SKIPS = REPOSITORY / "tests/allowed_skips_spark_3_5"
# Of the versions in requirements.lock. Airflow is none of them: a driver has none.
LIBRARIES = ("numpy", "pyarrow", "pyiceberg", "sqlalchemy")
TEST_TOOLS = (
    "duckdb",
    "hypothesis",
    "pandas",
    "psutil",
    "psycopg2-binary",
    "pyroaring",
    "pytest",
    "pytest-asyncio",
    "pytest-xdist",
)
SPARK_TESTS = "tests/spark"
UPSERTS = f"{SPARK_TESTS}/formats/iceberg/upserts"
SUITE = f"{SPARK_TESTS}/formats/test_iceberg_v3.py"
# One or two of each strategy and of each kind of job, read back by PyIceberg.
CORE = (
    f"{SUITE}::TestUpserts::test_rows_are_replaced_deleted_and_added_over_many_batches",
    f"{UPSERTS}/test_position_upsert.py::test_many_positions_come_as_bitmaps_and_are_the_same",
    f"{UPSERTS}/test_position_upsert.py::test_merge_counts_each_row_of_a_key_that_the_table_held_twice",
    f"{UPSERTS}/test_copy_on_write_upsert.py::test_rows_that_are_carried_over_are_no_changes",
    f"{UPSERTS}/test_nested_schemas.py::test_null_for_what_the_table_requires_is_bad_input_with_path_and_count[positions-3]",
    f"{UPSERTS}/equality/test_equality_upsert.py::test_batches_are_applied_and_a_compaction_leaves_what_pyiceberg_reads_alike",
    f"{SPARK_TESTS}/test_read_changes.py::test_without_a_start_everything_live_is_an_upsert",
    f"{SUITE}::TestIncrementalReads::test_inserts_updates_and_deletes_come_out_once_with_new_and_old_values",
    f"{SUITE}::TestAppends::test_rows_that_the_table_has_of_late_are_left_out_with_those_of_the_batch",
    f"{SUITE}::TestRowChanges::test_rows_get_their_new_values_once_and_keep_their_row_ids",
    f"{SUITE}::TestMaintenance::test_a_major_compaction_applies_deletes_and_changes_no_row",
    f"{SUITE}::TestMaintenance::test_old_snapshots_and_the_files_only_they_reach_go_and_the_rows_stay",
    f"{SPARK_TESTS}/sources/debezium/test_change_events.py::test_all_parts_in_one_batch_give_the_rows_the_server_held",
    f"{SPARK_TESTS}/sources/debezium/test_values.py::test_precise_decimals_of_any_size_and_scale_are_exact",
)


def main() -> int:
    """Run pytest with the given arguments, print what it counted as JSON, and exit as :func:`run_tests` says."""
    arguments = sys.argv[1:] or ["tests/spark"]
    if "--core" in arguments:
        arguments = [*CORE, *(each for each in arguments if each != "--core")]
    started = time.monotonic()
    folder = Path(os.environ["LAKE_HOME"]) / "matrix/spark-3.5"
    environment = prepared(folder)
    made = time.monotonic()
    status, counted = run_tests(environment, folder, arguments)
    seconds = {"prepared": round(made - started), "tested": round(time.monotonic() - made)}
    print(json.dumps({"matrix": "spark-3.5", "pyspark": PYSPARK, **counted, "seconds": seconds}))
    return status


def prepared(folder: Path) -> PackageEnvironment:
    """Make the environment and bring the jars, unless both are there already."""
    pythons = find_pythons([PYTHON])
    if PYTHON not in pythons:
        sys.exit(f"Python {PYTHON} was not found on this machine; install it, for example as /usr/bin/python{PYTHON}")
    requirements = [f"pyspark=={PYSPARK}", *(f"{name}=={version(name)}" for name in (*LIBRARIES, *TEST_TOOLS))]
    wanted = "\n".join([str(pythons[PYTHON]), str(folder), *requirements])
    stamp = folder / "made-from"
    environment = PackageEnvironment(folder / "venv", folder / "log")
    if not stamp.is_file() or stamp.read_text() != wanted:
        print(f"Installing PySpark {PYSPARK} into {folder}", flush=True)
        environment = PackageEnvironment.make(folder, pythons[PYTHON], requirements)
        stamp.write_text(wanted)
    fetch_missing(read_lock(LOCK), folder / "jars")
    return environment


def run_tests(environment: PackageEnvironment, folder: Path, arguments: Sequence[str]) -> tuple[int, dict[str, int]]:
    """Run pytest, show what it says, and return an exit code and its counts.

    The exit code is that of pytest, or 1 where a test is skipped that :data:`ALLOWED_SKIPS` does not have.
    """
    summary = folder / "results.xml"
    # That of an earlier run would be read again.
    summary.unlink(missing_ok=True)
    path = f"{environment.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    options = ["-q", "-p", "no:cacheprovider", "--tb", "short", f"--junit-xml={summary}"]
    process = subprocess.Popen(
        [str(environment.python), "-m", "pytest", *options, *arguments],
        env={**os.environ, "PATH": path, "LAKE_JARS": str(folder / "jars"), "VIRTUAL_ENV": str(environment.folder)},
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
    counts = {name: int(number) for number, name in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    status = process.wait() or test_results.main([str(summary)], ALLOWED_SKIPS)
    return status, {name: counts.get(name, 0) for name in ("passed", "failed", "skipped", "error")}


if __name__ == "__main__":
    sys.exit(main())

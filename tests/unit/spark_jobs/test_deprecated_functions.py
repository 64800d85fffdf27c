"""Functions of Spark that warn in the log of each job that uses them."""

from __future__ import annotations

import re
from pathlib import Path

import airflow_lake_provider

JOBS = Path(airflow_lake_provider.__file__).parent / "spark_jobs"
# rtrim('0', text): Spark 4 warns, and takes trim(TRAILING '0' FROM text).
TWO_ARGUMENTS = re.compile(r"\b[lr]trim\('|call_function\(\"[lr]?trim\"")


def test_no_statement_of_ours_trims_by_two_arguments() -> None:
    assert [str(path) for path in JOBS.rglob("*.py") if TWO_ARGUMENTS.search(path.read_text())] == []

from __future__ import annotations

import os
import re
import subprocess

import pytest

from airflow_lake_provider.submission.class_archive import driver_java
from airflow_lake_provider.submission.spark_installation import PARALLEL


def java_with(*options: str) -> subprocess.CompletedProcess[str]:
    """Start the Java of drivers, which prints its flags and ends."""
    java = driver_java(os.environ)
    assert java is not None
    command = [str(java), *options, "-XX:+PrintFlagsFinal", "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_java_of_drivers_takes_the_parallel_collector() -> None:
    told = java_with(PARALLEL)
    assert told.returncode == 0, told.stderr
    assert re.search(r"bool UseParallelGC\s+= true", told.stdout)


@pytest.mark.parametrize("other", ["-XX:+UseG1GC", "-XX:+UseSerialGC"])
def test_java_ends_over_two_collectors_so_ours_must_give_way(other: str) -> None:
    assert java_with(PARALLEL, other).returncode != 0

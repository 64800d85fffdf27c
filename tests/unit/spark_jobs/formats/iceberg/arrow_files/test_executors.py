"""Memory that a machine and a container say they have left."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.executors import memory_left

MIB = 1 << 20


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Make the control group of a container of 1,000 MiB that uses 900, a third of it for cached files."""
    figures = {
        "memory.max": f"{1000 * MIB}\n",
        "memory.current": f"{900 * MIB}\n",
        "memory.stat": f"anon {600 * MIB}\nactive_file 0\ninactive_file {300 * MIB}\n",
    }
    for name, figure in figures.items():
        (tmp_path / name).write_text(figure)
    return tmp_path


def meminfo(folder: Path, mib: int) -> Path:
    file = folder / "meminfo"
    file.write_text(f"MemTotal:       99999999 kB\nMemFree:           1024 kB\nMemAvailable:   {mib * 1024} kB\n")
    return file


@pytest.mark.parametrize(("of_machine", "left"), [(5000, 400), (200, 200)])
def test_less_of_what_the_machine_and_the_container_have_counts(group: Path, of_machine: int, left: int) -> None:
    assert memory_left(meminfo(group, of_machine), group) == left


def test_a_container_without_a_limit_has_what_the_machine_has(group: Path) -> None:
    (group / "memory.max").write_text("max\n")
    assert memory_left(meminfo(group, 5000), group) == 5000


def test_a_system_that_says_nothing_is_no_obstacle(tmp_path: Path) -> None:
    assert memory_left(tmp_path / "meminfo", tmp_path) is None

"""Fixtures of end-to-end tests: a lake in a temporary folder, and an Airflow home with its connections."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.end_to_end.lake_environment import make_database, make_lake_home, quick_environment_of


@pytest.fixture(scope="module")
def lake_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the lake of one file of tests."""
    return make_lake_home(tmp_path_factory)


@pytest.fixture(scope="module")
def airflow_environment(lake_home: Path) -> Mapping[str, str]:
    """Environment of Airflow's commands: the repository's DAGs, one lake, a local Spark, loopback only."""
    return quick_environment_of(lake_home)


@pytest.fixture(scope="module")
def migrated(airflow_environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment, with Airflow's database made."""
    make_database(airflow_environment)
    return airflow_environment

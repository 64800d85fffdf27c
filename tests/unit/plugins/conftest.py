"""A real database of Airflow's models in a file, for tests of the lake page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from tests.stored_xcom import metadata_database


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a database that every test copies: to make Airflow's tables took a third of a test."""
    file = tmp_path_factory.mktemp("metadata") / "empty.db"
    metadata_database(f"sqlite:///{file}").dispose()
    return file


@pytest.fixture
def session(tmp_path: Path, empty_database: Path) -> Iterator[Session]:
    """A session of an empty database."""
    engine = create_engine(f"sqlite:///{shutil.copy(empty_database, tmp_path / 'metadata.db')}")
    with Session(engine) as opened:
        yield opened
    engine.dispose()

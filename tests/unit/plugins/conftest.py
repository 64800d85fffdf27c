"""A real database of Airflow's models in a file, for tests of the lake page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from tests.stored_xcom import metadata_database


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session of an empty database."""
    engine = metadata_database(f"sqlite:///{tmp_path}/metadata.db")
    with Session(engine) as opened:
        yield opened
    engine.dispose()

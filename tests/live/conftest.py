"""A whole Airflow by hand: not part of scripts/test until it has been seen to pass on a quiet machine."""

from __future__ import annotations

from tests.end_to_end.conftest import airflow_environment, lake_home, migrated

__all__ = ["airflow_environment", "lake_home", "migrated"]

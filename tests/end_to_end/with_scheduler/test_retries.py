"""Delays of retries, by the error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from tests.end_to_end import retry_delays
from tests.end_to_end.standalone_airflow import StandaloneAirflow

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_retries_wait_by_the_error_and_what_never_helps_has_none(
    airflow: StandaloneAirflow, catalog: Catalog, lake_home: Path
) -> None:
    retry_delays.make_tables(catalog, lake_home / "warehouse" / "delays")
    airflow.unpause(retry_delays.DAG_ID)
    assert retry_delays.first_tries_of_a_run(airflow) == retry_delays.EXPECTED

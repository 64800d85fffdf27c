"""A table rules out what the declaration of its format says that its version lacks."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.capabilities import CAPABILITIES, ICEBERG
from airflow_lake_provider.iceberg.table_obstacles import unfit_for
from tests.table_facts import table_of


@pytest.mark.parametrize("version", ICEBERG.versions)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_plain_table_rules_out_what_its_version_lacks_and_nothing_else(capability: str, version: int) -> None:
    why = unfit_for(table_of(format_version=version).shape, capability)
    assert (why is None) == (ICEBERG.gap(capability, version) is None), why

"""Facts of a table: its heads, and the walk along its history."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.table_facts import Snapshot
from tests.table_facts import table_of


def test_a_snapshot_whose_id_is_zero_is_the_newest_one_like_any_other() -> None:
    first = Snapshot(id="0", parent=None, at=1)
    facts = table_of(first)
    assert facts.newest() is first
    assert list(facts.ancestors()) == [first]


def test_a_circle_in_the_history_is_told_by_the_tables_name() -> None:
    facts = table_of(Snapshot(id="2", parent="1", at=2), Snapshot(id="1", parent="2", at=1))
    with pytest.raises(BrokenMetadataError, match=r"history of table shop\.orders"):
        list(facts.ancestors())

"""Epochs of positions, and what does not go with ``ordering="key"``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.applied.position_column import epoch_of, epoch_property
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate, Deletes
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy


def test_a_new_name_of_a_source_begins_the_next_epoch() -> None:
    properties = epoch_property(epoch_of({}, "old server"), "old server")
    assert epoch_of(properties, "old server") == 1
    properties |= epoch_property(epoch_of(properties, "new server"), "new server")
    assert (epoch_of(properties, "old server"), epoch_of(properties, "new server")) == (1, 2)
    assert epoch_of(properties, "another") == 3


KEEPING = SchemaContract(missing_columns=MissingColumns.KEEP)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"branch": "mine"}, "branch"),
        ({"merge_engine": Deduplicate(deletes=Deletes.IGNORE)}, "deletes='ignore'"),
        ({"schema_contract": KEEPING, "branch": "mine"}, "branch.*; nor with missing_columns='keep'"),
    ],
)
def test_what_needs_no_row_of_the_table_does_not_go_with_order_by_key(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpecError, match=rf"ordering='key' does not go with .*{said}"):
        _spec(**changes)
    with pytest.raises(InvalidSpecError, match=r"'iceberg' lacks 'equality-with-kept-values', .* ordering='key'"):
        _spec(strategy=UpsertStrategy.EQUALITY)
    soft = _spec(merge_engine=Deduplicate(deletes=Deletes.SOFT)).source
    assert isinstance(soft, Debezium)
    assert soft.ordering is EventOrdering.KEY


def test_keys_are_remembered_for_some_time() -> None:
    with pytest.raises(InvalidSpecError, match=r"Debezium\.tombstone_retention must be a positive"):
        Debezium("in", table="items", tombstone_retention=timedelta(0))


def _spec(**changes: Any) -> UpsertSpec:
    source = Debezium(path="in", table="items", ordering=EventOrdering.KEY, name="shop")
    fixed: dict[str, Any] = {"catalog": "lake", "table": "shop.items", "run": RunIdentity.of("dag", "run")}
    return UpsertSpec(**{**fixed, "source": source, "keys": ("id",), **changes})

"""UUIDs in capitals beside the table's own: the same value, so that no load takes its row for another one."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, LongType, NestedField, TimestamptzType, UUIDType

from airflow_lake_provider.contracts.author.merge_engines import History
from airflow_lake_provider.contracts.author.sources import Files
from tests.spark.overwrite_flow import overwrite
from tests.spark.upsert_flow import Flow

NUMBER = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
OTHER = "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
TIMES = {"vf": TimestamptzType(), "vt": TimestamptzType(), "cur": BooleanType()}


def source(flow: Flow) -> Files:
    return Files(path=f"{flow.inbox}/*.jsonl", format="json", schema="id BIGINT, u STRING")


def created(flow: Flow, **more: Any) -> None:
    columns = {"id": LongType(), "u": UUIDType(), **more}
    fields = (NestedField(place, name, kind) for place, (name, kind) in enumerate(columns.items(), 1))
    flow.catalog().create_table(flow.table, Schema(*fields))
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('format-version' = '3')")


@pytest.mark.parametrize("is_history", [False, True])
def test_a_whole_load_leaves_a_row_whose_uuid_is_in_capitals(flow: Flow, is_history: bool) -> None:
    created(flow, **(TIMES if is_history else {}))
    numbers = []
    for day, given in enumerate((NUMBER, NUMBER.upper(), OTHER.upper()), 1):
        # A key that comes twice is compared once more.
        rows = [{"id": 1, "u": given}, {"id": 2, "u": OTHER if day < 3 else NUMBER}, {"id": 2, "u": OTHER}]
        flow.arrive("1.jsonl", *rows, at=1_700_000_000 + day)
        engine = History(valid_from="vf", valid_to="vt", current="cur", at=f"2026-01-0{day}T00:00:00+00:00")
        changes: dict[str, Any] = {"merge_engine": engine} if is_history else {}
        whole: dict[str, Any] = {
            "source": source(flow),
            "is_complete": True,
            "delete_when": None,
            "exclude_columns": (),
        }
        report = flow.apply(f"run {day}", **whole, **changes)
        numbers.append((report.rows_inserted, report.rows_updated))
    assert numbers == [(2, 0), (0, 0), (1, 1) if is_history else (0, 1)]


def test_an_overwrite_leaves_a_row_whose_uuid_is_in_capitals(flow: Flow) -> None:
    created(flow)
    for run, given in (("run 1", NUMBER), ("run 2", NUMBER.upper())):
        flow.arrive("1.jsonl", {"id": 1, "u": given})
        overwrite(flow, run, "", source=source(flow), where="true", keys=("id",))
    assert flow.spark.sql(f"SELECT _last_updated_sequence_number FROM {flow.table}").collect() == [(1,)]

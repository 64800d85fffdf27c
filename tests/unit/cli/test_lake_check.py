"""``airflow lake check`` through Airflow's own command line, on a real table."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.unit.cli.lake_command import run_lake

Append = Callable[..., int]


def test_it_prints_each_use_of_each_operator(orders: Table, append: Append, capsys: pytest.CaptureFixture[str]) -> None:
    append(orders, 1)
    run_lake("check", "shop.orders", "--keys", "id", "--output", "json")
    rows = json.loads(capsys.readouterr().out)
    found = {(row["operator"], row["use"]): (row["possible"], row["reason"]) for row in rows}
    assert found["LakeUpsertOperator", "strategy='positions'"] == ("yes", "by id")
    possible, reason = found["LakeIncrementalOperator", "source"]
    assert possible == "no"
    assert "the table has version 2" in reason
    assert len(found) == len(rows) > 10

    run_lake("check", "shop.orders")
    printed = capsys.readouterr().out
    assert "LakeRollbackOperator" in printed
    assert "name key columns with --keys" in printed


def test_a_column_with_what_a_terminal_obeys_is_shown_as_it_is_written(
    lake_catalog: SqlCatalog, capsys: pytest.CaptureFixture[str]
) -> None:
    styled = "[red]paid\x1b[31m[/red]"
    lake_catalog.create_table("shop.styled", pa.schema([(styled, pa.int64())]))
    run_lake("check", "shop.styled", "--keys", "absent")
    printed = capsys.readouterr().out
    assert "[red]paid" in printed
    assert "\x1b[31m" not in printed
    run_lake("check", "shop.styled", "--keys", "absent", "--output", "json")
    assert repr(styled) in json.loads(capsys.readouterr().out)[0]["reason"]


@pytest.mark.parametrize("empty", ["", " , "])
def test_keys_of_a_variable_that_is_not_set_are_refused(
    orders: Table, empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        run_lake("check", "shop.orders", "--source", "/in/*.json", "--keys", empty)
    assert refused.value.code == 2
    assert f"must name key columns, comma-separated, got {empty!r}" in capsys.readouterr().err


def test_a_table_or_a_connection_that_is_not_there_is_said(orders: Table) -> None:
    with pytest.raises(SystemExit, match=r"MissingTableError: .*shop\.absent"):
        run_lake("check", "shop.absent")
    with pytest.raises(SystemExit, match="InvalidConnectionError: connection 'absent' does not exist"):
        run_lake("check", "shop.orders", "--conn-id", "absent")

"""``airflow lake policy`` and ``policy-schema`` through Airflow's own command line, on real tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.policy_settings import SETTINGS, schema_of_policy_file
from tests.unit.cli.lake_command import run_lake


@pytest.fixture(autouse=True)
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    return tmp_path


@pytest.fixture
def policies(lake_catalog: SqlCatalog, orders: Table, dags: Path) -> None:
    (dags / "lake_policy.yaml").write_text("tables:\n  shop.*:\n    compaction: {deleted_share: 0.3}\n")
    properties = {"lake.maintenance.orphans.mode": "delete", "lake.maintenance.tags.daily": "7"}
    lake_catalog.create_table("shop.returns", orders.schema(), properties=properties)


@pytest.mark.usefixtures("policies")
def test_it_prints_each_value_with_its_layer_and_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    run_lake("policy", "shop.*", "--output", "plain")
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "shop.orders compaction.deleted_share 0.3 file lake_policy.yaml:3 'shop.*'" in rows
    assert "shop.orders orphans.mode off defaults" in rows
    assert "shop.returns tags.daily 7 table property 'lake.maintenance.tags.daily' of table shop.returns" in rows
    (ignored,) = [row for row in rows if "ignored" in row]
    assert ignored.startswith(
        "shop.returns orphans.mode ignored: 'delete' table property 'lake.maintenance.orphans.mode'"
    )
    assert ignored.endswith("'off' holds, of the layer defaults")
    assert len([row for row in rows if row.startswith("shop.orders ")]) == len(SETTINGS)


@pytest.mark.usefixtures("policies")
@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_values_that_are_no_defaults_come_as_json_and_as_yaml(
    output: str, read: Callable[[str], list[dict[str, object]]], capsys: pytest.CaptureFixture[str]
) -> None:
    run_lake("policy", "shop.orders", "--changed", "--output", output)
    (row,) = read(capsys.readouterr().out)
    origin = "lake_policy.yaml:3 'shop.*'"
    value = {"key": "compaction.deleted_share", "value": 0.3, "layer": "file", "origin": origin}
    assert row == {"table": "shop.orders", "values": [value], "ignored": [], "error": None}


def test_a_policy_that_cannot_be_read_is_a_line_and_the_exit_code_is_1(
    lake_catalog: SqlCatalog, orders: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_catalog.create_table("shop.typo", orders.schema(), properties={"lake.maintenance.[red]x": "1"})
    with pytest.raises(SystemExit) as stopped:
        run_lake("policy", "--changed", "--output", "table")
    assert stopped.value.code == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "shop.typo" in printed
    assert "[red]x" in printed.replace(" ", "")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["shop.absent"], r"MissingTableError: .*shop\.absent does not exist"),
        (["none.*"], r"No table of connection 'lake_default' matches none\.\*"),
        (["--policy-file", "absent.yaml"], r"InvalidSpecError: .*absent\.yaml: there is no such file"),
        (["--conn-id", "absent"], "InvalidConnectionError: connection 'absent' does not exist"),
    ],
)
def test_what_cannot_be_asked_is_said(arguments: list[str], why: str, orders: Table) -> None:
    with pytest.raises(SystemExit, match=why):
        run_lake("policy", *arguments)


def test_health_refuses_a_faulty_file_of_policies(orders: Table, dags: Path) -> None:
    (dags / "lake_policy.yaml").write_text("tables: {shop.*: {fresh_within: soon}}")
    with pytest.raises(SystemExit, match=r"lake_policy\.yaml:1: fresh_within must be"):
        run_lake("health")


def test_the_schema_is_printed_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    run_lake("policy-schema")
    assert json.loads(capsys.readouterr().out) == schema_of_policy_file()

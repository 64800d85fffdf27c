"""``airflow lake health`` through Airflow's own command line, on real tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.maintenance.health import TableHealth
from tests.made_tables import register
from tests.unit.cli.lake_command import run_lake

Append = Callable[..., int]


def test_it_prints_the_worst_table_first_and_what_would_mend_it(
    many_small: Table, lake_catalog: SqlCatalog, append: Append, capsys: pytest.CaptureFixture[str]
) -> None:
    append(lake_catalog.create_table("shop.one_file", many_small.schema()), 1)
    run_lake("health", "shop.*")
    printed = capsys.readouterr().out
    assert printed.index("shop.orders") < printed.index("shop.one_file")
    assert "a compaction merges them" in " ".join(printed.split())
    assert "nothing to mend" in printed


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_all_facts_come_as_json_and_as_yaml(
    output: str, read: Callable[[str], list[dict[str, object]]], many_small: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    run_lake("health", "shop.orders", "--output", output)
    (row,) = read(capsys.readouterr().out)
    found = TableHealth.from_json(json.dumps(row))
    assert found.files is not None
    assert (found.table, found.files.data_files, found.files.mergeable_files) == ("shop.orders", 8, 7)


def test_the_exit_code_says_whether_all_tables_could_be_read(
    many_small: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_lake("health", "shop.*")
    location = f"file://{tmp_path}/[red]gone.metadata.json"
    register(tmp_path / "catalog.db", "lake_default", "shop", {"gone": location, "[red]x": location})
    with pytest.raises(SystemExit) as stopped:
        run_lake("health", "shop.*", "--output", "table")
    assert stopped.value.code == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "shop.%5Bred%5Dx" in printed
    assert "[red]gone.metadata.json" in printed.replace(" | ", "")
    assert "BrokenMetadataError" in printed
    assert "shop.orders" in printed


def test_stale_rows_are_said_against_a_limit(many_small: Table, capsys: pytest.CaptureFixture[str]) -> None:
    run_lake("health", "shop.orders", "--fresh-within", "PT0.000001S", "--output", "json")
    (row,) = json.loads(capsys.readouterr().out)
    assert "freshness" in [part["name"] for part in row["parts"] if part["lost"]]


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_limit_that_is_named_replaces_that_of_the_policy_and_no_other(
    is_broken: bool, many_small: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {"fresh-within": "P9D", "expiry.older-than": "PT0.000001S"}
    with many_small.transaction() as change:
        change.set_properties({f"lake.maintenance.{name}": value for name, value in limits.items()})
        if is_broken:
            change.set_properties({"lake.maintenance.orphans.mod": "off"})
    run_lake("health", "shop.orders", "--fresh-within", "PT0.000001S", "--output", "json")
    (row,) = json.loads(capsys.readouterr().out)
    assert "freshness" in [part["name"] for part in row["parts"] if part["lost"]]
    # Of a policy that cannot be read, no limit holds.
    assert row["snapshots"]["expirable"] == (0 if is_broken else 7)
    assert ("lake.maintenance.orphans.mod" in (row["policy_error"] or "")) is is_broken


def test_a_policy_that_cannot_be_read_is_said_beside_what_defaults_find(
    many_small: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    with many_small.transaction() as change:
        change.set_properties({"lake.maintenance.compaction.levl": "off"})
    run_lake("health", "shop.orders", "--output", "plain")
    printed = capsys.readouterr().out
    assert "Its policy cannot be read, so defaults judge it: " in printed
    assert "compaction.levl' is no setting; did you mean 'lake.maintenance.compaction.level'" in printed
    assert "a compaction merges them" in printed


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["shop.absent"], r"MissingTableError: .*shop\.absent does not exist"),
        (["none.*"], r"No table of connection 'lake_default' matches none\.\*"),
        (["shop orders"], "InvalidSpecError: .*no patterns"),
        (["shop.*", "--fresh-within", "soon"], "InvalidSpecError: --fresh-within must be"),
        (["shop.*", "--fresh-within", ""], "InvalidSpecError: --fresh-within must be"),
        (["shop.*", "--conn-id", "absent"], "InvalidConnectionError: connection 'absent' does not exist"),
    ],
)
def test_what_cannot_be_asked_is_said(arguments: list[str], why: str, orders: Table) -> None:
    with pytest.raises(SystemExit, match=why):
        run_lake("health", *arguments)

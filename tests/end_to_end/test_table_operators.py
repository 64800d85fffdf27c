"""Publication, tags, rollback and upgrade through Airflow; PyIceberg reads what each of them left in the metadata."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from scripts.airflow_process import AirflowProcess
from tests.end_to_end.airflow_command import DAGS

MONDAY, TAG = "2026-01-05", "prices_20260105"
SUNDAYS = {"book": "5.00", "pen": "1.00"}
MONDAYS = {"book": "6.00", "pen": "1.00", "cup": "3.00"}
TUESDAYS = {"book": "7.00", "pen": "1.00", "cup": "3.00", "lamp": "9.00"}


@dataclass(frozen=True)
class Moment:
    """A table between two commits.

    :param refs: rows by branch and tag, as PyIceberg reads them.
    :param runs: run keys that main has, oldest first.
    :param sources: sources that have a position.
    """

    version: int
    refs: Mapping[str, Mapping[str, str]]
    runs: tuple[str, ...]
    sources: tuple[str, ...]


@pytest.fixture(scope="module")
def prices(lake_home: Path) -> Table:
    """A table of format version 2 with Sunday's prices, and the files of the next two days."""
    catalog = load_catalog(
        "lake_default", type="sql", uri=f"sqlite:///{lake_home}/catalog.db", warehouse=f"file://{lake_home}/warehouse"
    )
    catalog.create_namespace("shop")
    schema = pa.schema([pa.field("sku", pa.string(), nullable=False), ("price", pa.decimal128(12, 2))])
    table = catalog.create_table("shop.prices", schema, properties={"format-version": "2"})
    prices = pa.array(map(Decimal, SUNDAYS.values()), pa.decimal128(12, 2))
    table.append(pa.table([list(SUNDAYS), prices], schema=schema))
    inbox = lake_home / "inbox"
    inbox.mkdir()
    write(inbox / f"prices-{MONDAY}.jsonl", {"book": "6.00", "cup": "3.00"})
    write(inbox / "tuesday.jsonl", {"book": "7.00", "lamp": "9.00", "desk": "99.00"})
    return table


def write(file: Path, prices: Mapping[str, str]) -> None:
    file.write_text("".join(json.dumps({"sku": sku, "price": price}) + "\n" for sku, price in prices.items()))


def reports(lake_home: Path, dag: str) -> dict[str, Any]:
    """Return what the tasks of a DAG have returned, by task."""
    connection = sqlite3.connect(lake_home / "airflow" / "airflow.db")
    query = "SELECT task_id, value FROM xcom WHERE key = 'return_value' AND dag_id = ?"
    try:
        # SQLite gives a number as one.
        return {task: json.loads(str(value)) for task, value in connection.execute(query, [dag])}
    finally:
        connection.close()


def moments(table: Table) -> Iterator[Moment]:
    """Give each version of the metadata, oldest first."""
    files = [*(entry.metadata_file for entry in table.metadata.metadata_log), table.metadata_location]
    for file in files:
        then = FromInputFile.table_metadata(table.io.new_input(file))
        yield Moment(
            version=then.format_version,
            refs={name: rows(table, ref.snapshot_id) for name, ref in sorted(then.refs.items())},
            runs=runs(then),
            sources=tuple(sorted(n.removeprefix("lake.position.") for n in then.properties if "lake.position." in n)),
        )


def rows(table: Table, snapshot: int) -> Mapping[str, str]:
    found = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    assert len({row["sku"] for row in found}) == len(found)
    return {row["sku"]: str(row["price"]) for row in found}


def runs(then: TableMetadata) -> tuple[str, ...]:
    """Run keys that main has, oldest first."""
    known = then.properties.get("lake.recent-run-keys", "")
    return tuple(entry.partition("@")[0] for entry in reversed(known.split(",")) if entry)


@pytest.fixture(scope="module")
def airflow(migrated: Mapping[str, str], lake_home: Path) -> Iterator[AirflowProcess]:
    """Airflow's commands in one process, with a DAG of the repository and one of the tests."""
    folder = lake_home / "dags"
    folder.mkdir()
    published = Path(migrated["AIRFLOW__CORE__DAGS_FOLDER"]) / "publish_after_check.py"
    for file in (DAGS / "table_operators.py", DAGS / "tuesday_prices.py", published):
        (folder / file.name).symlink_to(file)
    environment = {**migrated, "AIRFLOW__CORE__DAGS_FOLDER": str(folder)}
    with closing(AirflowProcess(environment, lake_home / "airflow.log", print)) as started:
        yield started


def test_a_day_is_published_tagged_rolled_back_and_comes_again_after_an_upgrade(
    airflow: AirflowProcess, lake_home: Path, prices: Table
) -> None:
    def run(dag: str, *arguments: str) -> dict[str, Any]:
        airflow.run("dags", "test", dag, *arguments)
        return reports(lake_home, dag)

    first = run("publish_after_check", MONDAY)
    assert first["check"] == 3
    second = run("table_operators")
    history = list(moments(prices.refresh()))

    # The first version has no snapshot yet; each other one is of one task, in their order.
    monday, back, tuesday = (found["run_key"] for found in (first["load"], second["rollback"], second["tuesday"]))
    sunday, loaded, published, tagged = history[1:5]
    assert sunday == Moment(2, {"main": SUNDAYS}, (), ())
    assert loaded == replace(sunday, refs={"load_20260105": MONDAYS, "main": SUNDAYS})
    assert published == Moment(2, {"main": MONDAYS}, (monday,), (f"prices_{MONDAY}",))
    assert tagged == replace(published, refs={"main": MONDAYS, TAG: MONDAYS})

    applied, newest, rolled_back, moved, dropped, upgraded, again = history[5:]
    both = (f"prices_{MONDAY}", "tuesday")
    assert applied == Moment(2, {"main": TUESDAYS, TAG: MONDAYS}, (monday, tuesday), both)
    assert newest == replace(applied, refs={**applied.refs, "newest": TUESDAYS})
    assert rolled_back == replace(tagged, refs={**tagged.refs, "newest": TUESDAYS}, runs=(monday, back))
    assert moved == replace(rolled_back, refs={**tagged.refs, "newest": MONDAYS})
    assert dropped == replace(moved, refs=tagged.refs)
    assert upgraded == replace(dropped, version=3)
    # One batch under one run key, which the rollback had taken away.
    assert again == Moment(3, applied.refs, (monday, back, tuesday), both)
    assert second["tuesday_again"]["run_key"] == tuesday
    with_spark = {name for name, report in second.items() if report.get("without_spark") is False}
    assert with_spark == {"upgrade"}
    kinds = [entry["content"] for entry in prices.inspect.delete_files().to_pylist()]
    assert kinds, "there is no deletion vector that PyIceberg could have read"

    third = run("publish_after_check", MONDAY)
    outcomes = [third[task]["outcome"] for task in ("load", "publish", "tag")]
    assert outcomes == ["already-applied", "nothing-due", "nothing-due"]
    assert (third["load"]["run_key"], third["check"]) == (monday, 0)
    assert list(moments(prices.refresh())) == history

"""Show the package at work: change events into lake tables, a downstream table, maintenance, and what it gains.

Everything runs through DAGs with ``airflow dags test``, those of dags/ and one in scripts/demo_dags/, on SQLite and a
local Spark, below LAKE_HOME.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from rich.console import Console

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from scripts.airflow_process import AirflowProcess  # noqa: E402  # found by the line above
from scripts.demo_result import Counts, DemoResult  # noqa: E402  # found by the line above
from tests.shop_oracle import (  # noqa: E402  # found by the line above
    SHOP,
    keys_of,
    oracle,
    order_events,
    order_history,
    revenue_by_day,
)

HOME = Path(os.environ["LAKE_HOME"]).resolve()
INBOX = HOME / "inbox" / "shop"
EXACT: dict[str, tuple[tuple[str, ...], Callable[[], dict[tuple[Any, ...], dict[str, Any]]]]] = {
    # Events of the first snapshot have one place in the log.
    "shop.order_events": (
        ("order_id", "lsn"),
        lambda: {(event["order_id"], event["lsn"]): event for event in order_events()},
    ),
    "mart.order_history": (("order_id", "valid_from"), order_history),
    "mart.revenue_by_day": (("day",), revenue_by_day),
}
TABLES = ("shop.products", "shop.orders", "shop.order_items", "mart.order_revenue", *EXACT)
# Snapshots of a demo are minutes old, so the nightly expiry keeps them all.
DEMO_DAGS = REPOSITORY / "scripts" / "demo_dags"
console = Console(highlight=False)
LOGGER = re.compile(r" \[(?:airflow\.)?task")
OUTCOME = re.compile(
    r": (?:applied|already-applied|nothing-new|done|nothing-due|news)[,:] "
    r"|: (?:compaction|snapshot-expiry) \(|tables: Nothing is due"
)


def main() -> int:
    """Run the demo; the exit code says whether every table equals the oracle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", action="store_true", help="let all parts arrive before the first run: quicker")
    at_once = parser.parse_args().at_once
    started = time.monotonic()
    airflow = AirflowProcess(demo_environment(), HOME / "demo.log", show)
    run(airflow, "db", "migrate")
    for part in arriving_parts(at_once):
        console.rule(f"[bold]{part}")
        run(airflow, "dags", "test", "ingest_orders")
        run(airflow, "dags", "test", "on_new_orders_snapshot")
    console.rule("[bold]an append, a history and a DataFrame of one's own")
    run(airflow, "dags", "test", "load_order_events")
    before = {name: counts(name) for name in TABLES}
    console.rule("[bold]nightly maintenance")
    run(airflow, "dags", "test", "nightly_maintenance")
    airflow.close()
    console.rule("[bold]an expiry, as days later")
    later = AirflowProcess(demo_environment(DEMO_DAGS), HOME / "demo.log", show)
    run(later, "dags", "test", "expire_at_once")
    later.close()
    after = {name: counts(name) for name in TABLES}
    result = DemoResult(before, after, wrong=[name for name in TABLES if not equals_oracle(name)])
    result.show(console)
    (HOME / "demo.json").write_text(result.as_json())
    console.print(f"{time.monotonic() - started:.0f} s; all of it is below {HOME}")
    return 1 if result.wrong else 0


def demo_environment(dags: Path = REPOSITORY / "dags") -> dict[str, str]:
    """Return the environment of the Airflow commands: two connections, one variable, nothing that listens."""
    lake = {"type": "sql", "uri": f"sqlite:///{HOME}/catalog.db", "warehouse": f"file://{HOME}/warehouse"}
    (HOME / "warehouse").mkdir(parents=True, exist_ok=True)
    INBOX.mkdir(parents=True, exist_ok=True)
    return {
        **os.environ,
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__LAKE__JOB_DIRECTORY": str(HOME / "jobs"),
        "AIRFLOW__LAKE__POLICY_FILE": str(DEMO_DAGS / "demo_policy.yaml"),
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "iceberg", "extra": lake}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_VAR_SHOP_INBOX": str(INBOX),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def arriving_parts(at_once: bool) -> Iterator[str]:
    """Put the parts into the inbox one after another; once all are there, look at them as they are."""
    parts = sorted(SHOP.glob("part-*.jsonl.gz"))
    missing = [part for part in parts if not (INBOX / part.name).exists()]
    for part in missing:
        shutil.copy(part, INBOX)
        if not at_once:
            yield f"{part.name} arrives"
    if at_once and missing:
        yield f"{len(missing)} parts arrive"
    if not missing:
        yield "nothing new in the inbox"


def run(airflow: AirflowProcess, *arguments: str) -> None:
    """Show an Airflow command and run it."""
    console.print(f"[dim]$ airflow {' '.join(arguments)}")
    airflow.run(*arguments)


def show(line: str) -> None:
    """Show a line of Airflow's output when it is one of ours."""
    if message := worth_showing(line):
        console.print(f"  {message}", markup=False)


def worth_showing(line: str) -> str | None:
    """Return the message of a line of ours without its frame; None for another's."""
    if "[lake]" in line and not line.rstrip().endswith("..."):
        text = line[line.index("[lake]") :]
        return None if " ... " in text else text.split(" [airflow.task", 1)[0].rstrip()
    # Airflow's own lines may have an outcome too, among what follows their message.
    message = LOGGER.split(line.partition("] ")[2], maxsplit=1)[0].rstrip()
    return message if OUTCOME.search(message) else None


def load(name: str) -> Any:
    """Return the PyIceberg table; None when it does not exist."""
    catalog = load_catalog("lake_default", type="sql", uri=f"sqlite:///{HOME}/catalog.db")
    try:
        return catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def counts(name: str) -> Counts:
    """Read a table's numbers without Spark."""
    table = load(name)
    if table is None or table.current_snapshot() is None:
        return Counts()
    summary = table.current_snapshot().summary
    return Counts(
        files=int(summary["total-data-files"] or 0),
        delete_files=int(summary["total-delete-files"] or 0),
        bytes=int(summary["total-files-size"] or 0),
        snapshots=len(table.metadata.snapshots),
        stored_files=sum(path.suffix in (".parquet", ".puffin") for path in data_folder(table).rglob("*")),
        rows=table.scan().to_arrow().num_rows,
    )


def data_folder(table: Any) -> Path:
    """Return the folder of a table's data and delete files."""
    return Path(table.location().removeprefix("file:")) / "data"


def equals_oracle(name: str) -> bool:
    """Compare a table with what the source database itself held at that moment."""
    namespace, _, table = name.partition(".")
    if name in EXACT:
        keys, rows_of = EXACT[name]
        return by_keys(name, keys) == rows_of()
    if namespace != "shop":
        return revenues(load(name)) == {key: revenue_of(row) for key, row in oracle("orders").items()}
    return by_keys(name, keys_of(table)) == oracle(table)


def by_keys(name: str, keys: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]] | None:
    """Return the rows of a table by their keys; None where two rows have one."""
    rows = load(name).scan().to_arrow().to_pylist()
    keyed = {tuple(row[key] for key in keys): row for row in rows}
    return keyed if len(keyed) == len(rows) else None


def revenues(table: Any) -> dict[tuple[Any, ...], Decimal]:
    """Return the revenue by order that the downstream DAG computed."""
    return {(row["order_id"],): row["revenue"] for row in table.scan().to_arrow().to_pylist()}


def revenue_of(order: Mapping[str, Any]) -> Decimal:
    """Return what an order is worth, by the rule of dags/on_new_orders_snapshot.py."""
    return Decimal("0.00") if order["status"] == "cancelled" else order["total"]


if __name__ == "__main__":
    sys.exit(main())

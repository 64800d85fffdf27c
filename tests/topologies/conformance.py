"""Run the flow that every topology has to pass, and look at what it left with PyIceberg."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from tests.end_to_end.airflow_command import AirflowCommand
from tests.end_to_end.lake_environment import environment_of
from tests.end_to_end.secret_watch import SecretWatch, assert_no_secret_was_seen, new_mark, pages_at
from tests.spark.conftest import lake_jars

_DAGS = Path(__file__).parent / "dags"
_FIRST = [(1, "new", "1.00"), (2, "new", "2.00"), (3, "new", "3.00")]
# Row 4 is the foreign writer's.
_SECOND = [(2, "paid", "2.50"), (4, "paid", "4.50"), (5, "new", "5.00")]
_LEFT = {1: ("new", "1.00"), 2: ("paid", "2.50"), 4: ("paid", "4.50"), 5: ("new", "5.00")}


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Where the flow runs.

    :param lake: fields of the connection of type ``iceberg``.
    :param spark: fields of the connection of type ``spark``.
    :param jars: of the drivers, beside those of the lock.
    :param logs: folders that the cluster writes to.
    :param environment: of Airflow's commands, beside that of every test.
    :param defaults: lines of ``spark-defaults.conf``.
    :param arguments: of every operator.
    :param format_version: of the tables.
    :param refusals: what tasks say that have to fail here, by the task's id.
    :param skipped_expiry: what an expiry says that the catalog does not allow; None where it may expire.
    :param mark: what every secret of this topology has in it, from ``new_mark``.
    :param applications: gives the addresses of running applications' pages; by default one driver on this machine.
    """

    lake: Mapping[str, Any]
    spark: Mapping[str, Any] = field(default_factory=lambda: {"conn_type": "spark", "host": "local[2]"})
    jars: tuple[Path, ...] = ()
    logs: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    format_version: int = 3
    refusals: Mapping[str, str] = field(default_factory=dict)
    skipped_expiry: str | None = None
    mark: str = field(default_factory=new_mark)
    applications: Callable[[], Sequence[str]] | None = None

    def __post_init__(self) -> None:
        """Refuse a secret that nobody would find."""
        unmarked = [secret for secret in self.connection.secrets() if self.mark not in secret]
        assert unmarked == [], f"{len(unmarked)} secrets of the connection lack the mark of this topology"

    @property
    def connection(self) -> CatalogConnection:
        """The lake's connection, read as a worker does."""
        fields = {name: self.lake.get(name) for name in ("host", "login", "password")}
        return CatalogConnection.from_fields(conn_id="lake_default", extra=dict(self.lake["extra"]), **fields)

    def catalog(self) -> Catalog:
        """Open the catalog as a worker does."""
        return load_catalog(self.connection.catalog_name, **self.connection.pyiceberg_properties())


def assert_conforms(topology: Topology, home: Path, ui_port: int) -> None:
    """Run the flow; the rows, the upkeep, the refusals and the silence about secrets have to be right.

    :param home: empty folder.
    :param ui_port: free port for Spark's pages.
    """
    environment, events = prepared(topology, home, ui_port)
    AirflowCommand(environment, ("db", "migrate")).wait()
    with SecretWatch(topology.mark, home / "jobs", topology.applications or partial(pages_at, ui_port)) as watch:
        run = AirflowCommand(environment, ("dags", "test", "conformance"))
        output = run.wait(may_tasks_fail=bool(topology.refusals))
    catalog = topology.catalog()
    orders = catalog.load_table("shop.orders")
    assert orders.format_version == topology.format_version
    assert _rows(orders, "total") == {key: (status, Decimal(total)) for key, (status, total) in _LEFT.items()}
    _assert_refused(topology.refusals, output)
    if "copy_1" in topology.refusals:
        assert not catalog.table_exists("shop.copy")
    else:
        copy = catalog.load_table("shop.copy")
        assert copy.format_version == topology.format_version
        assert _rows(copy, "doubled") == {key: (status, 2 * Decimal(total)) for key, (status, total) in _LEFT.items()}
    _assert_compacted(orders)
    if topology.skipped_expiry is None:
        _assert_expired(orders)
    else:
        assert topology.skipped_expiry in output
    assert_no_secret_was_seen(watch, output, events, [home / "airflow", *topology.logs])


def prepared(topology: Topology, home: Path, ui_port: int) -> tuple[dict[str, str], Path]:
    """Lay out the flow's input and return the environment of Airflow's commands, and the folder of event logs."""
    inbox, events, defaults = home / "inbox", home / "events", home / "spark-conf"
    for folder in (events, defaults, home / "jobs"):
        folder.mkdir(parents=True)
    for number, rows in enumerate((_FIRST, _SECOND), 1):
        (inbox / str(number)).mkdir(parents=True)
        orders = [json.dumps({"id": key, "status": status, "total": float(total)}) for key, status, total in rows]
        (inbox / str(number) / "orders.jsonl").write_text("\n".join(orders) + "\n")
    lines = {
        "spark.ui.enabled": "true",
        "spark.ui.port": ui_port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        # So that a test can search it.
        "spark.eventLog.compress": "false",
        **topology.defaults,
    }
    (defaults / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    # Keys that this machine has would stand in for those that a catalog hands out.
    environment = {name: value for name, value in environment_of(home).items() if not name.startswith("AWS_")}
    environment |= {
        "AIRFLOW__CORE__DAGS_FOLDER": str(_DAGS),
        "AIRFLOW__LAKE__SPARK_JARS": ",".join([lake_jars(), *map(str, topology.jars)]),
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps(topology.lake),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(topology.spark),
        "CONFORMANCE_INBOX": inbox.as_uri(),
        "CONFORMANCE_FORMAT_VERSION": str(topology.format_version),
        "CONFORMANCE_REFUSED": json.dumps(list(topology.refusals)),
        "CONFORMANCE_ARGUMENTS": json.dumps(topology.arguments),
        "SPARK_CONF_DIR": str(defaults),
        **topology.environment,
    }
    return environment, events


def _rows(table: Table, value: str) -> dict[int, tuple[str, Decimal]]:
    found = table.scan().to_arrow().to_pylist()
    rows = {row["id"]: (row["status"], row[value]) for row in found}
    assert len(rows) == len(found)
    return rows


def _assert_refused(refusals: Mapping[str, str], output: str) -> None:
    assert output.count("new_state=failed") == len(refusals), output[-8000:]
    assert [said for said in refusals.values() if said not in output] == [], output[-8000:]


def _assert_compacted(orders: Table) -> None:
    assert not any(task.delete_files for task in orders.scan().plan_files())


def _assert_expired(orders: Table) -> None:
    """Nothing is left but the head and what the consumer may still read."""
    assert all(name == "main" or name.startswith("lake.consumer.") for name in orders.metadata.refs), orders.refs()
    kept = {ref.snapshot_id for ref in orders.metadata.refs.values()}
    assert {snapshot.snapshot_id for snapshot in orders.snapshots()} == kept

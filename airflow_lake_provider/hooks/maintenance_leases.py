"""The leases of a catalog's tables: one commit for each run that takes some, and one that gives them back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY
from airflow_lake_provider.hooks.call_limits import seconds_left
from airflow_lake_provider.hooks.own_tables import OwnTable
from airflow_lake_provider.maintenance.leases import LEASES_VERSION, MaintenanceLease, with_leases, without_leases

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_lake_provider.contracts.table_name import TableName
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.tables.iceberg.ops_table import OpsTable

DEFAULT_TABLE = "lake_ops.maintenance_leases"
Leases = tuple[MaintenanceLease, ...]


class MaintenanceLeases:
    """Leases of the tables of a catalog, in a table of the same catalog.

    They spare work: two runs that maintain one table lose commits to each other, and no data. So a lease that cannot
    be had because of the table of the leases is a warning, and the run goes on. Every method ends within
    ``[lake] catalog_timeout``.

    :param hook: of the catalog.
    :raises InvalidSpecError: ``[lake] maintenance_leases`` names no table, and is not ``off``.
    """

    def __init__(self, hook: LakeCatalogHook) -> None:
        kind = f"maintenance-leases/{LEASES_VERSION}"
        self._own = OwnTable(hook, "maintenance_leases", DEFAULT_TABLE, None, row=MaintenanceLease, kind=kind)

    @property
    def table(self) -> TableName | None:
        """The table of the leases; None where it is switched off."""
        return self._own.name

    def current(self) -> Mapping[str, MaintenanceLease]:
        """Return the leases that hold now, by table; none where they cannot be read."""
        now = datetime.now(UTC)

        def read(ops: OpsTable) -> dict[str, MaintenanceLease]:
            leases = _leases(ops, ops.load_if_there())
            return {each.table_name: each for each in leases if each.holds(now)}

        return self._own.tried("not read", read, {})

    def take(self, tables: Collection[str], asking: MaintenanceLease) -> Mapping[str, MaintenanceLease]:
        """Take the leases of tables for a run, in one commit; return those of tables that other runs have.

        :param tables: whole names.
        :param asking: the run and the moments; its table does not matter.
        """
        if not tables:
            return {}
        refused: dict[str, MaintenanceLease] = {}

        def decide(leases: Leases) -> Leases:
            decision = with_leases(leases, tables, asking, datetime.now(UTC))
            refused.clear()
            refused.update(decision.refused)
            return decision.leases

        def ask(ops: OpsTable) -> bool:
            changed = _changed(ops, decide, asking.run_key, creates=True)
            try:
                seconds_left()
            except TimeoutError:
                # Nobody waits for the answer any more: the run goes on without leases. This thread has no time left.
                threading.Thread(target=self.give_back, args=(asking.run_key,), daemon=True).start()
            return changed

        return refused if self._own.tried("not asked", ask, default=False) else {}

    def give_back(self, run_key: str) -> None:
        """Give back the leases of a run."""

        def decide(leases: Leases) -> Leases:
            return without_leases(leases, run_key, datetime.now(UTC))

        self._own.tried("not given back", lambda ops: _changed(ops, decide, run_key), default=False)


def _changed(ops: OpsTable, decide: Callable[[Leases], Leases], run_key: str, *, creates: bool = False) -> bool:
    def change(_: int) -> bool:
        table = ops.load_or_create() if creates else ops.load_if_there()
        before = _leases(ops, table)
        after = decide(before)
        if table is not None and set(after) != set(before):
            # What nobody waits for is not committed.
            seconds_left()
            ops.replace(table, after, {ACTION: "maintenance-leases", RUN_KEY: run_key})
        return True

    return ops.committed(change)


def _leases(ops: OpsTable, table: Table | None) -> Leases:
    rows = () if table is None else ops.rows(table, columns=ops.columns)
    return tuple(MaintenanceLease(**row) for row in rows)

"""The maintenance history of a catalog: one append for each run, and what earlier runs say to a plan."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_lake_provider.contracts.reports.history_entry import HISTORY_VERSION, REMEMBERED, HistoryEntry
from airflow_lake_provider.contracts.table_name import TableName, TablePatterns
from airflow_lake_provider.contracts.table_properties import ACTION, RUN_KEY
from airflow_lake_provider.hooks.own_tables import OwnTable
from airflow_lake_provider.maintenance.history_entries import orphan_counts_of
from airflow_lake_provider.maintenance.past_outcomes import FAILURES_BEFORE_WAIT, NO_SUCCESS, past_outcomes_of
from airflow_lake_provider.maintenance.trend import COLUMNS, TrendPoint, trend_entry, trend_points

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.maintenance.health import OrphanCount
    from airflow_lake_provider.maintenance.past_outcomes import PastOutcome
    from airflow_lake_provider.tables.iceberg.ops_table import OpsTable, RowFilter

log = logging.getLogger(__name__)
T = TypeVar("T")

DEFAULT_TABLE = "lake_ops.maintenance_history"
# Of a task that is cleared and retried: its rows are looked for so far back.
_LONGEST_RUN = timedelta(days=30)
# Nobody tried what a plan only reports: a broken table is not to rest once it is mended.
_TRIED = ("core_seconds_expected",)


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """Memory of earlier runs, by table.

    :param orphans: newest count of orphan files.
    :param outcomes: newest first: the last one of each action, and all of an action that has failed lately. None where
        the history is switched off, or cannot be read.
    """

    orphans: Mapping[str, OrphanCount] = field(default_factory=dict)
    outcomes: Mapping[str, list[PastOutcome]] | None = None


class MaintenanceHistory:
    """History of the maintenance of a catalog's tables, in a table of the same catalog.

    Every method ends within ``[lake] catalog_timeout``. None fails because of the history: what goes wrong is a
    warning in the log.

    :param hook: of the catalog.
    :param name: of the table, or ``off``; None takes ``[lake] maintenance_history``.
    :raises InvalidSpecError: the name is none.
    """

    def __init__(self, hook: LakeCatalogHook, name: str | None = None) -> None:
        kind = f"maintenance-history/{HISTORY_VERSION}"
        columns: dict[str, Any] = {"row": HistoryEntry, "kind": kind, "partition": "month"}
        self._own = OwnTable(hook, "maintenance_history", DEFAULT_TABLE, name, **columns)

    @property
    def table(self) -> TableName | None:
        """The table; None where it is switched off."""
        return self._own.name

    def record(self, entries: Sequence[HistoryEntry]) -> bool:
        """Append the rows of a run in one commit, once; return whether they are there.

        :param entries: of one run.
        """
        return bool(entries) and self._own.tried("not written", lambda ops: _record(ops, entries), default=False)

    def prepare(self) -> bool:
        """Make the table where it is missing, and append nothing to it; return whether rows could be appended.

        Who may read a table need not be allowed to write files to its store, or to commit.
        """

        def append_nothing(ops: OpsTable, _: int) -> bool:
            ops.append(ops.load_or_create(), (), {ACTION: "maintenance-history"})
            return True

        return self._own.tried("not written", lambda ops: ops.committed(partial(append_nothing, ops)), default=False)

    def remembered(self) -> Remembered:
        """Return what runs of the last 90 days have left to the next one, in one look at the table."""

        def read(ops: OpsTable, table: Table) -> Remembered:
            moment = _oldest()
            return Remembered(orphans=_last_orphans(ops, table, moment), outcomes=_past_outcomes(ops, table, moment))

        return self._own.tried(
            "not read", lambda ops: _read(ops, partial(read, ops), Remembered(outcomes={})), Remembered()
        )

    def trends(self, tables: Collection[str]) -> list[dict[str, Any]]:
        """Return the trend of each of some tables, as :mod:`.maintenance.trend` writes it for XCom.

        :param tables: whole names.
        """
        where = _where(_oldest(), table_name=tables)
        none: dict[str, list[TrendPoint]] = {}
        points = self._own.tried(
            "not read", lambda ops: _read(ops, lambda table: trend_points(ops.rows(table, where, COLUMNS)), none), none
        )
        return [trend_entry(name, points[name]) for name in sorted(points)]

    def entries(
        self, tables: str | Sequence[str], since: datetime, outcomes: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Return the rows of some tables as mappings, newest first; none where the catalog has no history yet.

        :param tables: name or patterns: ``["shop.*", "!shop.tmp_*"]``.
        :param since: moment of the oldest.
        :param outcomes: some of them; empty for all.
        :raises InvalidSpecError: a pattern is none.
        :raises UnsupportedError: the table of that name is no history of this version.
        :raises LakeProviderError: it cannot be read.
        """
        patterns = TablePatterns.parse(tables)
        where = _where(since, **({"outcome": outcomes} if outcomes else {}))
        none: list[dict[str, Any]] = []
        rows = self._own.ask(lambda ops: _read(ops, lambda table: list(ops.rows(table, where)), none))
        chosen = [row for row in rows if patterns.matches(row["table_name"])]
        return sorted(chosen, key=lambda row: (row["ended_at"], row["table_name"]), reverse=True)


def _read(ops: OpsTable, read: Callable[[Table], T], default: T) -> T:
    """Return what is read of the table; the default where it is not there yet."""
    table = ops.load_if_there()
    return default if table is None else read(table)


def _record(ops: OpsTable, entries: Sequence[HistoryEntry]) -> bool:
    from pyiceberg.exceptions import CommitStateUnknownException

    key = entries[0].run_key

    def append(attempt: int) -> bool:
        table = ops.load_or_create()
        # A retry of the task, or one that is taken for dead, may have been quicker.
        if _has_run(table, key) or (attempt == 1 and _has_rows(ops, table, entries[0])):
            return True
        try:
            ops.append(table, entries, {ACTION: "maintenance-history", RUN_KEY: key})
        except CommitStateUnknownException:
            if not _has_run(ops.load(), key):
                raise
        return True

    return ops.committed(append)


def _has_run(table: Table, key: str) -> bool:
    summaries = (each.summary for each in table.metadata.snapshots)
    return any(each is not None and each.additional_properties.get(RUN_KEY) == key for each in summaries)


def _has_rows(ops: OpsTable, table: Table, entry: HistoryEntry) -> bool:
    """Tell whether an earlier try has written rows whose snapshot may be forgotten."""
    if entry.try_number <= 1:
        return False
    where = _where(entry.ended_at - _LONGEST_RUN, run_key=[entry.run_key])
    return any(True for _ in ops.rows(table, where, ["run_key"]))


def _past_outcomes(ops: OpsTable, table: Table, since: datetime) -> Mapping[str, list[PastOutcome]]:
    from airflow_lake_provider.tables.iceberg.ops_table import RepeatedValues

    columns = ["table_name", "action", "run_key", "ended_at", "outcome", "cause"]
    rows = ops.rows_of_groups(
        table,
        replace(_until_now(since), not_null=_TRIED),
        columns,
        group=["table_name", "action"],
        newest="ended_at",
        repeated=RepeatedValues(column="outcome", values=NO_SUCCESS, within="run_key", fewest=FAILURES_BEFORE_WAIT),
    )
    return past_outcomes_of(rows)


def _last_orphans(ops: OpsTable, table: Table, since: datetime) -> Mapping[str, OrphanCount]:
    columns = ["table_name", "ended_at", "orphan_files", "orphan_bytes"]
    counted = replace(_until_now(since), not_null=columns[2:3])
    # Of a hundred thousand rows Python makes mappings for seconds.
    return orphan_counts_of(ops.rows_of_groups(table, counted, columns, group=columns[:1], newest=columns[1]))


def _oldest() -> datetime:
    return datetime.now(UTC) - REMEMBERED


def _until_now(since: datetime) -> RowFilter:
    # A row of a clock that is ahead would be the newest for years, and what looks for it would never be due again.
    return replace(_where(since), at_most={"ended_at": datetime.now(UTC).isoformat()})


def _where(since: datetime, **one_of: Collection[str]) -> RowFilter:
    from airflow_lake_provider.tables.iceberg.ops_table import RowFilter

    moment = since.astimezone(UTC)
    # The month leaves out whole manifests.
    return RowFilter(at_least={"month": f"{moment:%Y-%m}", "ended_at": moment.isoformat()}, one_of=one_of)

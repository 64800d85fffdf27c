"""Say that tables are not looked at, again and again until they are: in the log and as metrics."""

from __future__ import annotations

import logging
from collections.abc import Collection

from airflow.observability import stats

from airflow_lake_provider.triggers.table_queue import WatchedTable

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
_LEAST_SECONDS_BETWEEN_ALARMS = 60.0
_TABLES_NAMED = 5


class OverdueAlarm:
    """Raise an alarm for tables whose newest look is too old, whatever the reason.

    :param intervals: a table is overdue when its newest look is older than this many of its poll intervals.
    """

    def __init__(self, lake_conn_id: str, intervals: float) -> None:
        self._conn_id = lake_conn_id
        self._intervals = intervals
        self._next_check = float("-inf")
        self._next_alarm = float("-inf")
        self._raised = False
        self._outage = False
        self._logged: dict[str, str] = {}

    def check(self, tables: Collection[WatchedTable], now: float, *, hanging: int) -> None:
        """Send the metrics every few seconds, and raise the alarm or take it back.

        :param hanging: looks that are not answered in time.
        """
        if now < self._next_check:
            return
        self._next_check = now + CHECK_SECONDS
        overdue = [table for table in tables if now - table.looked_at > self._intervals * table.interval]
        oldest = max((now - table.looked_at for table in tables), default=0.0)
        self._gauge("tables", len(tables))
        self._gauge("overdue_tables", len(overdue))
        self._gauge("oldest_look_seconds", oldest)
        self._gauge("hanging_looks", hanging)
        if overdue and now >= self._next_alarm:
            self._raise(overdue, len(tables), oldest, hanging)
            wait = self._intervals * min(table.interval for table in overdue)
            self._next_alarm = now + max(wait, _LEAST_SECONDS_BETWEEN_ALARMS)
        elif not overdue and self._raised:
            log.info("connection %r: all %d watched tables are looked at again", self._conn_id, len(tables))
            self._raised = False
            self._next_alarm = float("-inf")

    def say_failed(self, table: WatchedTable, error: Exception, *, of_catalog: bool) -> None:
        """Say at WARNING that looks fail: once for an outage of the catalog, and once for each fault of a table."""
        stats.incr("lake.watch.failed_looks", tags={"lake_conn_id": self._conn_id})
        if of_catalog:
            if not self._outage:
                log.warning(
                    "connection %r, %s: cannot look at the table and will keep trying: %s: %s",
                    self._conn_id,
                    table.name,
                    type(error).__name__,
                    error,
                )
            self._outage = True
        else:
            self._say_once(table.name, f"cannot be looked at, and will be tried again: {type(error).__name__}: {error}")

    def say_answered(self, table: WatchedTable, failures: int) -> None:
        """Say at INFO that an outage is over, and at WARNING that a table does not exist."""
        if self._outage and failures:
            log.info("connection %r: the catalog answers again, after %d failed looks", self._conn_id, failures)
        self._outage = False
        if table.missing is not None:
            self._say_once(table.name, f"{table.missing} does not exist yet; waiting for it")
        else:
            self._logged.pop(table.name, None)

    def forget(self, table: str) -> None:
        """Forget what was said of a table that is not watched any more."""
        self._logged.pop(table, None)

    def _say_once(self, table: str, sentence: str) -> None:
        if self._logged.get(table) != sentence:
            log.warning("connection %r, %s: %s", self._conn_id, table, sentence)
        self._logged[table] = sentence

    def _raise(self, overdue: list[WatchedTable], watched: int, oldest: float, hanging: int) -> None:
        stats.incr("lake.watch.alarms", tags={"lake_conn_id": self._conn_id})
        self._raised = True
        longest = sorted(overdue, key=lambda table: table.looked_at)
        errors = [table.error for table in longest if table.error is not None]
        log.error(
            "connection %r: %d of %d watched tables were not looked at for more than %g poll intervals, the longest "
            "for %d s; %d looks hang. Their new snapshots are not seen. Tables: %s%s. Newest error: %s",
            self._conn_id,
            len(overdue),
            watched,
            self._intervals,
            oldest,
            hanging,
            ", ".join(table.name for table in longest[:_TABLES_NAMED]),
            ", ..." if len(longest) > _TABLES_NAMED else "",
            f"{type(errors[-1]).__name__}: {errors[-1]}" if errors else "none, they waited for their turn",
        )

    def _gauge(self, name: str, value: float) -> None:
        stats.gauge(f"lake.watch.{name}", value, tags={"lake_conn_id": self._conn_id})

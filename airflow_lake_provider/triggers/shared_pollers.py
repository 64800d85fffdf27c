"""Share one poller per catalog among all triggers of a triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from airflow_lake_provider.triggers.catalog_poller import CatalogPoller
from airflow_lake_provider.triggers.look_threads import LookThreads
from airflow_lake_provider.triggers.overdue_alarm import OverdueAlarm
from airflow_lake_provider.triggers.subscription import Subscription
from airflow_lake_provider.triggers.watch_settings import look_timeout, positive_setting

_DEFAULT_CONNECTIONS = 4
_DEFAULT_OVERDUE_INTERVALS = 2.0

# Triggers of one process run in one loop; a test has one of its own.
_pollers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Shared]] = WeakKeyDictionary()


class _Shared:
    """The poller of a catalog, and the threads that it looks with."""

    def __init__(self, lake_conn_id: str) -> None:
        self.looks = LookThreads(lake_conn_id)
        self.poller = CatalogPoller(
            self.looks,
            OverdueAlarm(lake_conn_id, positive_setting("watch_overdue_intervals", _DEFAULT_OVERDUE_INTERVALS)),
            connections=int(positive_setting("watch_connections", _DEFAULT_CONNECTIONS, 1.0)),
            timeout=look_timeout(),
        )


@contextmanager
def subscribed(lake_conn_id: str, table: str, branch: str, interval: float) -> Iterator[Subscription]:
    """Subscribe to a table's heads with the poller of its catalog.

    The last one to leave closes the catalog. The poller stays: looks that hang go on counting.

    :param table: ``namespace.table``.
    :param interval: seconds between two looks.
    :raises InvalidSpecError: for a malformed name, and for a setting that is not above 0.
    """
    of_loop = _pollers.setdefault(asyncio.get_running_loop(), {})
    shared = of_loop.get(lake_conn_id)
    if shared is None:
        shared = of_loop[lake_conn_id] = _Shared(lake_conn_id)
    subscription = shared.poller.subscribe(table, branch, interval)
    try:
        yield subscription
    finally:
        shared.poller.unsubscribe(table, subscription)
        if shared.poller.is_idle:
            shared.looks.close()

"""Heads of one branch of a table, from the poller of its catalog to one trigger."""

from __future__ import annotations

import asyncio

from airflow_lake_provider.tables.detect_new_snapshot import TableHead


class Subscription:
    """Hold the newest head until the trigger takes it.

    :param branch: whose head.
    :param interval: seconds between two looks.
    """

    def __init__(self, branch: str, interval: float) -> None:
        self.branch = branch
        self.interval = interval
        self.has_head = False
        self._newest: TableHead | Exception | None = None
        self._arrived = asyncio.Event()

    async def next(self, within: float | None = None) -> TableHead | None:
        """Return the newest head that was not returned before; None where there is none within that many seconds.

        Only heads of changed metadata arrive, and the newest takes the place of those before it.

        :raises Exception: of a look that failed since the last call.
        """
        try:
            async with asyncio.timeout(within):
                await self._arrived.wait()
        except TimeoutError:
            return None
        self._arrived.clear()
        newest, self._newest = self._newest, None
        if isinstance(newest, Exception):
            raise newest
        return newest

    def put(self, newest: TableHead | Exception) -> None:
        """Hand over what a look found; a head that waits is not replaced by an error."""
        if isinstance(newest, TableHead):
            self.has_head = True
        elif isinstance(self._newest, TableHead):
            return
        self._newest = newest
        self._arrived.set()

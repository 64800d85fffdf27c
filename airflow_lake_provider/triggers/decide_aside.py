"""Decide about a long history beside the event loop, which all triggers of a triggerer share."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_lake_provider.tables.detect_new_snapshot import NewSnapshot, NoNewSnapshot, Since, TableHead, decide

# A decision about that many takes a millisecond, less than a thread is worth.
_MOST_AT_ONCE = 1_000


async def decide_aside(head: TableHead, since: Since, **arguments: Any) -> NewSnapshot | NoNewSnapshot:
    """Return what :func:`decide` returns, without keeping the event loop.

    :param arguments: of ``decide``.
    :raises BrokenMetadataError: the history goes in a circle.
    """
    if len(head.snapshots) <= _MOST_AT_ONCE:
        return decide(head, since, **arguments)
    return await asyncio.to_thread(decide, head, since, **arguments)

"""See in the triggerer that DAG files disagree on a watched asset.

Airflow parses each DAG file in a process of its own, and gives an asset the watchers of the file that it parsed last.
Nobody sees two definitions beside each other there, but their watchers replace one another with each round of parsing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow.observability import stats

log = logging.getLogger(__name__)

WINDOW_SECONDS = 900.0
# A pause of the DAG and an edit of its file are one each.
_STARTS_THAT_DIFFER = 3
# Where a watcher changes, Airflow removes the new one with the old one, and adds it with the next parsing. Files that
# take turns can so show one definition for ever. Whoever pauses a DAG twice shows no more of it than three times.
_STARTS_ALIKE = 4


@dataclass
class _Starts:
    settings: deque[tuple[float, Mapping[str, Any]]] = field(default_factory=lambda: deque(maxlen=_STARTS_ALIKE))
    after_end: bool = False
    next_alarm: float = float("-inf")


_starts: dict[str, _Starts] = {}


@contextmanager
def watched_once(asset_name: str, settings: Mapping[str, Any]) -> Iterator[None]:
    """Note that an asset's watcher runs, and raise an alarm if Airflow keeps replacing it.

    :param asset_name: of the asset.
    :param settings: arguments of its trigger.
    """
    now = asyncio.get_running_loop().time()
    starts = _starts.setdefault(asset_name, _Starts())
    if not starts.after_end:
        # The first one, and one after an error, which is no other definition.
        starts.settings.clear()
    starts.settings.append((now, dict(settings)))
    starts.after_end = False
    while now - starts.settings[0][0] > WINDOW_SECONDS:
        starts.settings.popleft()
    needed = _STARTS_THAT_DIFFER if _differing(starts) else _STARTS_ALIKE
    if len(starts.settings) >= needed:
        _raise(asset_name, starts, now)
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit):
        starts.after_end = True
        raise


def _raise(asset_name: str, starts: _Starts, now: float) -> None:
    if now < starts.next_alarm:
        return
    starts.next_alarm = now + WINDOW_SECONDS
    stats.incr("lake.watch.conflicts", tags={"asset": asset_name})
    log.error(
        "asset %r: Airflow replaced its watcher %d times within %d s. DAG files declare the asset differently: %s. "
        "Declare it once, and import it into every DAG file that has it as schedule, inlet or outlet.",
        asset_name,
        len(starts.settings) - 1,
        now - starts.settings[0][0],
        _difference(starts),
    )


def _differing(starts: _Starts) -> list[str]:
    _, first = starts.settings[0]
    return [name for name in first if any(other.get(name) != first[name] for _, other in starts.settings)]


def _difference(starts: _Starts) -> str:
    return (
        ", ".join(
            f"{name} is " + " or ".join(sorted({repr(settings.get(name)) for _, settings in starts.settings}))
            for name in _differing(starts)
        )
        or "another one has no watch=True, or other arguments"
    )

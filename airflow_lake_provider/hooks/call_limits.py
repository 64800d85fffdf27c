"""Limits of a call of a catalog: seconds until its end, and bytes of an answer or of a metadata file.

Whoever serves a catalog decides how slowly and how much it answers. A library's own timeouts are for each read, so an
answer that comes byte by byte never meets one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

from airflow.sdk import conf

from airflow_lake_provider.contracts.errors import BrokenMetadataError, InvalidSpecError

# Of one connection attempt; a server that is there accepts at once.
CONNECT_SECONDS = 10.0
DEFAULT_SECONDS = 60.0
DEFAULT_MEGABYTES = 128.0
_MEGABYTE = 1024 * 1024
T = TypeVar("T")

_of_thread = threading.local()


def call_seconds() -> float:
    """Return ``[lake] catalog_timeout``: seconds in which a table is loaded, or a catalog opened."""
    return positive_setting("catalog_timeout", DEFAULT_SECONDS)


def most_bytes() -> int:
    """Return ``[lake] catalog_answer_megabytes`` in bytes."""
    return int(positive_setting("catalog_answer_megabytes", DEFAULT_MEGABYTES) * _MEGABYTE)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let all calls of this thread end so many seconds from now, or earlier where one around it says so."""
    outer = getattr(_of_thread, "deadline", None)
    deadline = time.monotonic() + seconds
    _of_thread.deadline = deadline if outer is None else min(outer, deadline)
    try:
        yield
    finally:
        _of_thread.deadline = outer


def deadline() -> float:
    """Return the moment of ``time.monotonic`` at which this thread's call has to end; outside of one, a whole one."""
    until: float | None = getattr(_of_thread, "deadline", None)
    return time.monotonic() + call_seconds() if until is None else until


def seconds_left(until: float | None = None) -> float:
    """Return the seconds until a deadline, this thread's where none is given; TimeoutError when it has passed."""
    left = (deadline() if until is None else until) - time.monotonic()
    if left <= 0:
        raise TimeoutError("no whole answer in time")
    return left


def answer_in_time(ask: Callable[[], T]) -> T:
    """Return what a call answers before this thread's deadline, which holds for it as well.

    The clients of stores keep a time of their own, minutes for some, and nothing interrupts them. So one that is late
    is left behind in its thread, which does not keep the process.

    :raises TimeoutError: it is late.
    """
    answer: Future[T] = Future()
    until = deadline()

    def run() -> None:
        _of_thread.deadline = until
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001  whatever it is, the caller raises it
            answer.set_exception(error)

    threading.Thread(target=run, name="bounded-call", daemon=True).start()
    wait([answer], seconds_left(until))
    if not answer.done():
        raise TimeoutError("no whole answer in time")
    return answer.result()


def refuse_size(size: int, most: int, what: str) -> None:
    """Refuse more bytes than allowed.

    :raises BrokenMetadataError: ``size`` is above ``most``.
    """
    if size > most:
        raise BrokenMetadataError(
            f"{what} is larger than {most / _MEGABYTE:g} MiB; if it has to be, raise [lake] catalog_answer_megabytes"
        )


def positive_setting(name: str, default: float, least: float = 0.0) -> float:
    """Return a number of the section ``[lake]``; InvalidSpecError for 0, and for one below ``least``."""
    value = conf.getfloat("lake", name, fallback=default)
    if not value >= least or value == 0:
        raise InvalidSpecError(f"[lake] {name} must be a number above 0, got {value!r}")
    return float(value)

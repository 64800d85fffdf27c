"""A bound on the time of what may hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Hang(BaseException):
    """The bound is over; no handler of an action takes it for an error."""


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """End a block that takes longer, also one that waits for an answer.

    :raises Hang: it took longer.
    """

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang(f"no end after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""Lines in the task log while a job runs, and the seconds of each phase for its report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

PREFIX = "[lake]"
# As ``submission/class_archive.py`` of the worker asks for it.
_ARCHIVE_AT_EXIT = "-XX:ArchiveClassesAtExit="


# A thread has its own.
_TASK = ContextVar("_TASK", default="")


@contextmanager
def lines_of(task: str) -> Iterator[None]:
    """Begin each line of this thread with the name of a task, which has others beside it."""
    before = _TASK.set(f"{task}: ")
    try:
        yield
    finally:
        _TASK.reset(before)


def say(text: str) -> None:
    """Print one line at once, of the task of this thread."""
    # The task that reads this pipe may have been killed; the commit must not die of a line nobody reads.
    with suppress(OSError):
        sys.stdout.write(f"{PREFIX} {_TASK.get()}{text}\n")
        sys.stdout.flush()


def say_what_the_jvm_still_does() -> None:
    """Say that the JVM writes an archive of its classes when it ends, where it was asked to."""
    if _ARCHIVE_AT_EXIT in os.environ.get("SPARK_SUBMIT_OPTS", ""):
        say("the job is done; the JVM writes an archive of Spark's classes for the next drivers, 10 to 60 s ...")


@dataclass
class Progress:
    """Collects the seconds by phase and prints one line per phase, ``[lake] resolve: 12 files, 1.2 s``.

    The seconds of a phase leave out those of phases within it, so that all of them add up to the whole.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    # Of the phases within the one that is entered.
    _within: float = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[dict[str, object]]:
        """Time a phase.

        :param name: word that names the phase; a phase entered again adds to its seconds.
        :return: a dict; what the phase puts into it is printed with its seconds when it ends.
        """
        facts: dict[str, object] = {}
        self.say(f"{name} ...")
        started, outer = time.monotonic(), self._within
        self._within = 0.0
        try:
            yield facts
        finally:
            took = time.monotonic() - started
            self.seconds[name] = round(self.seconds.get(name, 0.0) + max(0.0, took - self._within), 3)
            self._within = outer + took
            shown = ", ".join([*(_words(key, value) for key, value in facts.items()), f"{took:.1f} s"])
            self.say(f"{name}: {shown}")

    def say(self, text: str) -> None:
        """Print one line at once."""
        say(text)


def _words(key: str, value: object) -> str:
    return f"{value:,} {key}" if isinstance(value, int) else f"{key} {value}"

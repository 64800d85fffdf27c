"""Looks at what a commit has left, which may fail without the task: what was committed stays committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def seen_after_commit(what: str, look: Callable[[], T]) -> tuple[T | None, tuple[str, ...]]:
    """Return what is seen; None and a warning where looking fails.

    :param what: a noun phrase, the subject of the warning.
    """
    try:
        return look(), ()
    # A task that failed here would be told by its retry that it is done. Not the message: it may name erased values.
    except Exception as error:  # noqa: BLE001
        return None, (f"{what} is not known: the commit was made, and looking failed with {type(error).__name__}",)


def state_after_commit(look: Callable[[], T]) -> tuple[T | None, tuple[str, ...]]:
    """Return the table's state for a report's ``after``."""
    return seen_after_commit("the table after the commit", look)

"""Notifications of a run of maintenance: one for each owner of tables that need a person."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_lake_provider.maintenance.outcomes import TaskOutcome

_log = logging.getLogger(__name__)
# Of a message; the log of the task has all of it.
_MOST_LINES = 50
_LONGEST_LINE = 300


def notify_owners(
    notifier: Callable[[Any], Any], context: Any, outcomes: Sequence[TaskOutcome], default_owner: str
) -> None:
    """Call a notifier once for each owner; one that fails is a warning.

    It gets the context of the task with ``lake_owner``, ``lake_outcomes`` and ``lake_message`` beside it.

    :param outcomes: that owners are told of.
    :param default_owner: of tables whose policy names none.
    """
    by_owner: dict[str, list[TaskOutcome]] = {}
    for outcome in outcomes:
        by_owner.setdefault(outcome.owner or default_owner, []).append(outcome)
    for owner, theirs in sorted(by_owner.items()):
        values = {**context, "lake_owner": owner, "lake_outcomes": theirs, "lake_message": _message(theirs)}
        try:
            # Airflow's notifiers render their templates in place, so that the next owner would get this one's.
            copy(notifier)(values)
        # Whatever it raises: the outcomes are what they are. Its text may have what it sends by, so the name is enough.
        except Exception as error:  # noqa: BLE001
            _log.warning("%s could not be told of %d outcomes: %s", owner, len(theirs), type(error).__name__)


def _message(outcomes: Sequence[TaskOutcome]) -> str:
    lines = [f"{each}: {each.reason}"[:_LONGEST_LINE] for each in outcomes[:_MOST_LINES]]
    more = len(outcomes) - len(lines)
    return "\n".join([*lines, *([f"and {more} more"] if more else [])])

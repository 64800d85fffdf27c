"""Arguments that an author gives to a task group once, for its application and for its tasks without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Who owns a task, who is told of failures, and which worker runs it. Pool, retries and rule of triggers are not among
# them: they count for the application alone.
SHARED = ("email", "email_on_failure", "executor", "on_failure_callback", "owner", "queue")


def given_to(names: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the arguments, or of ``default_args`` among them, that have one of the names."""
    defaults = arguments.get("default_args")
    # What is no mapping is refused by Airflow, as the application has it whole.
    given = {**(defaults if isinstance(defaults, Mapping) else {}), **arguments}
    return {name: given[name] for name in names if name in given}

"""What an error means for a commit that raised it: refused, or of unknown fate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

_CONFLICTS = frozenset({"CommitFailedException", "ValidationException"})
_UNKNOWN = frozenset({"CommitStateUnknownException"})


def is_conflict(error: Exception) -> bool:
    """Whether Iceberg refused the commit because of another one; nothing changed."""
    names = set(_java_class_names(error))
    return bool(names & _CONFLICTS) and not names & _UNKNOWN


def is_unknown(error: Exception) -> bool:
    """Whether the commit was sent and its answer was lost."""
    return bool(set(_java_class_names(error)) & _UNKNOWN)


def _java_class_names(error: Exception) -> Iterator[str]:
    java = _java_exception(error)
    while java is not None:
        yield str(java.getClass().getSimpleName())
        java = java.getCause()


def _java_exception(error: Exception) -> Any | None:
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    # Errors of SQL statements arrive as Spark's Python exceptions, which keep the Java one.
    return error._origin if isinstance(error, CapturedException) else None

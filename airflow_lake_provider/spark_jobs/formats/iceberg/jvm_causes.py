"""What the JVM's error of a maintenance action says about its commit, with the words of Iceberg."""

from __future__ import annotations

from collections.abc import Iterator

from py4j.protocol import Py4JJavaError

_CONFLICTS = ("ValidationException", "CommitFailedException")
_UNKNOWN = ("CommitStateUnknownException",)


def causes(error: Py4JJavaError) -> Iterator[tuple[str, str]]:
    """Yield (simple class name, message) of a Java error and of its causes, outermost first."""
    java = error.java_exception
    while java is not None:
        yield str(java.getClass().getSimpleName()), str(java.getMessage())
        java = java.getCause()


def conflict_message(error: Py4JJavaError) -> str | None:
    """Return what Iceberg said when another commit was in the way; None when the error is of another kind."""
    return next((message for name, message in causes(error) if name in _CONFLICTS), None)


def is_of_unknown_outcome(error: Py4JJavaError) -> bool:
    """Whether a commit was sent and its answer was lost."""
    return any(name in _UNKNOWN for name, _ in causes(error))


def root_message(error: Py4JJavaError) -> str:
    """Return the innermost cause as ``Class: message``."""
    name, message = list(causes(error))[-1]
    return f"{name}: {message}"

"""Exceptions of Java behind the errors that PySpark raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

# What a call of Java throws. PySpark has exceptions of its own for what its own calls throw.
JavaError = Py4JJavaError
# A call that fails for another reason, too: there is no such method, or the JVM is gone.
GatewayError = Py4JError
SPARK_ERRORS = (PySparkException, JavaError)

# An exception of an executor that the driver cannot load arrives as the text of its stack trace.
_CAUSE_IN_TEXT = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+)(?:: (.*))?$", re.MULTILINE)


def java_exception(error: BaseException) -> Any | None:
    """Return the Java exception of an error; None for an error of Python."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    # Errors of SQL statements arrive as Spark's Python exceptions, which keep the Java one.
    return error._origin if isinstance(error, CapturedException) else None


def first_line(error: Exception) -> str:
    """Return what an error says before the stack trace in its message."""
    return str(error).strip().partition("\n")[0]


def java_exceptions(error: BaseException) -> Iterator[Any]:
    """Yield the Java exception of an error and its causes, outermost first."""
    java = java_exception(error)
    while java is not None:
        yield java
        java = java.getCause()


def java_names(error: BaseException) -> list[str]:
    """Return the simple class names of the Java exception and of its causes, outermost first."""
    return [str(java.getClass().getSimpleName()) for java in java_exceptions(error)]


def java_messages(error: BaseException) -> list[tuple[str, str]]:
    """Return (simple class name, message) of the Java exception and of its causes, outermost first."""
    return [(str(java.getClass().getSimpleName()), str(java.getMessage())) for java in java_exceptions(error)]


def java_causes(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield what :func:`java_messages` returns, then the causes that the last message tells as text."""
    message = ""
    for name, message in java_messages(error):
        yield name, message
    yield from ((name, text) for name, text in _CAUSE_IN_TEXT.findall(message))

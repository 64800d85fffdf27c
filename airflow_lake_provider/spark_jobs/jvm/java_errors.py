"""The Java exceptions behind an error that PySpark raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

# An exception of an executor that the driver cannot load arrives as the text of its stack trace.
_CAUSE_IN_TEXT = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+)(?:: (.*))?$", re.MULTILINE)

_ICEBERG = "org.apache.iceberg."
# Libraries that Iceberg carries along, and what all of it calls.
_RELOCATED = re.compile(r"\.(?:relocated|shaded|common|util)\.")


def java_exception(error: BaseException) -> Any | None:
    """Return the Java exception of an error; None for an error of Python."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    # Errors of SQL statements arrive as Spark's Python exceptions, which keep the Java one.
    return error._origin if isinstance(error, CapturedException) else None


def java_causes(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield (simple class name, message) of the Java exception and of its causes, outermost first."""
    java, message = java_exception(error), ""
    while java is not None:
        message = str(java.getMessage())
        yield str(java.getClass().getSimpleName()), message
        java = java.getCause()
    yield from ((name, said) for name, said in _CAUSE_IN_TEXT.findall(message))


def iceberg_class(error: BaseException) -> str | None:
    """Return the class of Iceberg that is next to where the innermost exception of Java comes from."""
    java, found = java_exception(error), None
    while java is not None:
        names = (str(frame.getClassName()) for frame in java.getStackTrace())
        # An exception of another thread, or of a plain library's, may have none.
        found = next((name for name in names if name.startswith(_ICEBERG) and not _RELOCATED.search(name)), found)
        java = java.getCause()
    return found

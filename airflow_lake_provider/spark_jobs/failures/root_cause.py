"""The known cause of a driver's error: what Java, or Python itself, said innermost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_lake_provider.contracts.reports.failure_causes import JVM_GONE, FailureCause, cause_in
from airflow_lake_provider.spark_jobs.jvm.java_errors import java_causes, java_exception, java_exceptions

_ICEBERG = "org.apache.iceberg."
# Libraries that Iceberg carries along, and what all of it calls.
_RELOCATED = re.compile(r"\.(?:relocated|shaded|common|util)\.")
# Clients of catalogs. What they read in a store they read through other classes.
_CATALOGS = tuple(
    f"{_ICEBERG}{name}"
    for name in ("jdbc.", "rest.", "hive.", "aws.glue.", "aws.dynamodb.", "nessie.", "snowflake.", "ClientPool")
)


def root_cause(error: BaseException) -> FailureCause | None:
    """Return the cause of an error; None where it is of no known kind."""
    of_java = next((each for each in _chain(error) if java_exception(each) is not None), None)
    if of_java is not None:
        texts = [f"{name}: {message}" for name, message in java_causes(of_java)][::-1]
        # To look for the class costs a call for each frame.
        return cause_in(texts) or (cause_in(texts, is_of_a_catalog=True) if is_of_a_catalog(of_java) else None)
    texts = [f"{type(each).__name__}: {each}" for each in _chain(error)][::-1]
    line = next(filter(None, (JVM_GONE.find(text) for text in texts)), None)
    return cause_in(texts) if line is None else FailureCause(JVM_GONE, line)


def is_of_a_catalog(error: BaseException) -> bool:
    """Tell whether an error of Java came out of a client of a catalog, and of nothing that it called."""
    class_name = _iceberg_class(error)
    return class_name is not None and class_name.startswith(_CATALOGS)


def _iceberg_class(error: BaseException) -> str | None:
    """Return the class of Iceberg that is next to where the innermost exception of Java comes from."""
    nearest = None
    for java in java_exceptions(error):
        names = (str(frame.getClassName()) for frame in java.getStackTrace())
        # An exception of another thread, or of a plain library's, may have none.
        nearest = next((name for name in names if name.startswith(_ICEBERG) and not _RELOCATED.search(name)), nearest)
    return nearest


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error of Python and those that it came of, outermost first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


_UNREACHABLE = frozenset(
    {"ConnectException", "NoRouteToHostException", "SocketException", "SocketTimeoutException", "UnknownHostException"}
)
_WORDS = ("premature eof", "read response")
_CLIENTS = ("org.apache.hadoop.hdfs.", "org.apache.hadoop.fs.s3a.")
# An executor's exception may arrive as text, with its stack below it.
_END_IN_TEXT = re.compile(r"java\.io\.EOFException[^\n]*(?:\n\s+at [^\n]*)*")


def is_unreachable(error: BaseException) -> bool:
    """Tell whether a host was not found or did not answer; Hadoop says it as an IllegalArgumentException too."""
    return any(name in _UNREACHABLE for name, _ in java_causes(error))


def is_cut_connection(error: BaseException) -> bool:
    """Tell whether an end of file is one of a connection to a store; HDFS and S3A say the same of both."""
    return any(_is_of_network(text) for text in _ends(error))


def _is_of_network(text: str) -> bool:
    words, _, stack = text.lower().partition("\n")
    # A broken footer points behind the end of its file.
    return any(sign in words for sign in _WORDS) or ("seek" not in words and any(name in stack for name in _CLIENTS))


def _ends(error: BaseException) -> list[str]:
    """Return each EOFException among the causes as text, its message in the first line and its stack below."""
    ends, message = [], ""
    for java in java_exceptions(error):
        message = str(java.getMessage())
        if str(java.getClass().getName()) == "java.io.EOFException":
            stack = (str(frame.toString()) for frame in java.getStackTrace())
            ends.append("\n".join((" ".join(message.split()), *stack)))
    return [*ends, *_END_IN_TEXT.findall(message)]

"""Errors that name content or arguments, and come of a connection: another try may go well."""

from __future__ import annotations

import re

from airflow_lake_provider.spark_jobs.jvm.java_errors import java_causes, java_exceptions

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
    return any(_is_of_network(told) for told in _ends(error))


def _is_of_network(told: str) -> bool:
    words, _, stack = told.lower().partition("\n")
    # A broken footer points behind the end of its file.
    return any(said in words for said in _WORDS) or ("seek" not in words and any(name in stack for name in _CLIENTS))


def _ends(error: BaseException) -> list[str]:
    """Return each EOFException among the causes as text, its message in the first line and its stack below."""
    ends, message = [], ""
    for java in java_exceptions(error):
        message = str(java.getMessage())
        if str(java.getClass().getName()) == "java.io.EOFException":
            stack = (str(frame.toString()) for frame in java.getStackTrace())
            ends.append("\n".join((" ".join(message.split()), *stack)))
    return [*ends, *_END_IN_TEXT.findall(message)]

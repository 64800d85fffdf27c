"""Errors under a driver as errors of this package: their known cause, or the file of a table that is broken.

The cause is what Java, or Python itself, said innermost. A file that Iceberg cannot read is read no better later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice

from airflow_lake_provider.contracts.errors import BrokenMetadataError, JobFailedError, LakeProviderError
from airflow_lake_provider.contracts.reports.failure_causes import JVM_GONE, FailureCause, cause_in
from airflow_lake_provider.iceberg.owner_settings import unusable_settings
from airflow_lake_provider.spark_jobs.jvm.java_errors import java_causes, java_exception, java_exceptions

# Iceberg's for a file that storage does not have; an executor's arrives as text.
_GONE = "NotFoundException"
_GONE_IN_TEXT = f"org.apache.iceberg.exceptions.{_GONE}"
# What Spark says of an error in another thread, which is a cause of this one.
_NO_MESSAGE = "Exception thrown in awaitResult"
# Classes of Iceberg that read what a table's metadata says; their errors are about it, of whatever class they are.
_READERS = (
    "TableMetadata",
    "Snapshot",
    "Schema",
    "Partition",
    "SortOrder",
    "Manifest",
    "Avro",
    "Transforms",
    "Types",
)
# Classes whose errors are none of what they read: of a catalog that takes no commit, of a store that takes no file.
_WRITERS = ("Operations", "Catalog", "Writer", "Producer", "Manager", "Update", "Appender", "ClientPoolImpl")
_ICEBERG = "org.apache.iceberg."
# Libraries that throw for what is in a file. Of any other it is a store that has not answered, as far as we know.
_PARSERS = (
    *(_ICEBERG, "org.apache.avro.", "org.apache.parquet.", "org.apache.orc.", "com.fasterxml.jackson."),
    *("org.apache.spark.", "scala."),
)
_JDK = ("java.", "javax.", "jdk.", "sun.", "com.sun.")
# Half a file ends in the first, whoever reads it.
_OF_HALF_A_FILE = ("EOFException", "ChecksumException")
# What Parquet, Avro and Iceberg say of a file of another format, or of half a file.
_OF_CONTENT = ("is not a parquet file", "expected magic number", "not an avro data file", "invalid avro magic")
# What parsing of a setting ends in.
_OF_VALUES = (
    *("IllegalArgumentException", "NumberFormatException", "ArithmeticException", "ValidationException"),
    *("JsonParseException", "MismatchedInputException"),
)
# Methods of Iceberg through which a table is loaded.
_LOADING = ("refreshFromMetadataLocation", "loadIcebergTable", "loadTable")
_FRAMES = 40
# What Spark says of a stage has the stack of an executor's error in it.
_OF_A_STAGE = "Job aborted due to stage failure"
_LOCATION = re.compile(r"(?:\b[a-z][a-z0-9+.-]{0,20}:/|(?<![\w/:])/)[^\s'\"]+")
# As the file systems of Iceberg say that there is no such file.
_GONE_WORDS = (_GONE, "Failed to open input stream", "does not exist", "NoSuchKey")
ROLL_BACK = "Restore it, roll the table back to a snapshot before it, or register an older metadata file"
_LONGEST = 300
# Libraries that Iceberg carries along, and what all of it calls.
_RELOCATED = re.compile(r"\.(?:relocated|shaded|common|util)\.")
# Clients of catalogs. What they read in a store they read through other classes.
_CATALOGS = tuple(
    f"{_ICEBERG}{name}"
    for name in ("jdbc.", "rest.", "hive.", "aws.glue.", "aws.dynamodb.", "nessie.", "snowflake.", "ClientPool")
)
_UNREACHABLE = frozenset(
    {"ConnectException", "NoRouteToHostException", "SocketException", "SocketTimeoutException", "UnknownHostException"}
)
_WORDS = ("premature eof", "read response")
_CLIENTS = ("org.apache.hadoop.hdfs.", "org.apache.hadoop.fs.s3a.")
# An executor's exception may arrive as text, with its stack below it.
_END_IN_TEXT = re.compile(r"java\.io\.EOFException[^\n]*(?:\n\s+at [^\n]*)*")


@contextmanager
def lake_errors(table: str, properties: Callable[[], Mapping[str, str]]) -> Iterator[None]:
    """Turn an error of Java, or one of a known cause, into one that begins with the cause and says what to do.

    :param table: how messages begin.
    :param properties: returns those of the table, asked for after an error.
    :raises BrokenMetadataError: what the metadata says, or a file that it names, cannot be read.
    :raises LakeProviderError: of the cause's type; JobFailedError for one that is not known.
    """
    try:
        yield
    except LakeProviderError:
        raise
    except Exception as error:
        translated = _as_ours(table, error, properties)
        if translated is None:
            raise
        raise translated from error


def _as_ours(table: str, error: Exception, properties: Callable[[], Mapping[str, str]]) -> LakeProviderError | None:
    is_of_java = java_exception(error) is not None
    if is_of_java and (faults := settings_at_fault(error, properties)):
        return BrokenMetadataError(f"{table}: {'; '.join(faults)}. Until then, {failed_with(error)}")
    if (cause := root_cause(error)) is not None:
        return cause.kind.error(f"{table}: {cause.sentence()}")
    if not is_of_java:
        return None
    if (broken := unreadable_file(error)) is not None:
        return BrokenMetadataError(f"{table}: {_message_with_file(error, broken)}")
    return JobFailedError(f"{table}: {failed_with(error)}")


def failed_with(error: BaseException, what: str = "the Spark job") -> str:
    """Return what failed: the innermost exception of Java, and what Spark made of it where that says more.

    :param what: failed.
    """
    causes = list(java_causes(error))
    telling = [cause for cause in causes if cause[1] not in ("", "None") and not cause[1].startswith(_NO_MESSAGE)]
    (outer, outer_text), (inner, text) = (telling or causes)[0], (telling or causes)[-1]
    around = "" if outer_text == text or _OF_A_STAGE in outer_text else f" ({outer}: {_first_line(outer_text)})"
    return f"{what} failed with {inner}: {_first_line(text)}{around}"


def _message_with_file(error: BaseException, message: str) -> str:
    """Return what is wrong with a file that the table needs, and what to do."""
    line = _first_line(message)
    named = (_LOCATION.search(text) for text in (line, *(text_of_cause for _, text_of_cause in java_causes(error))))
    location = next((match[0].rstrip(".,;:)") for match in named if match is not None), "")
    if location.endswith(".metadata.json"):
        what, remedy = f"its metadata file {location}", "Restore it, or register an older metadata file of the table"
    elif location:
        what, remedy = f"a file that its metadata names, {location},", ROLL_BACK
    else:
        what, remedy = "its metadata, or a file that it names,", ROLL_BACK
    if location and is_gone(line):
        return f"{what} is gone. {remedy}"
    return f"{what} cannot be read: {line}. {remedy}"


def is_gone(message: str) -> bool:
    """Tell whether what was said of a file is that storage does not have it."""
    return any(words in message for words in _GONE_WORDS)


def is_of_a_broken_file(text: str) -> bool:
    """Tell whether what Spark says of a failed stage is about a file that is gone, or is none of its format."""
    return _GONE_IN_TEXT in text or any(words in text.lower() for words in _OF_CONTENT)


def settings_at_fault(error: BaseException, properties: Callable[[], Mapping[str, str]]) -> list[str]:
    """Return what is wrong with the table's settings; nothing for an error that does not come of one."""
    is_of_a_value = any(name in _OF_VALUES for name, _ in java_causes(error))
    # What could not be loaded would only be tried again: for 90 s, where Iceberg's parser refuses the metadata.
    if not is_of_a_value or any(method in _LOADING for _, method in _innermost_frames(error)):
        return []
    # The table may be what cannot be read.
    with suppress(Exception):
        return list(unusable_settings(properties()).values())
    return []


def unreadable_file(error: BaseException) -> str | None:
    """Return what is said of a file of the table that no retry reads; None for other errors."""
    if is_unreachable(error) or is_cut_connection(error):
        return None
    for name, message in java_causes(error):
        if name == _GONE or any(words in message.lower() for words in _OF_CONTENT):
            return message
        if _GONE_IN_TEXT in message:
            return message[message.index(_GONE_IN_TEXT) :]
    name, message = list(java_causes(error))[-1]
    return f"{name}: {message}" if _is_of_metadata(error, name) else None


def _is_of_metadata(error: BaseException, exception: str) -> bool:
    """Tell whether the innermost exception came out of a class that reads metadata, not through one that writes."""
    names = [name for name, _ in islice(_innermost_frames(error), _FRAMES)]
    thrown_by = next((name for name in names if not name.startswith(_JDK)), "")
    if not thrown_by.startswith(_PARSERS) and exception not in _OF_HALF_A_FILE:
        return False
    for name in names:
        simple = name.rpartition(".")[2].partition("$")[0]
        if name.startswith(_ICEBERG) and simple.endswith(_WRITERS):
            return False
        if name.startswith(_ICEBERG) and simple.startswith(_READERS):
            return True
    return False


def _innermost_frames(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield class and method of where the innermost exception of Java comes from."""
    java = java_exception(error)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    for frame in () if java is None else java.getStackTrace():
        yield str(frame.getClassName()), str(frame.getMethodName())


def _first_line(message: str) -> str:
    line = message.strip().partition("\n")[0]
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


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

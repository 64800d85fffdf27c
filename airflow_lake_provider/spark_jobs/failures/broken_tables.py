"""Errors of Java about a table, as errors of this package: a file that Iceberg cannot read is read no better later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice

from airflow_lake_provider.contracts.errors import BrokenMetadataError, JobFailedError
from airflow_lake_provider.contracts.unusable_settings import unusable_settings
from airflow_lake_provider.spark_jobs.failures.java_causes import java_causes, java_exception
from airflow_lake_provider.spark_jobs.failures.lost_connections import is_cut_connection, is_unreachable

# Iceberg's for a file that storage does not have; an executor's arrives as text.
_GONE = "NotFoundException"
_GONE_IN_TEXT = f"org.apache.iceberg.exceptions.{_GONE}"
# What Spark says of an error in another thread, which is a cause of this one.
_NOTHING_SAID = "Exception thrown in awaitResult"
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
# What Parquet, Avro and Iceberg say of a file of another format, or of half a file.
_OF_CONTENT = ("is not a parquet file", "expected magic number", "not an avro data file", "invalid avro magic")
# What parsing of a setting ends in.
_OF_VALUES = ("IllegalArgumentException", "NumberFormatException", "ArithmeticException", "ValidationException")
# Methods of Iceberg through which a table is loaded.
_LOADING = ("refreshFromMetadataLocation", "loadIcebergTable", "loadTable")
_FRAMES = 40
_LONGEST = 300


@contextmanager
def told_as_ours(table: str, properties: Callable[[], Mapping[str, str]]) -> Iterator[None]:
    """Turn an error of Java into one that names the table, what was said and whether a retry helps.

    :param table: name, for messages.
    :param properties: returns those of the table, asked for after an error.
    :raises BrokenMetadataError: what the metadata says, or a file that it names, cannot be read.
    :raises JobFailedError: anything else.
    """
    try:
        yield
    # PySpark has names of its own for some errors of Java; those of this package are none of Java's.
    except Exception as error:
        if java_exception(error) is None:
            raise
        causes = list(java_causes(error))
        name, message = next((cause for cause in causes if not cause[1].startswith(_NOTHING_SAID)), causes[-1])
        said = f"the Spark job failed with {name}: {_first_line(message)}"
        if wrong := settings_at_fault(error, properties):
            raise BrokenMetadataError(f"{table}: {'; '.join(wrong)}. Until then, {said}") from error
        if (broken := unreadable_file(error)) is None:
            raise JobFailedError(f"{table}: {said}") from error
        raise BrokenMetadataError(
            f"{table}: its metadata, or a file that it names, cannot be read: {_first_line(broken)}. Restore the file, "
            "roll the table back to a snapshot before it, or register an older metadata file"
        ) from error


def is_of_a_broken_file(text: str) -> bool:
    """Tell whether what Spark says of a failed stage is about a file that is gone, or is none of its format."""
    return _GONE_IN_TEXT in text or any(words in text.lower() for words in _OF_CONTENT)


def settings_at_fault(error: BaseException, properties: Callable[[], Mapping[str, str]]) -> list[str]:
    """Return what is wrong with the table's settings; nothing for an error that does not come of one.

    :param properties: see :func:`told_as_ours`.
    """
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
    return f"{name}: {message}" if _is_of_metadata(error) else None


def _is_of_metadata(error: BaseException) -> bool:
    """Tell whether the innermost exception came out of a class that reads metadata, not through one that writes."""
    for name, _ in islice(_innermost_frames(error), _FRAMES):
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

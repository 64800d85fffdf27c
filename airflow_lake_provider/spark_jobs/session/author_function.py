"""A function of an author's module in the driver: how it gets there, and what it says when it fails."""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.errors import InvalidSpecError, JobFailedError, LakeProviderError
from airflow_lake_provider.spark_jobs.jvm.gateway import java_session
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, java_causes
from airflow_lake_provider.spark_jobs.session.pinned_settings import pin_settings

_MOST_LINES = 10
# Their lines tell an author nothing.
_LIBRARIES = ("pyspark", "py4j", "airflow_lake_provider")
# Each session has it.
_SESSION_CATALOG = "spark_catalog"
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r' {2}File "([^"]*)", line \d+')


def load_function(spark: SparkSession, function: str, code: str | None) -> Callable[..., object]:
    """Return a function of an author's.

    :param function: ``package.module:function``.
    :param code: text of its module, where the worker has shipped it; None for a module that the driver can import.
    :raises InvalidSpecError: there is no such module or function.
    """
    module_name, function_name = function.split(":")
    if code is not None:
        module_name = _ship(spark, code, module_name)
    with errors_of(spark, function):
        module = importlib.import_module(module_name)
    loaded: object = getattr(module, function_name, None)
    if not callable(loaded):
        raise InvalidSpecError(f"{function}: the module has no function {function_name!r}")
    return loaded


def frame_of(spark: SparkSession, function: str, result: object) -> DataFrame:
    """Return what a function has returned; the session has the settings of a job again, whatever the function set.

    :raises InvalidSpecError: it is no DataFrame of a batch, or of another session.
    """
    if not isinstance(result, DataFrame):
        kind = f"{type(result).__module__}.{type(result).__qualname__}".removeprefix("builtins.")
        raise InvalidSpecError(
            f"{function} must return a DataFrame of Spark, got {kind}; spark.createDataFrame(...) makes one of lists "
            "and of DataFrames of pandas"
        )
    if result.isStreaming:
        raise InvalidSpecError(f"{function} must return a DataFrame of a batch, got a stream; use spark.read")
    if not java_session(result.sparkSession).equals(java_session(spark)):
        raise InvalidSpecError(
            f"{function} returned a DataFrame of another session, whose settings may be others; make it by the session "
            "that the function is given, and by none of SparkSession.builder or newSession()"
        )
    # Predicates and partition transforms of ours are judged by the session as it is when the rows are read.
    pin_settings(spark)
    return result


@contextmanager
def errors_of(spark: SparkSession, function: str) -> Iterator[None]:
    """Show an error of an author's code with its own lines; names mean the same as before it, also after a ``USE``.

    :raises InvalidSpecError: it ended Python, or stopped the session, or a module that it imports is not there.
    :raises JobFailedError: any other error but one of this package.
    """
    catalog, namespace = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    try:
        yield
        _refuse_stopped(spark, function)
        _use(spark, catalog, namespace)
    except LakeProviderError:
        raise
    except (Exception, SystemExit) as error:
        _refuse_stopped(spark, function)
        lines = "".join(_own_lines(error.__traceback__))
        what = "".join(traceback.format_exception_only(error)).strip()
        if isinstance(error, SystemExit):
            raise InvalidSpecError(
                f"{function} must not end Python, which runs the whole job: raise an error, or return no rows:\n"
                f"{lines}{what}"
            ) from error
        if isinstance(error, ModuleNotFoundError):
            where = f":\n{lines}{what}" if lines else ""
            raise InvalidSpecError(
                f"{function}: {error}; put its module beside the DAG, or what it imports on the driver's path with "
                f"py_files{where}"
            ) from error
        raise JobFailedError(f"{function} raised an error:\n{lines}{what}") from error


def _use(spark: SparkSession, catalog: str, namespace: str) -> None:
    """Let names be of a catalog and a namespace again, which is the empty one where none was chosen."""
    if (spark.catalog.currentCatalog(), spark.catalog.currentDatabase()) == (catalog, namespace):
        return
    # Another catalog forgets the namespace; no statement names the empty one.
    for name in (_SESSION_CATALOG, catalog):
        spark.catalog.setCurrentCatalog(name)
    if spark.catalog.currentDatabase() != namespace:
        spark.catalog.setCurrentDatabase(namespace)


def _refuse_stopped(spark: SparkSession, function: str) -> None:
    try:
        spark.sparkContext.defaultParallelism  # noqa: B018  # it asks the context, which refuses once it was stopped
    except Exception as error:
        raise InvalidSpecError(
            f"{function} has stopped the Spark session, or its application has ended: leave spark.stop() out, the job "
            "ends the session that it began"
        ) from error


@contextmanager
def errors_in_rows_of(function: str) -> Iterator[None]:
    """Show an error of Python code that runs with the rows of a function, such as a UDF, with the author's own lines.

    :raises InvalidSpecError: a module that it imports is not on the executors.
    :raises JobFailedError: any other error of such code.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        texts = (str(error), *(message for _, message in java_causes(error)))
        text = next((each for each in texts if _TRACEBACK in each), None)
        if text is None:
            raise
        lines = "\n".join(_own_lines_in(text.rpartition(_TRACEBACK)[2]))
        where = f"{function}: Python code that its rows go through, such as a UDF,"
        if lines.rpartition("\n")[2].startswith(f"{ModuleNotFoundError.__name__}:"):
            raise InvalidSpecError(
                f"{where} imports a module that executors do not have; give it with py_files:\n{lines}"
            ) from error
        raise JobFailedError(f"{where} raised an error:\n{lines}") from error


def _own_lines(trace: TracebackType | None) -> list[str]:
    """Return the last lines of a traceback in an author's files, as Python shows them."""
    frames = [each for each in traceback.extract_tb(trace) if not _is_foreign(each.filename)]
    return traceback.format_list(frames[-_MOST_LINES:])


def _own_lines_in(trace: str) -> list[str]:
    """Return those of a traceback that a worker has sent as text, and its last line."""
    kept, is_own = [], True
    for line in trace.strip("\n").partition("\n\n")[0].splitlines():
        if frame := _FRAME.match(line):
            is_own = not _is_foreign(frame[1])
        elif not line.startswith(" "):
            is_own = True
        if is_own:
            kept.append(line)
    return kept[-3 * _MOST_LINES :]


def _is_foreign(file: str) -> bool:
    parts = Path(file).parts
    return file.startswith("<frozen ") or any(name in parts for name in _LIBRARIES)


def _ship(spark: SparkSession, code: str, module_name: str) -> str:
    """Write the code as a module that driver and executors can import, and return its name.

    The name has the code's digest: a session that runs two versions keeps them apart.
    """
    digest = hashlib.sha256(code.encode()).hexdigest()[:16]
    shipped_name = f"lake_transform_{module_name.rpartition('.')[2]}_{digest}"
    if shipped_name not in sys.modules:
        # Spark removes this folder when the application ends, however many executors have fetched the file by then.
        root = SparkFiles.getRootDirectory()
        path = Path(tempfile.mkdtemp(prefix="lake_transform_", dir=root)) / f"{shipped_name}.py"
        path.write_text(code, encoding="utf-8")
        spark.sparkContext.addPyFile(str(path))
        importlib.invalidate_caches()
    return shipped_name

"""A function of an author's module in the driver: how it gets there, and what it says when it fails."""

from __future__ import annotations

import hashlib
import importlib
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
from airflow_lake_provider.spark_jobs.session.pinned_settings import pin_settings

_MOST_LINES = 10
# Their lines tell an author nothing.
_LIBRARIES = ("pyspark", "py4j")


def load_function(spark: SparkSession, function: str, code: str | None) -> Callable[..., object]:
    """Return a function of an author's.

    :param function: ``package.module:function``.
    :param code: text of its module, where the worker has shipped it; None for a module that the driver can import.
    :raises InvalidSpecError: there is no such module or function.
    """
    module_name, function_name = function.split(":")
    if code is not None:
        module_name = _ship(spark, code, module_name)
    try:
        with errors_of(function):
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InvalidSpecError(
            f"{function}: {error}; put its module beside the DAG, or what it imports on the driver's path with py_files"
        ) from error
    loaded: object = getattr(module, function_name, None)
    if not callable(loaded):
        raise InvalidSpecError(f"{function}: the module has no function {function_name!r}")
    return loaded


def frame_of(spark: SparkSession, function: str, result: object) -> DataFrame:
    """Return what a function has returned; the session has the settings of a job again, whatever the function set.

    :raises InvalidSpecError: it is no DataFrame of a batch.
    """
    if not isinstance(result, DataFrame) or result.isStreaming:
        kind = "a stream" if isinstance(result, DataFrame) else type(result).__name__
        raise InvalidSpecError(f"{function} must return a DataFrame, got {kind}")
    # Predicates and partition transforms of ours are judged by the session as it is when the rows are read.
    pin_settings(spark)
    return result


@contextmanager
def errors_of(function: str) -> Iterator[None]:
    """Show an error of an author's code with its own lines.

    :raises JobFailedError: any error but one of this package, and of a module that is not there.
    """
    try:
        yield
    except (LakeProviderError, ModuleNotFoundError):
        raise
    except Exception as error:
        lines = "".join(_own_lines(error.__traceback__))
        what = "".join(traceback.format_exception_only(error)).strip()
        raise JobFailedError(f"{function} raised an error:\n{lines}{what}") from error


def _own_lines(trace: TracebackType | None) -> list[str]:
    """Return the last lines of a traceback in an author's files, as Python shows them."""
    frames = [each for each in traceback.extract_tb(trace) if each.filename != __file__ and not _is_foreign(each)]
    return traceback.format_list(frames[-_MOST_LINES:])


def _is_foreign(frame: traceback.FrameSummary) -> bool:
    parts = Path(frame.filename).parts
    return frame.filename.startswith("<frozen ") or any(name in parts for name in _LIBRARIES)


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

"""Names of local files and folders that the driver's Java does not read: Hadoop leaves them out without a word.

Java reads names in the encoding of the locale it was started in. With ``LC_ALL=C`` that is ASCII alone.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of

GLOB_CHARACTERS = frozenset("{}[]*?\\")


def is_glob(text: str) -> bool:
    """Tell whether a path, or a part of one, has a sign that a glob of Hadoop reads as one."""
    return not GLOB_CHARACTERS.isdisjoint(text)


def encoding_of_names(spark: SparkSession) -> str:
    """Return the encoding in which Java reads names of files, such as ``UTF-8``."""
    return _encoding_of(jvm_of(spark))


@functools.cache
def _encoding_of(jvm: Any) -> str:
    return str(jvm.java.lang.System.getProperty("sun.jnu.encoding") or "UTF-8")


def is_hidden(name: str) -> bool:
    """Return whether Spark's file index skips a name; the rule is ``HadoopFSUtils.shouldFilterOutPathName``."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def refuse_unread_names(folder: str, encoding: str) -> None:
    """Refuse a name in a folder that Java does not read, unless it is a hidden one.

    :param folder: path of the local disk.
    :raises BadInputError: naming the first.
    """
    for name in _unread_names(folder, encoding):
        _refuse(folder, name, encoding)


def refuse_unread_matches(spark: SparkSession, filesystem: Any, pattern: str, encoding: str) -> None:
    """Refuse a name that Java does not read, and that a glob would match.

    :param filesystem: Hadoop's of the local disk.
    :param pattern: the glob.
    :raises BadInputError: naming the first.
    """
    hadoop = jvm_of(spark).org.apache.hadoop.fs
    is_absolute = pattern.startswith("/")
    path = pattern if is_absolute else str(filesystem.makeQualified(hadoop.Path(pattern)).toUri().getPath())
    levels = path.split("/")
    if any(level.count("{") != level.count("}") for level in levels):
        # Names of several levels in braces.
        return
    for place, level in enumerate(levels):
        if not is_glob(level):
            continue
        for where in _folders(filesystem, hadoop, "/".join(levels[:place]) or "/"):
            for name in _unread_names(where, encoding):
                is_of_level = place == len(levels) - 1 or Path(where, name).is_dir()
                if is_of_level and hadoop.GlobPattern(level).matches(os.fsencode(name).decode(encoding, "replace")):
                    _refuse(where, name, encoding)


def _folders(filesystem: Any, hadoop: Any, pattern: str) -> list[str]:
    if not is_glob(pattern):
        # Most globs are of one folder; to ask Java for it takes a dozen commands.
        return [pattern]
    return [str(folder.getPath().toUri().getPath()) for folder in filesystem.globStatus(hadoop.Path(pattern)) or ()]


def _unread_names(folder: str, encoding: str) -> Iterator[str]:
    # What is no folder has no names, and Hadoop says why one cannot be read.
    with suppress(OSError):
        for name in sorted(path.name for path in Path(folder).iterdir()):
            if not is_hidden(name) and not _is_read(name, encoding):
                yield name


def _is_read(name: str, encoding: str) -> bool:
    try:
        os.fsencode(name).decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _refuse(folder: str, name: str, encoding: str) -> None:
    shown = os.fsencode(f"{folder}/{name}").decode("utf-8", "backslashreplace")
    raise BadInputError(
        f"{shown} has a name that Java does not read as {encoding}, so its rows would be left out; rename it, or start "
        "the driver with LC_ALL=C.UTF-8 where names are UTF-8"
    )

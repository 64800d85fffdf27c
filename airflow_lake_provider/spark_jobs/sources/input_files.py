"""The files a path or glob stands for at this moment, through Hadoop, so on any storage Spark reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile

GLOB_CHARACTERS = frozenset("{}[]*?\\")


def list_input_files(spark: SparkSession, pattern: str) -> tuple[InputFile, ...]:
    """List files, sorted by path; folders are listed with all that is below them, hidden names are left out.

    :param pattern: path or Hadoop glob, of any scheme Spark can read.
    :return: nothing for a glob that matches nothing. A version is the modification time in epoch milliseconds.
    :raises BadInputError: a path without glob characters that does not exist, or that Spark would skip as hidden.
    """
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(pattern)
    filesystem = path.getFileSystem(spark._jsc.hadoopConfiguration())
    matches = filesystem.globStatus(path)
    if not GLOB_CHARACTERS & set(pattern):
        _refuse_unreadable(pattern, str(filesystem.makeQualified(path).toString()), matches)
    found = {file for match in matches or () for file in _files_below(filesystem, match)}
    return tuple(sorted(found))


@dataclass(frozen=True, kw_only=True)
class SourceLocation:
    """Address that a path leads to for this driver.

    :param address: with scheme and authority; None for a table.
    :param warnings: at most one.
    """

    address: str | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, spark: SparkSession, pattern: str | None) -> SourceLocation:
        """Resolve a path or glob as :func:`list_input_files` does; nothing is looked for."""
        if pattern is None:
            return cls()
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(pattern)
        address = str(path.getFileSystem(spark._jsc.hadoopConfiguration()).makeQualified(path).toString())
        is_named = path.toUri().getScheme() is not None or str(spark.sparkContext.master).startswith("local")
        return cls(address=address, warnings=() if is_named else (default_file_system(pattern, address),))


def default_file_system(pattern: str, address: str) -> str:
    """Warn of a path that means what the cluster's settings say, and not the machine of whoever wrote it."""
    return (
        f"the path {pattern!r} names no file system, so the cluster's default one was read: {address}. Where another "
        "one is meant, write the address with its scheme, such as s3a:// or file://"
    )


def is_hidden(name: str) -> bool:
    """Tell whether Spark's file index skips a name; the rule is ``HadoopFSUtils.shouldFilterOutPathName``."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def _refuse_unreadable(pattern: str, address: str, matches: Any) -> None:
    if not matches:
        raise BadInputError(
            f"source {pattern!r} does not exist, looked for at {address}; a glob (*, ?, [], {{}}) may match nothing, a "
            "path may not"
        )
    if matches[0].isFile() and is_hidden(matches[0].getPath().getName()):
        raise BadInputError(f"source {pattern!r} has a hidden name, which Spark skips without a word; rename the file")


def _files_below(filesystem: Any, match: Any) -> Iterator[InputFile]:
    root = match.getPath()
    if is_hidden(root.getName()):
        return
    if match.isFile():
        yield _input_file(match)
        return
    listing = filesystem.listFiles(root, True)
    while listing.hasNext():
        status = listing.next()
        below = status.getPath().toString().removeprefix(root.toString())
        if not any(is_hidden(level) for level in below.split("/")):
            yield _input_file(status)


def _input_file(status: Any) -> InputFile:
    return InputFile(status.getPath().toString(), int(status.getLen()), str(status.getModificationTime()))

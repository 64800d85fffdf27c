"""The files a path or glob stands for at this moment, through Hadoop, so on any storage Spark reads.

A file of a local disk that a symbolic link shows once more is the same file, and no other rows. Files of a lake table
are refused as files of rows: some have rows that were deleted or replaced since.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import islice
from os import scandir
from os.path import realpath
from pathlib import Path
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BadInputError, JobFailedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.spark_jobs.jvm.gateway import hadoop_settings, jvm_of, load_class, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava, list_of_array, list_of_texts, texts_of
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError, java_causes
from airflow_lake_provider.spark_jobs.jvm.method_handles import method_handles
from airflow_lake_provider.spark_jobs.sources.base import SourceLocation
from airflow_lake_provider.spark_jobs.sources.unread_names import (
    encoding_of_names,
    is_glob,
    is_hidden,
    refuse_unread_matches,
    refuse_unread_names,
)

_LOCAL = "file:"
_PATH = "org.apache.hadoop.fs.Path"
_COLON = "has a colon in its name, which Hadoop's file systems and globs do not take; rename it, with - for each :"
_NO_GLOB = re.compile("(?:Illegal file pattern|error parsing regexp): (?:error parsing regexp: )?(.*)")
# Formats that tables have their rows in.
_FORMATS = frozenset({"parquet", "orc", "avro"})
# What the folder of a table of each kind has: all of these. Iceberg's is looked into.
_MARKS = {
    "Delta Lake": ("_delta_log",),
    "Hudi": (".hoodie",),
    "Paimon": ("snapshot", "schema/schema-0"),
    "Iceberg": ("metadata",),
}
# Folders between that of a table and its files: partitions, buckets, hashes of Iceberg's layout for object stores.
_INNER = re.compile(r"[^/]*=[^/]*|bucket-\d+|[01]{4,8}")
# Levels above these. Hudi's partitions may be by year, month and day without names.
_LEVELS = 4
_MOST_FOLDERS = 64
_OPENED_AT_ONCE = 16
_MOST_LISTED = 200


def list_input_files(spark: SparkSession, pattern: str) -> tuple[InputFile, ...]:
    """List files, sorted by path; folders are listed with all that is below them, hidden names are left out.

    A folder of a hidden name is read where the end of the pattern is its name, without a sign of a glob.

    :param pattern: path or Hadoop glob, of any scheme Spark can read.
    :return: nothing for a glob that matches nothing. A version is the modification time in epoch milliseconds.
    :raises BadInputError: a path without glob characters that does not exist, or that Spark would skip as hidden. Or a
        name with a colon where Hadoop cannot read it, or a glob that is not closed. Or a name of a local disk that
        Java cannot read, or a link there that leads nowhere.
    :raises JobFailedError: a folder went away meanwhile.
    """
    statuses = _file_statuses(spark)
    with _refusing_patterns(pattern), _naming_what_is_gone(pattern):
        path = jvm_of(spark).org.apache.hadoop.fs.Path(pattern)
        filesystem = path.getFileSystem(hadoop_settings(spark))
        matches = filesystem.globStatus(path)
        encoding = encoding_of_names(spark) if filesystem.getUri().getScheme() == "file" else None
        if is_glob(pattern) and encoding is not None:
            refuse_unread_matches(spark, filesystem, pattern, encoding, statuses.paths)
    if not is_glob(pattern):
        _refuse_unreadable(pattern, str(filesystem.makeQualified(path).toString()), matches)
    if not matches:
        return ()
    is_named = not is_glob(pattern.rstrip("/").rpartition("/")[2])
    with _naming_what_is_gone(pattern):
        visible = _visible_files(statuses, filesystem, matches, encoding, are_named=is_named)
        # Of many files, an order by their texts takes a fourth of one by what they are.
        files = sorted(set(visible), key=lambda file: (file.path, file.size, file.version))
        if encoding is not None and len(files) > 1:
            files = _without_linked_twins(files)
    for file in files:
        # Hadoop asks for a checksum under the name, and takes what is before the colon for a scheme.
        if file.path.startswith(_LOCAL) and ":" in file.path.rpartition("/")[2]:
            raise BadInputError(f"{file.path} {_COLON}")
    return tuple(files)


@contextmanager
def _refusing_patterns(pattern: str) -> Iterator[None]:
    try:
        yield
    except (IllegalArgumentException, JavaError) as error:
        if fault := _NO_GLOB.search(str(error)):
            raise BadInputError(
                f"source {pattern!r} is no glob: {fault[1]}; close each bracket, or write a backslash before a sign "
                "that is of a name"
            ) from error
        if "Relative path in absolute URI" not in str(error):
            raise
        name = str(error).split("Relative path in absolute URI: ", 1)[-1].splitlines()[0]
        raise BadInputError(f"source {pattern!r}: {name} {_COLON}. A store such as S3 may take the folder") from error


@contextmanager
def _naming_what_is_gone(pattern: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, JavaError) as error:
        gone = dict(java_causes(error)).get("FileNotFoundException")
        if isinstance(error, JavaError) and gone is None:
            raise
        raise JobFailedError(
            f"a folder of source {pattern!r} was listed and is gone ({gone or error}); a retry lists the source anew"
        ) from error


def location_of(spark: SparkSession, pattern: str) -> SourceLocation:
    """Resolve a path or glob as :func:`list_input_files` does; nothing is looked for."""
    with _refusing_patterns(pattern):
        path = jvm_of(spark).org.apache.hadoop.fs.Path(pattern)
    address = str(path.getFileSystem(hadoop_settings(spark)).makeQualified(path).toString())
    is_named = path.toUri().getScheme() is not None or str(spark.sparkContext.master).startswith("local")
    unnamed = (
        f"the path {pattern!r} names no file system, so the cluster's default one was read: {address}. Where another "
        "one is meant, write the address with its scheme, such as s3a:// or file://"
    )
    return SourceLocation(address=address, warnings=() if is_named else (unnamed,))


def _refuse_unreadable(pattern: str, address: str, matches: Any) -> None:
    if not matches:
        raise BadInputError(
            f"source {pattern!r} does not exist, looked for at {address}; a glob (*, ?, [], {{}}) may match nothing, a "
            "path may not"
        )
    if matches[0].isFile() and is_hidden(matches[0].getPath().getName()):
        raise BadInputError(f"source {pattern!r} has a hidden name, which Spark skips without a word; rename the file")


def _visible_files(
    statuses: _FileStatuses, filesystem: Any, matches: Any, encoding: str | None, *, are_named: bool = False
) -> Iterator[InputFile]:
    """Yield the files of an array of ``FileStatus``, and what is below its folders.

    :param encoding: of names on a local disk; None for a store.
    :param are_named: whether folders are read whatever their names are.
    """
    listed = statuses.array(matches)
    while listed is not None:
        below: list[str] = []
        for place, (match, is_file) in enumerate(zip(statuses.files(listed), statuses.are_files(listed), strict=True)):
            if is_hidden(match.path.rpartition("/")[2]) and (is_file or not are_named):
                continue
            if is_file:
                yield match
            elif encoding is None:
                yield from _files_below(statuses, filesystem, listed.get(place).getPath())
            elif not _leads_back(match.path):
                refuse_unread_names(match.path.removeprefix(_LOCAL), encoding)
                below.append(match.path)
        # Hadoop starts a process for each local file that its own listing of a tree shows, to ask for its owner. All
        # folders of a level come over in as many commands as one.
        listed, are_named = statuses.below(filesystem, below) if below else None, False


def _files_below(statuses: _FileStatuses, filesystem: Any, root: Any) -> Iterator[InputFile]:
    folder = str(root.toString())
    for file in statuses.files(statuses.all(filesystem.listFiles(root, True))):
        if not any(is_hidden(level) for level in file.path.removeprefix(folder).split("/")):
            yield file


def _leads_back(address: str) -> bool:
    """Return whether a folder is a link to one that it is in, below which its own tree begins again.

    :param address: of the folder, as Hadoop writes it.
    """
    path = Path(address.removeprefix(_LOCAL))
    return path.is_symlink() and Path(realpath(path.parent)).is_relative_to(realpath(path))


def _without_linked_twins(files: Sequence[InputFile]) -> list[InputFile]:
    """Return each file of the disk once: by its own path, or by the first one if only links show it."""
    real_folder, links = cache(realpath), cache(_links_in)
    shown: dict[str, list[InputFile]] = {}
    for file in files:
        path = file.path.removeprefix(_LOCAL)
        folder, _, name = path.rpartition("/")
        real = realpath(path) if name in links(folder) else f"{real_folder(folder)}/{name}"
        shown.setdefault(real, []).append(file)
    twins = {real: same for real, same in shown.items() if len(same) > 1}
    own = {min(same, key=lambda file: (file.path.removeprefix(_LOCAL) != real, file)) for real, same in twins.items()}
    others = {file for same in twins.values() for file in same} - own
    return [file for file in files if file not in others] if others else list(files)


def _links_in(folder: str) -> frozenset[str]:
    with scandir(folder) as entries:
        return frozenset(entry.name for entry in entries if entry.is_symlink())


@once_a_driver
def _file_statuses(spark: SparkSession) -> _FileStatuses:
    """Return the one of a driver: its functions of Java are made once."""
    return _FileStatuses(spark)


class _FileStatuses:
    """Bring lists of Hadoop's ``FileStatus`` over, a column of all files in one command."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        make = method_handles(spark)
        self._path_of = make.function(make.constructor(_PATH, "java.lang.String"))
        self._path = self._getter("getPath", _PATH)
        self._size, self._version = self._getter("getLen", "long"), self._getter("getModificationTime", "long")
        self._is_file = self._getter("isFile", "boolean")

    def array(self, statuses: Any) -> Any:
        """Return an array as a list."""
        return list_of_array(self._spark, statuses)

    def below(self, filesystem: Any, folders: Sequence[str]) -> Any:
        """Return what is in folders, one behind the other, as a list."""
        collect = guava(self._spark).collect
        paths = collect.Lists.transform(list_of_texts(self._spark, folders), self._path_of)
        return self.array(filesystem.listStatus(collect.Iterables.toArray(paths, load_class(self._spark, _PATH))))

    def paths(self, statuses: Any) -> list[str]:
        """Return the paths of an array."""
        return texts_of(self._spark, self.array(statuses), self._path)

    def all(self, listing: Any) -> Any:
        """Return the rest of Hadoop's iterator as a list; it reads page by page."""
        return jvm_of(self._spark).org.apache.hadoop.util.functional.RemoteIterators.toList(listing)

    def files(self, statuses: Any) -> Iterator[InputFile]:
        """Yield what identifies each file."""
        columns = (texts_of(self._spark, statuses, function) for function in (self._path, self._size, self._version))
        return (InputFile(path, int(size), version) for path, size, version in zip(*columns, strict=True))

    def are_files(self, statuses: Any) -> list[bool]:
        """True for files, False for folders."""
        return [text == "true" for text in texts_of(self._spark, statuses, self._is_file)]

    def _getter(self, name: str, result: str) -> Any:
        make = method_handles(self._spark)
        return make.function(make.method("org.apache.hadoop.fs.FileStatus", name, result))


def refuse_table_folders(spark: SparkSession, file_format: str | None, files: Sequence[InputFile]) -> None:
    """Refuse files below the folder of a table of any kind.

    :param file_format: of the source; text formats are not looked at.
    :raises BadInputError: naming a file, the table's folder and how to read it.
    """
    if file_format not in _FORMATS:
        return
    below = {folder: file for file in reversed(files) for folder in _folders_above(file.path)}
    folders = sorted(below, key=len)[:_MOST_FOLDERS]
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as opened:
        for folder, kind in zip(folders, opened.map(lambda each: _kind_of(spark, each), folders), strict=True):
            if kind is not None:
                read = "Read the table by LakeTable"
                if kind != "Iceberg":
                    read = f"Read the table by a PySparkFunction, with Spark's package for {kind}"
                raise BadInputError(
                    f"{below[folder].path} is a file of the {kind} table in {folder}, which tells what of its files is "
                    f"still there: read as {file_format}, rows that were deleted would come back. {read}, or copy what "
                    "is wanted to a folder outside of it"
                )


def _folders_above(path: str) -> Iterator[str]:
    folder = path.rpartition("/")[0]
    while _INNER.fullmatch(folder.rpartition("/")[2]):
        folder = folder.rpartition("/")[0]
    for _ in range(_LEVELS):
        # The root of a store.
        if "/" not in folder or folder.endswith("/"):
            return
        yield folder
        folder = folder.rpartition("/")[0]


def _kind_of(spark: SparkSession, folder: str) -> str | None:
    """Return the kind of table that a folder is of; None for none, or where nobody may look."""
    path_of = jvm_of(spark).org.apache.hadoop.fs.Path
    try:
        filesystem = path_of(folder).getFileSystem(hadoop_settings(spark))
        for kind, marks in _MARKS.items():
            if not all(filesystem.exists(path_of(f"{folder}/{mark}")) for mark in marks):
                continue
            if kind != "Iceberg" or _has_metadata(filesystem.listStatusIterator(path_of(f"{folder}/metadata"))):
                return kind
    except JavaError:
        return None
    return None


def _has_metadata(listing: Any) -> bool:
    """Tell whether a folder has a metadata file of Iceberg's among its first files."""

    def names() -> Iterator[str]:
        while listing.hasNext():
            yield str(listing.next().getPath().getName())

    return any(name.endswith((".metadata.json", ".metadata.json.gz")) for name in islice(names(), _MOST_LISTED))

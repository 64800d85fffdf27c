"""Keep lists of consumed files that do not fit into a table property, in files beside the table's metadata.

Their names begin with ``_``: Iceberg's removal of orphan files takes such names for hidden and leaves them. Another
tool may take one all the same; then it cannot be told any more which files were consumed, and that is never guessed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

from airflow_lake_provider.contracts.applied.positions import SideFile
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.input_file import ConsumedFiles
from airflow_lake_provider.spark_jobs.formats.commits import DataCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import (
    delete_locations,
    discarded_on_failure,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError

_PREFIX = "_lake-position-"
# A list has 10 bytes for a file, and at most 4 more where each was seen on a day of its own.
_MOST_BYTES_OF_A_FILE = 14


def read_position(table: IcebergTable, source_name: str) -> SourcePosition:
    """Return the position with its files in memory; where their list is gone, ``files.is_lost`` says so.

    The table is read once more when a list is gone. There may have been two commits meanwhile: the second removes what
    the first has superseded.
    """
    position = _with_files(table, SourcePosition.read(table.properties(), source_name, str(table.name)))
    if not any(each.is_lost for each in position.lists.values()):
        return position
    return _with_files(table, SourcePosition.read(table.refresh().properties(), source_name, str(table.name)))


@contextmanager
def position_properties(table: IcebergTable, commit: DataCommit) -> Iterator[dict[str, str]]:
    """Yield the properties of the positions that a commit sets; long lists of files are written before.

    A list whose commit is surely refused is removed. So are, after the commit, lists that nobody reads any more; the
    one before stays, for drivers that have read the metadata before. Where the outcome of the
    commit is not known, all of them stay.
    """
    if commit.branch is not None:
        yield {}
        return
    stored = {name: _stored(table, position, name) for name, position in commit.positions.items()}
    written = [
        each.side_file.path
        for name, position in stored.items()
        for tag, each in position.lists.items()
        if each.side_file is not None and each != commit.positions[name].lists[tag]
    ]
    with discarded_on_failure(table, written, _remove):
        yield {key: text for name, position in stored.items() for key, text in position.to_properties(name).items()}
    # The commit was made: a failure here would be taken for one of its own.
    with suppress(Exception):
        lists = [each for position in stored.values() for each in position.lists.values()]
        _remove(table, [path for each in lists for path in each.outdated])


def _stored(table: IcebergTable, position: SourcePosition, source_name: str) -> SourcePosition:
    while (tag := position.list_for_side_file) is not None:
        files = position.lists[tag]
        consumed = files.files or ConsumedFiles()
        name = f"{_PREFIX}{source_name}-{position.generation}-{secrets.token_hex(4)}.bin"
        path = _location(table, name)
        with closing(table.java.io().newOutputFile(path).create()) as stream:
            stream.write(bytearray(consumed.pack()))
        position = position.with_position(replace(files, side_file=SideFile(path, len(consumed))), tag)
    return position


def _with_files(table: IcebergTable, position: SourcePosition) -> SourcePosition:
    for tag, files in position.lists.items():
        consumed = _listed(table, files.side_file) if files.side_file is not None else None
        if consumed is not None:
            position = position.with_position(replace(files, files=consumed), tag)
    return position


def _listed(table: IcebergTable, side_file: SideFile) -> ConsumedFiles | None:
    """Return the files of a list; None where it is gone, or is no list of this table."""
    if not _is_list(table, side_file.path):
        return None
    try:
        files = ConsumedFiles.unpack(_read(table, side_file))
    except (FileNotFoundError, ValueError):
        return None
    return files if len(files) == side_file.entries else None


def _is_list(table: IcebergTable, path: str) -> bool:
    """Tell whether a path is one of a list of this table: a property can name any file that the driver may read."""
    folder, _, name = path.rpartition("/")
    return name.startswith(_PREFIX) and f"{folder}/" in table.metadata_folders()


def _read(table: IcebergTable, side_file: SideFile) -> bytes:
    path = side_file.path
    try:
        file = table.java.io().newInputFile(path)
        if int(file.getLength()) > side_file.entries * _MOST_BYTES_OF_A_FILE:
            raise ValueError(f"{path} is longer than a list of {side_file.entries} files")
        with closing(file.newStream()) as stream:
            return bytes(stream.readNBytes(int(file.getLength())))
    except JavaError as error:
        # A store that does not answer is no proof that the list is gone.
        if not table.java.io().newInputFile(path).exists():
            raise FileNotFoundError(path) from error
        raise


def _remove(table: IcebergTable, paths: Iterable[str]) -> None:
    """Delete lists of this table; one that a table made from this one's properties names is another's."""
    ours = [path for path in paths if path == _location(table, path.rpartition("/")[2])]
    delete_locations(table, [path for path in ours if path.rpartition("/")[2].startswith(_PREFIX)])


def _location(table: IcebergTable, name: str) -> str:
    return str(table.java.operations().metadataFileLocation(name))

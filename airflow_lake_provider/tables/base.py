"""A table as plans ask it without Spark, whatever its format. Standard library only."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol

from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
from airflow_lake_provider.contracts.table_facts import TableFacts, TableState


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """One data file.

    :param partition: partition values; files of an older partition spec are planned as one partition.
    :param delete_files: ids of the delete files that apply to it, of whatever kind.
    :param deleted_records: rows deleted by the delete files that apply to this file only; others are not countable.
    """

    path: str
    spec_id: int
    partition: Hashable
    bytes: int
    records: int
    delete_files: frozenset[str] = frozenset()
    deleted_records: int = 0


@dataclass(frozen=True, kw_only=True)
class DeleteRecord:
    """One delete file.

    :param id: path, for a deletion vector with its offset, as many share one file.
    :param target: the only data file it applies to; None when it applies to many.
    """

    id: str
    spec_id: int
    partition: tuple[Hashable, ...]
    bytes: int
    records: int
    sequence: int
    target: str | None
    is_equality: bool
    is_vector: bool


@dataclass(frozen=True, kw_only=True)
class LiveFiles:
    """The live files of a table's head.

    :param data: those that may hold rows of a predicate.
    :param deletes: all delete files.
    """

    data: list[FileRecord]
    deletes: list[DeleteRecord]


class LoadedTable(Protocol):
    """A table as it was loaded; the facts are at hand, all else reads small files."""

    @property
    def facts(self) -> TableFacts:
        """Facts of the version that was loaded."""

    @property
    def warehouse(self) -> str | None:
        """Root that its catalog puts tables below; None where that is not known."""

    def state(self) -> TableState:
        """Return the counts of main's head; one small file is opened."""

    def columns_in(self, where: str) -> list[str]:
        """Return the columns that a predicate names.

        :raises InvalidSpecError: it cannot be read as comparisons of columns with constants.
        """

    def live_files(self, where: str | None) -> LiveFiles:
        """Read the live files of main's head.

        :param where: predicate on the rows that the data files may hold; None for all.
        :raises InvalidSpecError: it cannot be read, or names a column that the table lacks.
        """

    def manifest_sizes(self, snapshot: int) -> list[list[int]]:
        """Return the bytes of the manifests that a merge may join, those of data and those of deletes apart."""

    def versions_since(self, at: int) -> Iterator[TableFacts]:
        """Yield the versions of the metadata since a moment, oldest first, this one last; those that are gone are
        left out.

        :param at: epoch milliseconds.
        """

    def has_file(self, location: str) -> bool:
        """Tell whether a file exists."""

    def commit(self, change: MetadataChange) -> bool:
        """Make a change by one compare-and-swap of the catalog.

        :return: False where only Spark can; nothing was sent then.
        :raises CommitConflictError: another commit came in between; nothing changed.
        :raises UnknownOutcomeError: the answer was lost.
        """

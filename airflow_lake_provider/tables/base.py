"""A table as plans ask it without Spark, whatever its format. Standard library only."""

# A method that a format has not written takes no notice of what it is given.
# ruff: noqa: ARG002

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from airflow_lake_provider.contracts.capabilities import FormatCapabilities, Verdict
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
from airflow_lake_provider.contracts.table_facts import TableFacts, TableState
from airflow_lake_provider.contracts.table_name import TableName


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


class LoadedTable(ABC):
    """A table as it was loaded; the facts are at hand, all else reads small files.

    A method that no declared capability of the format asks for may stay as it is here.
    """

    # Those of its format.
    capabilities: ClassVar[FormatCapabilities]
    # Actions of maintenance that ``planning/`` decides as the driver of the format does.
    planned: ClassVar[frozenset[str]] = frozenset()

    @property
    @abstractmethod
    def facts(self) -> TableFacts:
        """Facts of the version that was loaded."""

    @abstractmethod
    def state(self) -> TableState:
        """Return the counts of main's head; one small file is opened."""

    @property
    def warehouse(self) -> str | None:
        """Root that its catalog puts tables below; None where that is not known."""
        return None

    def unfit_for(self, capability: str, keys: Sequence[str] = ()) -> str | None:
        """Return why the table rules a capability out, as a clause; None where it does not.

        :param capability: one of ``contracts.capabilities``.
        :param keys: of an upsert, however they are spelled.
        """
        return self.capabilities.lacks(capability, self.facts.format_version)

    def check(self, keys: Sequence[str]) -> list[Verdict]:
        """Return what can be done with the table, and why not.

        :param keys: of upserts and changes; without any, the identifier fields.
        """
        return self.capabilities.verdicts(self.facts.format_version)

    def columns_in(self, where: str) -> list[str]:
        """Return the columns that a predicate names.

        :raises InvalidSpecError: it cannot be read as comparisons of columns with constants.
        """
        raise self._lacking("compaction")

    def live_files(self, where: str | None) -> LiveFiles:
        """Read the live files of main's head.

        :param where: predicate on the rows that the data files may hold; None for all.
        :raises InvalidSpecError: it cannot be read, or names a column that the table lacks.
        """
        raise self._lacking("compaction")

    def manifest_sizes(self, snapshot: int) -> list[list[int]]:
        """Return the bytes of the manifests that a merge may join, those of data and those of deletes apart."""
        raise self._lacking("compaction")

    def versions_since(self, at: int) -> Iterator[TableFacts]:
        """Yield the versions of the metadata since a moment, oldest first, this one last; those that are gone are
        left out.

        :param at: epoch milliseconds.
        """
        raise self._lacking("rollback")

    def has_file(self, location: str) -> bool:
        """Tell whether a file exists."""
        raise self._lacking("rollback")

    def commit(self, change: MetadataChange) -> bool:
        """Make a change by one compare-and-swap of the catalog.

        :return: False where only Spark can; nothing was sent then.
        :raises CommitConflictError: another commit came in between; nothing changed.
        :raises UnknownOutcomeError: the answer was lost.
        """
        return False

    def _lacking(self, name: str) -> UnsupportedError:
        return UnsupportedError(
            f"{self.facts.name}: table format {self.capabilities.name!r} lacks {name!r} on workers: "
            f"{type(self).__name__} has no method for it"
        )


@dataclass(frozen=True)
class MetadataVersion:
    """Version of a table's metadata, as its catalog names it.

    :param location: of the metadata file.
    :param etag: of the REST catalog's answer; None where it gave none.
    """

    location: str
    etag: str | None = None


class WorkerCatalog(Protocol):
    """A catalog as a table format reads it without Spark: what ``FormatCapabilities.worker`` names.

    The class is made of a ``CatalogConnection``, and imports by then what it takes: the limit of time of a call counts
    from :meth:`open` on. Errors of libraries are translated as those of PyIceberg are.
    """

    def open(self) -> None:
        """Connect to the catalog."""

    def close(self) -> None:
        """End its connections."""

    def count_namespaces(self) -> int:
        """Return how many namespaces it has."""

    def tables_in(self, namespace: tuple[str, ...]) -> list[str]:
        """Return the whole names of a namespace's tables."""

    def load(self, name: TableName) -> LoadedTable:
        """Load a table's current metadata.

        :raises MissingTableError: it does not exist.
        :raises BrokenMetadataError: its metadata cannot be what a writer made.
        """

    def load_if_changed(
        self, name: TableName, seen: MetadataVersion | None
    ) -> tuple[LoadedTable, MetadataVersion] | None:
        """Load a table and the version of its metadata, or return None where the version is still ``seen``."""

    def refuse_for_spark(self, name: TableName | None) -> None:
        """Refuse what Spark would follow though only the connection may say it: a class, a server that gets secrets.

        :param name: of a table; None for what the catalog itself says.
        :raises UnsupportedError: naming the properties.
        """

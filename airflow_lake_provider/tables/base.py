"""A table as plans ask it without Spark, whatever its format. Standard library only."""

# A method that a format has not written takes no notice of what it is given.
# ruff: noqa: ARG002

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

from airflow_lake_provider.contracts.capabilities import FormatCapabilities, Verdict
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.policy_settings import NamedValue
from airflow_lake_provider.contracts.reports.job import (
    CompactionReport,
    ExpiryReport,
    RewriteManifestsReport,
    RowExpiryReport,
    StatisticsReport,
)
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    RewriteManifestsSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange
from airflow_lake_provider.contracts.table_facts import Snapshot, TableFacts, TableState
from airflow_lake_provider.contracts.table_name import TableName, encoded_level, is_level
from airflow_lake_provider.tables.head_files import FEWEST_MERGED, HeadFiles


class UnreadPredicateError(InvalidSpecError):
    """The worker does not read a predicate as Spark does, so that it can say nothing of it."""


class LoadedTable(ABC):
    """A table as it was loaded; the facts are at hand, all else reads small files.

    A method that no declared capability of the format asks for may stay as it is here.
    """

    # Those of its format.
    capabilities: ClassVar[FormatCapabilities]
    # Of the metadata that was read, unpacked; None where nobody has counted them.
    metadata_bytes: int | None = None

    @property
    @abstractmethod
    def facts(self) -> TableFacts:
        """Facts of the version that was loaded."""

    @abstractmethod
    def state(self) -> TableState:
        """Return the counts of main's head; one small file is opened."""

    def unfit_for(self, capability: str, keys: Sequence[str] = ()) -> str | None:
        """Return why the table rules a capability out, as a clause; None where it does not.

        :param capability: one of ``contracts.capabilities``.
        :param keys: of an upsert, however they are spelled.
        """
        return self.capabilities.lacks(capability, self.facts.format_version)

    def part_obstacle(self) -> str | None:
        """Return why a compaction may not leave out a part of the table, as a clause; None where it may."""
        return None

    def check(self, keys: Sequence[str]) -> list[Verdict]:
        """Return what can be done with the table, and why not.

        :param keys: of upserts and changes; without any, the identifier fields.
        """
        return self.capabilities.verdicts(self.facts.format_version)

    def columns_in(self, where: str) -> list[str]:
        """Return the columns that a predicate names; none where only Spark reads it.

        :raises UnreadPredicateError: it cannot be read as comparisons of columns with constants.
        """
        return []

    def incomparable_since(self, snapshot: Snapshot) -> str | None:
        """Return why the rows of a snapshot cannot be compared with those of now, a sentence; None where they can."""
        return None

    def plan_compaction(self, spec: CompactionSpec) -> CompactionReport | None:
        """Tell from metadata what a compaction would do, as the format's driver decides it; None where only Spark can.

        :raises UnreadPredicateError: ``where`` is not read here, or does not fit the table.
        :raises InvalidSpecError: keys are to be compared, and the table has none.
        :raises BrokenMetadataError: a setting of the table is none.
        """
        return None

    def plan_manifests(self, spec: RewriteManifestsSpec) -> RewriteManifestsReport | None:
        """Tell from metadata what a rewrite of manifests would do; None where only Spark can.

        :raises BrokenMetadataError: a setting of the table is none.
        """
        return None

    def plan_row_expiry(self, spec: RowExpirySpec) -> RowExpiryReport | None:
        """Tell from metadata what an expiry of rows would do; None where only Spark can.

        :raises InvalidSpecError: the column is missing, or has no time.
        """
        return None

    def plan_statistics(self, spec: StatisticsSpec) -> StatisticsReport | None:
        """Tell from metadata whether statistics of main's head are missing; None where only Spark can."""
        return None

    def statistics_at(self) -> datetime | None:
        """Return the moment of main's newest snapshot that has statistics; None where none has."""
        return None

    def plan_expiry(self, spec: SnapshotExpirySpec) -> ExpiryReport | None:
        """Tell from metadata what an expiry would do, as the format's driver decides it; None where only Spark can.

        :raises UnsupportedError: it would harm another writer or another table.
        """
        return None

    def locations(self, *, of_earlier_versions: bool = False) -> tuple[str, ...]:
        """Return the folders that its files lie in, or may be written to.

        :param of_earlier_versions: read also what earlier versions of the metadata declared.
        """
        return (self.facts.location,)

    def harmed_by_rollback(self, lost: Sequence[Snapshot], left: Sequence[Snapshot]) -> list[str]:
        """Return a warning for each other writer that cannot go on after a rollback.

        :param lost: snapshots that main loses, newest first.
        :param left: those that it still has, newest first.
        """
        return []

    def harmed_by_dropping(self, branch: str, gained: Sequence[Snapshot]) -> list[str]:
        """Return a warning for each other writer that cannot go on without a branch.

        :param gained: snapshots that only the branch has, newest first.
        """
        return []

    def harmed_by_upgrade(self, version: int) -> str | None:
        """Return which other writers may fail after an upgrade to a version, a sentence; None where none is seen."""
        return None

    def changed_by_upgrade(self, version: int) -> list[str]:
        """Return what readers and writers should know of an upgrade to a version, sentences."""
        return []

    def broken_setting(self, action: str) -> str | None:
        """Return which setting of the owner an action of maintenance refuses, and why; None where it refuses none."""
        return None

    def owner_policy(self) -> Iterator[NamedValue]:
        """Yield the settings of a maintenance policy that the format has in properties of its own."""
        return iter(())

    def age_of_refs(self) -> tuple[str, int] | None:
        """Return by which setting of the owner an expiry removes refs without an age of their own, and when.

        :return: what it is called, and milliseconds; None where such refs stay.
        """
        return None

    @property
    def target_bytes(self) -> int:
        """Bytes that a data file should have."""
        raise self._lacking("health")

    def expirable(self, now: datetime, older_than: timedelta | None = None, retain_last: int | None = None) -> int:
        """Return how many snapshots an expiry would remove.

        :param now: UTC.
        :param older_than: age from which on they go; None takes the owner's setting, or the format's.
        :param retain_last: of each branch; None likewise.
        """
        raise self._lacking("health")

    def rows_outside(self, partition: str) -> str | None:
        """Return a predicate of SQL on the rows that are not in a partition; None where none can be written.

        :param partition: such as ``day=2026-11-26``.
        """
        return None

    def head_files(self, recent: Collection[str], target: int | None = None, fewest: int = FEWEST_MERGED) -> HeadFiles:
        """Count the files of main's head; the lists that name them are opened.

        :param recent: snapshots whose files are counted by partition.
        :param target: bytes that a data file should have; None takes the table's own.
        :param fewest: small files of a partition that are merged.
        """
        raise self._lacking("health")

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

    :param location: of the metadata file; empty where the catalog names none.
    :param etag: of the REST catalog's answer; None where it gave none.
    """

    location: str
    etag: str | None = None


@dataclass(frozen=True)
class ListedTable:
    """A table as its catalog lists it; such names may have characters that no task takes.

    As a text, two tables never share a name: what no operator can name is written as in addresses, ``%2E``.

    :param levels: of its namespace, and its name.
    :param metadata_location: where the list says it.
    :param foreign: what it is where it is no table of this format: ``a view``. Nothing loads it.
    :param location: of a foreign table, where the list says it.
    """

    levels: tuple[str, ...]
    metadata_location: str | None = None
    foreign: str | None = None
    location: str | None = None

    @property
    def is_nameable(self) -> bool:
        """True where an operator can name it."""
        return all(map(is_level, self.levels))

    def __str__(self) -> str:
        # ("shop", "a.b") is a stranger beside ("shop", "a", "b"), and a pattern for the one is none for the other.
        return ".".join(map(encoded_level, self.levels))


@dataclass(frozen=True)
class CatalogPolicy:
    """A policy that a catalog keeps for a table.

    :param kind: its type, such as ``system.snapshot-expiry``.
    :param name: as the catalog has it.
    :param content: its text.
    """

    kind: str
    name: str
    content: str


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

    def list_tables(self, within: tuple[str, ...]) -> list[ListedTable]:
        """Return the tables of a namespace, and of those below it.

        :param within: namespace; empty for the whole catalog.
        """

    def namespace_properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Return the properties of a namespace; none where it does not exist, or where the catalog keeps none."""

    def maintenance_policies(self, table: ListedTable) -> list[CatalogPolicy]:
        """Return the catalog's own policies for the maintenance of a table; none where it has no such policies."""

    def load_listed(self, table: ListedTable) -> LoadedTable:
        """Load a table for its facts; what reads more of it is worked out when it is asked.

        :raises BrokenMetadataError: its metadata cannot be what a writer made.
        """

    def most_readers(self) -> int:
        """Return how many threads may load tables at a time."""

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

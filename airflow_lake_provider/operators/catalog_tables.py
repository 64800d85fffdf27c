"""Tables of an operator's catalog, looked up by the worker, and the folders of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from airflow_lake_provider.contracts.errors import BrokenMetadataError, MissingTableError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import (
    CompactionSpec,
    RewriteManifestsSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.look_at_tables import table_locations

if TYPE_CHECKING:
    from airflow_lake_provider.maintenance.locations import TableLocations
    from airflow_lake_provider.tables.base import LoadedTable

# Specs of what a worker plans from metadata.
PlannedSpec = CompactionSpec | RewriteManifestsSpec | RowExpirySpec | SnapshotExpirySpec | StatisticsSpec


@dataclass
class CatalogTables:
    """The catalog of an operator, opened once: each hook would log in and connect anew."""

    lake_conn_id: str
    _lake: LakeCatalogHook | None = None
    _locations: list[TableLocations] | None = None

    @property
    def lake(self) -> LakeCatalogHook:
        """The catalog's hook, the same one until :meth:`forget`."""
        if self._lake is None:
            self._lake = LakeCatalogHook(self.lake_conn_id)
        return self._lake

    def forget(self) -> None:
        """Open the catalog anew at its next use: after hours, a token and a connection of a database are over."""
        self._lake = None
        self._locations = None

    def locations(self) -> list[TableLocations]:
        """Return the folders of all tables of the catalog, earlier ones too, read once until :meth:`forget`.

        :raises LakeProviderError: the catalog does not list its tables.
        """
        if self._locations is None:
            lake = self.lake
            self._locations = table_locations(lake, lake.list_tables(), of_earlier_versions=True)
        return self._locations

    def find_table(self, name: str) -> LoadedTable | None:
        """Load a table's metadata; None where the catalog does not have it."""
        try:
            return self.lake.loaded(name)
        except MissingTableError:
            return None

    def load_existing(self, name: str) -> LoadedTable:
        """Load the metadata of a table that has to be there.

        :raises MissingTableError: the catalog does not have it; with the tables of its namespace that have such a name.
        """
        try:
            return self.lake.loaded(name)
        except MissingTableError as error:
            alike = self.lake.tables_named_like(name)
            remedy = f"did you mean {' or '.join(alike)}?" if alike else "name a table of the catalog, or create it"
            raise MissingTableError(f"{str(error).rstrip('.')}; {remedy}") from None

    def plan(self, spec: PlannedSpec) -> JobReport | None:
        """Plan the maintenance of a table from its metadata; None where only Spark plans it.

        :raises MissingTableError: as :meth:`load_existing`.
        :raises UnsupportedError: for a dry run, where only Spark plans it.
        :raises BrokenMetadataError: it cannot read a setting of the table's owner.
        """
        table = self.load_existing(spec.table)
        match spec:
            case CompactionSpec():
                planned: JobReport | None = table.plan_compaction(spec)
            case RewriteManifestsSpec():
                planned = table.plan_manifests(spec)
            case StatisticsSpec():
                planned = table.plan_statistics(spec)
            case RowExpirySpec():
                planned = table.plan_row_expiry(spec)
            case SnapshotExpirySpec():
                planned = table.plan_expiry(spec)
            case _:
                assert_never(spec)
        is_due = planned is None or planned.outcome is Outcome.PLANNED
        if is_due and (why := table.broken_setting(spec.action)) is not None:
            raise BrokenMetadataError(why)
        if planned is None and spec.dry_run:
            raise UnsupportedError(
                f"{spec.table}: tables of format {spec.table_format!r} are planned for in Spark alone; run "
                f"{spec.action} without dry_run"
            )
        return planned

    def load_source(self, name: str, what: str) -> LoadedTable:
        """Load the metadata of a table that is read.

        :param what: it is, for the message.
        :raises MissingTableError: the catalog does not have it.
        """
        try:
            return self.load_existing(name)
        except MissingTableError as error:
            raise MissingTableError(f"{name}: {what} does not exist. {error}") from None

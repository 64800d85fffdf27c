"""Folders of many tables of a catalog, several being loaded at a time; one that cannot be read stops no other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from airflow_lake_provider.contracts.errors import LakeProviderError, MissingTableError
from airflow_lake_provider.contracts.file_locations import folders_of_metadata
from airflow_lake_provider.maintenance.locations import TableLocations

if TYPE_CHECKING:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.tables.base import ListedTable


def table_locations(
    hook: LakeCatalogHook, tables: Sequence[ListedTable], *, of_earlier_versions: bool
) -> list[TableLocations]:
    """Return the folders of tables, without a bound on their number or on time.

    A table that cannot be read has its error, and the folder of its metadata file where the catalog lists that.

    :param tables: as the catalog lists them; one that was dropped since then is left out.
    :param of_earlier_versions: read also what earlier versions of the metadata declared.
    :raises LakeProviderError: the catalog cannot be opened.
    """

    def at(listed: ListedTable) -> TableLocations | None:
        name = str(listed)
        if listed.foreign:
            # Its files are no less its own.
            return TableLocations(name=name, folders=(listed.location,)) if listed.location else None
        try:
            return hook.look_at(
                listed,
                lambda table: TableLocations(
                    name=name,
                    folders=table.locations(of_earlier_versions=of_earlier_versions),
                    uuid=table.facts.uuid,
                ),
            )
        except MissingTableError:
            # Dropped since it was listed.
            return None
        except LakeProviderError as error:
            why = f"{type(error).__name__}: {error}"
        # Whatever a stranger's table does, its place is not known then.
        except Exception as error:  # noqa: BLE001
            why = f"{type(error).__name__}: {error}"
        return TableLocations(name=name, folders=folders_of_metadata(listed.metadata_location), error=why)

    with ThreadPoolExecutor(hook.opened.most_readers(), "table-locations") as readers:
        return [each for each in readers.map(at, tables) if each is not None]

"""Before Spark starts: refuse what a catalog or a table says, and Spark would follow to code or to another server."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_lake_provider.contracts.incremental_spec import IncrementalSpec
from airflow_lake_provider.contracts.job_spec import JobSpec
from airflow_lake_provider.contracts.row_change_specs import DeleteRowsSpec
from airflow_lake_provider.contracts.upsert_spec import UpsertSpec
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook


def refuse_untrusted(lake: LakeCatalogHook, spec: JobSpec) -> None:
    """Refuse a job whose driver would follow what only the connection may say.

    :raises UnsupportedError: naming the properties; a retry hears it again.
    :raises CatalogUnavailableError: the catalog does not answer.
    """
    lake.refuse_for_spark(list(tables_of(spec)))


def tables_of(spec: JobSpec) -> Iterator[str]:
    """Yield the lake tables that a job names: the one it writes, and one it reads."""
    yield spec.table
    if isinstance(spec, IncrementalSpec):
        yield spec.source
    source = spec.source if isinstance(spec, UpsertSpec) else None
    keys = spec.keys_from if isinstance(spec, DeleteRowsSpec) else None
    for read in (source, keys):
        if read is not None and read.lake_table is not None:
            yield read.lake_table

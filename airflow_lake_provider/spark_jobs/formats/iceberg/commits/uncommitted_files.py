"""Delete files that no commit names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from airflow_lake_provider.contracts.errors import UnknownOutcomeError
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems, list_of_texts

Discard = Callable[[IcebergTable, Collection[Any]], None]


def discard_files(table: IcebergTable, files: Collection[Any]) -> None:
    """Delete files that no commit names; only for those whose commit was surely refused.

    A file that cannot be deleted is left: nothing reads it, and maintenance finds it.
    """
    delete_locations(table, locations_of(table, files))


def locations_of(table: IcebergTable, files: Collection[Any]) -> set[str]:
    """Return where the files lie, by one command if Java has listed them; vectors share a Puffin file."""
    if isinstance(files, JavaItems):
        return set(files.texts(java_functions(table.spark).location))
    return {str(file.location()) for file in files}


def delete_locations(table: IcebergTable, locations: Collection[str]) -> None:
    """Delete files by location; see :func:`discard_files`."""
    if locations:
        listed = list_of_texts(table.spark, locations)
        table.iceberg.CatalogUtil.deleteFiles(table.java.io(), listed, "uncommitted")


@contextmanager
def discarded_on_failure(
    table: IcebergTable, files: Collection[Any], discard: Discard = discard_files
) -> Iterator[None]:
    """Delete the files when what comes before their commit fails, or when their commit was surely not made.

    After an UnknownOutcomeError they may be part of the table. Nothing but a commit may end this block: an error after
    it would delete what is committed.

    :param files: may grow meanwhile.
    """
    try:
        yield
    except UnknownOutcomeError:
        raise
    except Exception:
        # The failure is what has to be told.
        with suppress(Exception):
            discard(table, files)
        raise

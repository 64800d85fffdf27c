"""Facts that a worker has of a table which a test has loaded with PyIceberg."""

from __future__ import annotations

from pyiceberg.table import Table

from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable


def facts(table: Table) -> TableFacts:
    return LoadedIcebergTable(table).facts

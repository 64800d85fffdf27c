"""Facts of tables: of such that a test has loaded with PyIceberg, and of made-up ones."""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Table

from airflow_lake_provider.contracts.table_facts import MAIN, Reference, Snapshot, TableFacts, TableShape
from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable


def facts(table: Table) -> IcebergFacts:
    return LoadedIcebergTable(table).facts


def table_of(*snapshots: Snapshot, **fields: Any) -> TableFacts:
    """Return the facts of a table without columns, whose main is at the first of some snapshots."""
    given: dict[str, Any] = {"format_version": 3, "properties": {}, **fields}
    shape = TableShape(**given, schemas={0: {"fields": []}}, schema_id=0, partition_specs={0: []}, spec_id=0)
    main = [Reference(name=MAIN, snapshot=snapshots[0].id, is_branch=True)] if snapshots else []
    return TableFacts(
        name="shop.orders",
        uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location="file:///orders",
        snapshots={each.id: each for each in snapshots},
        references={ref.name: ref for ref in main},
        read_shape=lambda: shape,
        **given,
    )

"""Iceberg under the behaviour suite."""

from __future__ import annotations

from typing import Any

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.capabilities import ICEBERG
from tests.spark.formats.suite import FormatSuite


class IcebergSuite(FormatSuite):
    """Tables of a format version, read by PyIceberg."""

    capabilities = ICEBERG

    def layout(self, **given: Any) -> TableLayout:
        """Return a layout with the format version."""
        properties = {"format-version": str(self.version), **given.pop("properties", {})}
        return TableLayout(properties=properties, **given)

"""The behaviour suite for Iceberg: what makes its tables, and what reads them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.capabilities import ICEBERG
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from tests.spark.formats.iceberg.incremental.changes_history import ChangesHistory
from tests.spark.formats.suite import FormatSuite, NewTable
from tests.spark.maintained_table import MaintainedTable

_NO_DELETES = pytest.RaisesExc(UnsupportedError, match="format version 1 has no deletes")


class IcebergSuite(FormatSuite):
    """Tables of a format version, read by PyIceberg.

    Whether a table can do something depends on its version and properties, so most gaps are refused by what the table
    is like.
    """

    capabilities = ICEBERG
    refusals: ClassVar[Mapping[str, pytest.RaisesExc[Any]]] = {
        # While a DAG is parsed, since no other format can do it.
        "equality-with-kept-values": pytest.RaisesExc(InvalidSpecError, match="looks at no row of the table"),
        **dict.fromkeys(
            ("strategy-positions", "strategy-equality", "delete-rows", "update-rows", "row-expiry"), _NO_DELETES
        ),
        "erasure-proof": _NO_DELETES,
        "read-changes": pytest.RaisesExc(UnsupportedError, match="version 3"),
        "changelog": pytest.RaisesExc(UnsupportedError, match="lacks 'changelog'"),
        # No refusal: the column is not there, files are others, and the driver makes the change.
        "row-lineage": pytest.RaisesExc(AnalysisException, match="_row_id"),
        "deletion-vectors": pytest.RaisesExc(AssertionError),
        "metadata-changes-on-worker": pytest.RaisesExc(AssertionError, match="without_spark"),
    }

    @property
    def automatic(self) -> str:
        """Return the strategy that ``auto`` takes."""
        return "positions" if self.has("strategy-positions") else "copy-on-write"

    @property
    def left_by_compaction(self) -> tuple[str, ...]:
        """Begin of what an erasure asks for.

        The compaction's own manifest lists the files that it removed, with their bounds, until it is rewritten. On
        version 2 the compaction has one more commit, of position deletes, which leaves that manifest behind.
        """
        return ("rewrite the manifests",) if self.version == 3 else ()

    def layout(self, **given: Any) -> TableLayout:
        """Return a layout with the format version."""
        properties = {"format-version": str(self.version), **given.pop("properties", {})}
        return TableLayout(properties=properties, **given)

    def last_phase(self, strategy: str) -> str:
        """Return the phase in which a strategy commits."""
        return "publish" if strategy == "merge" else "commit"

    def changes_history(self, session: SparkSession) -> ChangesHistory:
        """Return a table that is written by SQL."""
        return ChangesHistory(session, version=self.version)

    @pytest.fixture
    def new_table(self, session: SparkSession) -> NewTable:
        return lambda **given: MaintainedTable(session, version=self.version, **given)

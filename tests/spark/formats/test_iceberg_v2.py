"""Behaviour of Iceberg tables of format version 2."""

from __future__ import annotations

from tests.spark.formats.base_appends import RowsOnceSuite
from tests.spark.formats.base_complete import WholeTableSuite
from tests.spark.formats.base_history import HistorySuite
from tests.spark.formats.base_incremental import IncrementalSuite
from tests.spark.formats.base_maintenance import MaintenanceSuite
from tests.spark.formats.base_metadata import MetadataSuite
from tests.spark.formats.base_overwrites import BackfillSuite
from tests.spark.formats.base_repeats import RepeatSuite
from tests.spark.formats.base_row_changes import RowChangeSuite
from tests.spark.formats.base_upserts import UpsertSuite
from tests.spark.formats.iceberg_suite import IcebergSuite


class _Version2(IcebergSuite):
    version = 2


class TestUpserts(_Version2, UpsertSuite):
    pass


class TestCompleteLoads(_Version2, WholeTableSuite):
    pass


class TestHistories(_Version2, HistorySuite):
    pass


class TestAppends(_Version2, RowsOnceSuite):
    pass


class TestOverwrites(_Version2, BackfillSuite):
    pass


class TestRepeats(_Version2, RepeatSuite):
    pass


class TestRowChanges(_Version2, RowChangeSuite):
    pass


class TestIncrementalReads(_Version2, IncrementalSuite):
    pass


class TestMaintenance(_Version2, MaintenanceSuite):
    pass


class TestMetadata(_Version2, MetadataSuite):
    pass

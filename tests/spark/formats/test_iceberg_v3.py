"""Behaviour of Iceberg tables of format version 3."""

from __future__ import annotations

from tests.spark.formats.base_appends import AppendSuite
from tests.spark.formats.base_complete import CompleteSuite
from tests.spark.formats.base_history import HistorySuite
from tests.spark.formats.base_incremental import IncrementalSuite
from tests.spark.formats.base_maintenance import MaintenanceSuite
from tests.spark.formats.base_metadata import MetadataSuite
from tests.spark.formats.base_overwrites import OverwriteSuite
from tests.spark.formats.base_repeats import RepeatSuite
from tests.spark.formats.base_row_changes import RowChangeSuite
from tests.spark.formats.base_upserts import UpsertSuite
from tests.spark.formats.iceberg_suite import IcebergSuite


class _Version3(IcebergSuite):
    version = 3


class TestUpserts(_Version3, UpsertSuite):
    pass


class TestCompleteLoads(_Version3, CompleteSuite):
    pass


class TestHistories(_Version3, HistorySuite):
    pass


class TestAppends(_Version3, AppendSuite):
    pass


class TestOverwrites(_Version3, OverwriteSuite):
    pass


class TestRepeats(_Version3, RepeatSuite):
    pass


class TestRowChanges(_Version3, RowChangeSuite):
    pass


class TestIncrementalReads(_Version3, IncrementalSuite):
    pass


class TestMaintenance(_Version3, MaintenanceSuite):
    pass


class TestMetadata(_Version3, MetadataSuite):
    pass

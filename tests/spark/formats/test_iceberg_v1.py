"""Behaviour of Iceberg tables of format version 1: upserts by files that are written anew."""

from __future__ import annotations

from tests.spark.formats.base_upserts import StrategySuite
from tests.spark.formats.iceberg_suite import IcebergSuite


class TestStrategies(IcebergSuite, StrategySuite):
    version = 1

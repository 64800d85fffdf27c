"""The behaviour suite of table formats: a test says what it needs, and a gap of the format is an expected failure.

A ``base_*.py`` has the tests of one subject. ``test_*.py`` subclass them for a format and a version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.capabilities import CAPABILITIES, FormatCapabilities
from airflow_lake_provider.contracts.errors import LakeProviderError
from tests.spark.maintained_table import MaintainedTable
from tests.spark.upsert_flow import Flow, NewFlow

NewTable = Callable[..., MaintainedTable]


def needs(*names: str, raises: type[Exception] = LakeProviderError) -> pytest.MarkDecorator:
    """Mark a test, or a parameter of one, by the capabilities that it needs.

    :param names: those of ``contracts.capabilities``; another one fails the collection.
    :param raises: what the test ends with where one is lacking.
    """
    if unknown := sorted(set(names) - CAPABILITIES.keys()):
        raise ValueError(f"{unknown} are no capabilities; they are declared in contracts/capabilities.py")
    return pytest.mark.needs(*names, raises=raises)


class FormatSuite:
    """A format and version under test.

    Its fixtures make the tables: ``new_flow`` and ``flow`` those that upserts fill, ``new_table`` those of other
    writers. Both say, without our code, which rows a table has.
    """

    capabilities: ClassVar[FormatCapabilities]
    version: ClassVar[int]

    def layout(self, **given: object) -> TableLayout:
        """Return the layout of a table of the version."""
        raise NotImplementedError

    @pytest.fixture
    def new_flow(self, new_flow: NewFlow) -> NewFlow:
        return lambda **changes: new_flow(**{"create": self.layout(), **changes})

    @pytest.fixture
    def flow(self, new_flow: NewFlow) -> Flow:
        return new_flow()

    @pytest.fixture
    def new_table(self, spark: SparkSession) -> NewTable:
        return lambda **changes: MaintainedTable(spark, version=self.version, **changes)


def expect_gaps(item: pytest.Item) -> None:
    """Turn a test of the suite that the format has a gap for into one that has to fail."""
    suite = getattr(item, "cls", None)
    if not (isinstance(suite, type) and issubclass(suite, FormatSuite)):
        return
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            gap = suite.capabilities.gap(name, suite.version)
            if gap is not None:
                reason = f"{name}, {gap.kind.value}: {gap.reason}"
                item.add_marker(pytest.mark.xfail(reason=reason, raises=marker.kwargs["raises"], strict=True))

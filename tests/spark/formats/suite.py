"""The behaviour suite of table formats: a test says what it needs, and a gap of the format is an expected failure.

A ``base_*.py`` has the tests of one subject. ``test_*.py`` subclass them for a format and a version. What reads, makes
or names something of one format stands in the subclass.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.capabilities import FormatCapabilities
from airflow_lake_provider.contracts.capability_names import CAPABILITIES
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from tests.spark.maintained_table import MaintainedTable
from tests.spark.upsert_flow import Flow, NewFlow

ALL = "LAKE_EXAMPLES" in os.environ
NewTable = Callable[..., MaintainedTable]
# Strategies that look for the rows that they replace, and count them.
COUNTING = ("positions", "copy-on-write", "merge")


def needs(*names: str) -> pytest.MarkDecorator:
    """Mark a test, or a parameter of one, by the capabilities that it needs.

    :param names: those of ``contracts.capabilities``; another one fails the collection.
    """
    if unknown := sorted(set(names) - CAPABILITIES.keys()):
        raise ValueError(f"{unknown} are no capabilities; their names are in contracts/capability_names.py")
    return pytest.mark.needs(*names)


class FormatSuite:
    """A format and version under test.

    Its fixtures make the tables: ``new_flow`` and ``flow`` those that upserts fill, ``new_table`` those of other
    writers. Both say, without our code, which rows a table has.
    """

    capabilities: ClassVar[FormatCapabilities]
    version: ClassVar[int] = 1
    # How a gap shows, where not by a refusal that names the capability.
    refusals: ClassVar[Mapping[str, pytest.RaisesExc[Any]]] = {}
    # Reads the tables back.
    flow_kind: ClassVar[type[Flow]] = Flow
    counts_rows: ClassVar[bool] = True
    # Parameters, by name, of tests of what is the same in each version: each version gets a share of them.
    deals: ClassVar[Mapping[str, Sequence[Any]]] = {}

    @classmethod
    def dealt(cls, name: str) -> Sequence[Any]:
        """Return the share of a version, which is every other one; with ``LAKE_EXAMPLES`` each version has all."""
        is_dealt = not ALL and len(cls.capabilities.versions) > 1
        return cls.deals[name][cls.version % 2 :: 2] if is_dealt else cls.deals[name]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give a test the parameters that are dealt out."""
        for name in self.deals.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, self.dealt(name))

    @classmethod
    def has(cls, name: str) -> bool:
        """Tell whether the version has a capability."""
        return cls.capabilities.gap(name, cls.version) is None

    @property
    def automatic(self) -> str | None:
        """Strategy that a small batch into a new table gets unasked."""
        return None

    @property
    def left_by_compaction(self) -> tuple[str, ...]:
        """Begin of what an erasure asks for, for each snapshot whose metadata still has bounds of the rows."""
        return ()

    def layout(self, **given: Any) -> TableLayout:
        """Return the layout of a table of the version."""
        return TableLayout(**given)

    def last_phase(self, strategy: str) -> str:  # others ask it
        """Return the phase at whose beginning everything is written and nothing is visible."""
        return "commit"

    def changes_history(self, session: SparkSession) -> Any:
        """Return a table that is written by SQL, and its changes as plain Python."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, spark: SparkSession) -> SparkSession:
        """The session whose catalog has tables of the format."""
        return spark

    @pytest.fixture
    def new_flow(self, session: SparkSession, tmp_path: Path, new_flow: NewFlow) -> NewFlow:
        name = new_flow().table
        return lambda **given: self.flow_kind(session, name, tmp_path / "inbox", {"create": self.layout(), **given})

    @pytest.fixture
    def flow(self, new_flow: NewFlow) -> Flow:
        return new_flow()

    @pytest.fixture(scope="class")
    @classmethod
    def new_shared_flow(cls, session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> NewFlow:
        """Make the flow of a table that tests of the class copy."""
        suite = cls()

        def new(**given: Any) -> Flow:
            folder = tmp_path_factory.mktemp("shared")
            table = f"shared.t{zlib.crc32(str(folder).encode()):08x}"
            return cls.flow_kind(session, table, folder / "inbox", {"create": suite.layout(), **given})

        return new

    @pytest.fixture
    def new_table(self) -> NewTable:
        raise NotImplementedError


def expect_gaps(item: pytest.Item) -> None:
    """Turn a test of the suite that the format has a gap for into one that has to fail, and to say of what."""
    suite = getattr(item, "cls", None)
    if not (isinstance(suite, type) and issubclass(suite, FormatSuite)):
        return
    names = [name for marker in item.iter_markers("needs") for name in marker.args]
    asked = suite.capabilities.asked_by(names)
    gaps = {name: gap for name in asked if (gap := suite.capabilities.gap(name, suite.version)) is not None}
    if not gaps:
        return
    reason = "; ".join(f"{name}, {gap.kind.value}: {gap.reason}" for name, gap in gaps.items())
    # While a DAG is parsed, where no known format can do it.
    named = pytest.RaisesExc((UnsupportedError, InvalidSpecError), match=f"lacks '({'|'.join(gaps)})'")
    raises = next((suite.refusals[name] for name in gaps if name in suite.refusals), named)
    item.add_marker(pytest.mark.xfail(reason=reason, raises=raises, strict=True))

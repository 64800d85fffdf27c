"""The behaviour suite tests each capability, and expects the gaps that a format declares to fail."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.capabilities import CAPABILITIES
from airflow_lake_provider.contracts.errors import LakeProviderError
from tests.spark.formats.iceberg_suite import IcebergSuite
from tests.spark.formats.suite import FormatSuite, expect_gaps, needs

FOLDER = Path(__file__).parents[1] / "spark" / "formats"


class Version2(IcebergSuite):
    version = 2


class Item:
    """The part of a collected test that is looked at.

    :param cls: of the test.
    :param marks: on it.
    """

    def __init__(self, cls: type, *marks: pytest.MarkDecorator) -> None:
        self.cls = cls
        self.marks = [found.mark for found in marks]
        self.added: list[pytest.Mark] = []

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        return (found for found in self.marks if found.name == name)

    def add_marker(self, added: pytest.MarkDecorator) -> None:
        self.added.append(added.mark)


def added(cls: type, *marks: pytest.MarkDecorator) -> list[pytest.Mark]:
    item: Any = Item(cls, *marks)
    expect_gaps(item)
    return list(item.added)


def named_in(marks: Any) -> Iterator[str]:
    """Yield the capabilities that the marks of a test name, those on its parameters included."""
    for found in marks:
        mark = getattr(found, "mark", found)
        if mark.name == "needs":
            yield from mark.args
        elif mark.name == "parametrize":
            for parameter in mark.args[1]:
                yield from named_in(getattr(parameter, "marks", ()))


def test_each_capability_has_a_test_in_the_suite() -> None:
    modules = [import_module(f"tests.spark.formats.{path.stem}") for path in sorted(FOLDER.glob("base_*.py"))]
    suites = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    tests = [
        function
        for suite in suites
        if issubclass(suite, FormatSuite)
        for name, function in vars(suite).items()
        if name.startswith("test_")
    ]
    assert set(named_in(mark for test in tests for mark in test.pytestmark)) == CAPABILITIES.keys()


def test_a_gap_is_a_strict_expected_failure_with_its_kind_and_reason() -> None:
    (found,) = added(Version2, needs("upsert", "read-changes"))
    reason = "read-changes, never: changes are told by row lineage, which begins with format version 3"
    assert (found.name, found.kwargs) == ("xfail", {"reason": reason, "raises": LakeProviderError, "strict": True})
    (shown,) = added(Version2, needs("deletion-vectors", raises=AssertionError))
    assert shown.kwargs["raises"] is AssertionError


def test_a_capability_that_is_there_is_no_expected_failure() -> None:
    assert added(Version2, needs("upsert", "strategy-positions")) == []
    assert added(object, needs("read-changes")) == []


def test_an_unknown_capability_fails_the_collection() -> None:
    with pytest.raises(ValueError, match=r"\['uspert'\] are no capabilities"):
        needs("upsert", "uspert")

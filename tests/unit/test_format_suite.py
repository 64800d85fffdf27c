"""The behaviour suite tests each capability, and expects the gaps that a format declares to fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.capabilities import ICEBERG
from airflow_lake_provider.contracts.capability_names import CAPABILITIES
from airflow_lake_provider.contracts.errors import LakeProviderError, UnsupportedError
from tests.spark.formats.iceberg_suite import IcebergSuite
from tests.spark.formats.suite import FormatSuite, expect_gaps, needs
from tests.spark.formats.tiny_suite import TinySuite

FOLDER = Path(__file__).parents[1] / "spark" / "formats"


# Readers, makers and words of one format; a subclass brings them.
OF_ICEBERG = ("iceberg", ".loaded()", ".metadata.", ".puffin", ".parquet", "call system", "self.version == 3")


class Version2(IcebergSuite):
    version = 2


class Tiny(TinySuite):
    pass


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


def needed_by(suites: list[Any], cases: Callable[[Any], Iterable[Any]]) -> set[str]:
    """Return the capabilities that tests need, or their parameters.

    :param cases: returns the parameters of a suite that are dealt out to versions.
    """
    tests = [getattr(suite, name) for suite in suites for name in dir(suite) if name.startswith("test_")]
    marks = [mark for test in tests for mark in getattr(test, "pytestmark", ())]
    return set(named_in([*marks, *(mark for suite in suites for each in cases(suite) for mark in each.marks)]))


def test_each_capability_has_a_test_in_the_suite() -> None:
    modules = [import_module(f"tests.spark.formats.{path.stem}") for path in sorted(FOLDER.glob("base_*.py"))]
    classes = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    suites = [each for each in classes if issubclass(each, FormatSuite)]
    assert needed_by(suites, lambda suite: chain(*suite.deals.values())) == CAPABILITIES.keys()


@pytest.mark.parametrize("version", ICEBERG.versions)
def test_what_is_declared_as_tried_is_what_the_suite_of_a_version_tests(version: int) -> None:
    module = import_module(f"tests.spark.formats.test_iceberg_v{version}")
    suites = [each for name, each in vars(module).items() if name.startswith("Test")]
    assert {each.version for each in suites} == {version}
    needed = needed_by(suites, lambda suite: chain(*map(suite.dealt, suite.deals)))
    there = {name for name in CAPABILITIES if ICEBERG.gap(name, version) is None}
    assert {name for name in there if ICEBERG.is_tried(name, version)} == needed & there


def gap_of(mark: pytest.Mark) -> tuple[Any, str]:
    """Return what a test has to end with, and the gap that is shown."""
    assert (mark.name, mark.kwargs["strict"]) == ("xfail", True)
    return mark.kwargs["raises"], mark.kwargs["reason"]


def test_a_gap_is_a_strict_expected_failure_that_names_it_with_its_kind_and_reason() -> None:
    (found,) = added(Tiny, needs("upsert", "strategy-merge"))
    raises, reason = gap_of(found)
    assert reason == "strategy-merge, never: it has no statements"
    assert raises.matches(UnsupportedError("a.b: table format 'tiny' lacks 'strategy-merge', it has no statements"))
    assert not raises.matches(UnsupportedError("a.b: table format 'tiny' lacks 'upsert'"))
    assert not raises.matches(LakeProviderError("a.b: table format 'tiny' lacks 'strategy-merge'"))


def test_a_test_with_several_gaps_is_one_expected_failure_that_names_any_of_them() -> None:
    (found,) = added(Tiny, needs("strategy-merge", "audits"))
    raises, reason = gap_of(found)
    assert reason.startswith("strategy-merge, never: it has no statements; audits, ours: ")
    for name in ("strategy-merge", "audits"):
        assert raises.matches(UnsupportedError(f"lacks '{name}'"))


@pytest.mark.parametrize("version", ICEBERG.versions)
def test_each_gap_of_a_version_of_iceberg_says_how_it_shows(version: int) -> None:
    gaps = {name for name in (*CAPABILITIES, *ICEBERG.own) if ICEBERG.gap(name, version) is not None}
    assert gaps <= IcebergSuite.refusals.keys()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("base_*.py")), ids=lambda path: path.stem)
def test_a_base_of_the_suite_can_be_subclassed_by_a_second_format(path: Path) -> None:
    text = path.read_text().lower()
    assert [word for word in OF_ICEBERG if word in text] == []


def test_a_capability_that_is_there_is_no_expected_failure() -> None:
    assert added(Version2, needs("upsert", "strategy-positions")) == []
    assert added(object, needs("read-changes")) == []


def test_an_unknown_capability_fails_the_collection() -> None:
    with pytest.raises(ValueError, match=r"\['uspert'\] are no capabilities"):
        needs("upsert", "uspert")

"""The types of mappings in docs/how-to/templates.md are those that the arguments take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import airflow_lake_provider
from airflow_lake_provider.contracts.author.dead_letter import RepairedLetters
from airflow_lake_provider.contracts.author.merge_engines import MergeEngine
from airflow_lake_provider.contracts.author.sources import Source
from scripts.markdown_pages import REPOSITORY

PAGE = REPOSITORY / "docs" / "how-to" / "templates.md"
OURS = airflow_lake_provider.__name__
# LakeDeadLetterReplayOperator makes it.
OF_AN_OPERATOR = {RepairedLetters.kind}


def kinds(base: type[Any]) -> set[str]:
    """Return the types that a mapping may name; one that names code is no mapping's."""

    def below(cls: type[Any]) -> Iterator[type[Any]]:
        for each in cls.__subclasses__():
            yield each
            yield from below(each)

    # Importing the package's classes by their public names brings all of them.
    assert all(getattr(airflow_lake_provider, name) for name in airflow_lake_provider.__all__)
    return {each.kind for each in below(base) if each.kind and not each.runs_code and each.__module__.startswith(OURS)}


def named(argument: str) -> set[str]:
    """Return the types that the page's table has for an argument."""
    rows = re.findall(rf"^\| `{argument}`[^|]*\| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return {kind for row in rows for kind in re.findall(r"`([^`]+)`", row)}


def test_the_page_names_each_type_of_a_source_and_of_a_merge_engine() -> None:
    assert named("source") == kinds(Source) - OF_AN_OPERATOR
    assert named("merge_engine") == kinds(MergeEngine)

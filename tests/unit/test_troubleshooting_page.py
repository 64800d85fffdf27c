"""Each message that the page of symptoms quotes is one that the package says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_lake_provider.contracts.reports import failure_causes

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "how-to" / "troubleshooting.md"
# Python's and Airflow's own.
OF_OTHERS = {"No module named 'airflow_lake_provider'"}
VALUE = "…"


def said() -> Iterator[str]:
    """Yield each text of the package, with one sign for each value in it."""
    for source in (REPOSITORY / "airflow_lake_provider").rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def symptoms() -> list[str]:
    """Return the first cells of the page's tables."""
    if not PAGE.exists():
        return []
    rows = re.findall(r"^\| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [row for row in rows if row != "symptom" and set(row) != {"-"}]


QUOTED = [quoted for row in symptoms() for quoted in re.findall(r"`([^`]+)`", row)]
TEXTS = list(said())


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_message_that_is_quoted_is_said(quoted: str) -> None:
    assert quoted in OF_OTHERS or any(quoted in text for text in TEXTS)


def test_the_causes_of_the_first_hour_have_a_row() -> None:
    kinds = ("NO_SPARK", "JAVA", "NO_PACKAGES", "NO_JARS", "NO_CONNECTOR", "HEAP", "KILLED", "ACCESS_DENIED")
    names = {getattr(failure_causes, kind).name.partition(",")[0] for kind in kinds}
    assert names <= set(QUOTED)

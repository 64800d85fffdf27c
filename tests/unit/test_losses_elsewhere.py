"""Each loss that the page names has a test that names it, and the other way round."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "explanation" / "losses-elsewhere.md"
PROJECT = r"[A-Za-z]+/[A-Za-z-]+"
# "apache/iceberg#13568, #17304; apache/amoro#4231": a number without a project is of the one before.
NAMED = re.compile(rf"(?P<project>{PROJECT})(?P<numbers>#\d+(?:, #\d+)*)")
# What was known when the page was written: it may grow, and nothing of it goes.
LEAST = 50


def losses_in(text: str) -> set[str]:
    return {f"{each['project']}{number}" for each in NAMED.finditer(text) for number in each["numbers"].split(", ")}


def losses_of_tests() -> dict[str, list[str]]:
    """Tests by the losses that their docstrings name."""
    tests: dict[str, list[str]] = defaultdict(list)
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        text = path.read_text()
        if NAMED.search(text) is None:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for loss in losses_in(ast.get_docstring(node) or ""):
                    tests[loss].append(f"{path.name}::{node.name}")
    return tests


def test_each_loss_of_the_page_has_a_test_that_names_it() -> None:
    listed, tests = losses_in(PAGE.read_text()), losses_of_tests()
    assert listed - tests.keys() == set()
    assert len(listed) >= LEAST


def test_each_loss_that_a_test_names_is_on_the_page() -> None:
    assert losses_of_tests().keys() - losses_in(PAGE.read_text()) == set()

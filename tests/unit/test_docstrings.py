"""Docstrings say what a thing is or does, beginning with a verb or a noun of the field."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("airflow_lake_provider", "dags", "docs", "scripts", "tests")
MODULES = [path for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("*.py"))]
# They begin a question, which the file then answers; a reader wants the answer.
QUESTIONS = {"What", "Which", "How", "Where", "Who", "When", "Why"}


# Of a function, and "From" begins a sentence that never comes to its verb.
BEGINNINGS = QUESTIONS | {"Whether", "From"}


def asks(docstring: str | None, words: set[str] = QUESTIONS) -> bool:
    """Tell whether a docstring begins as a question does.

    :param words: those that begin one.
    """
    return (docstring or "").split(" ")[0].rstrip(",:") in words


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [("What it is.", True), ("How, in short.", True), ("Whatever comes.", False), ("Plan it.", False), (None, False)],
)
def test_a_question_is_told_from_an_answer(docstring: str | None, expected: bool) -> None:
    assert asks(docstring) is expected


def test_no_module_docstring_begins_as_a_question() -> None:
    assert len(MODULES) > 200
    found = {path: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in MODULES}
    assert {str(path.relative_to(REPOSITORY)): text for path, text in found.items() if asks(text)} == {}


def test_no_class_or_function_of_the_package_begins_its_docstring_as_a_question() -> None:
    named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    package = sorted((REPOSITORY / "airflow_lake_provider").rglob("*.py"))
    found = [
        f"{path.relative_to(REPOSITORY)}: {node.name}"
        for path in package
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, named) and asks(ast.get_docstring(node), BEGINNINGS)
    ]
    assert found == []

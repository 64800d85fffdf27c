"""Modules of the package, and what each imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "airflow_lake_provider"
OURS = PACKAGE.name
MODULES = sorted(PACKAGE.rglob("*.py"))
SPARK_SIDE = "spark_jobs"
ARCHITECTURE = REPOSITORY / "docs/architecture.md"


def dotted(source: Path) -> str:
    """Return the module name of a file."""
    parts = source.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of everything a tree imports, wherever in the tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from imported_from(node)
        elif isinstance(node, ast.Call) and called_name(node) in {"import_module", "__import__"}:
            yield from (str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant))


def imported_from(node: ast.ImportFrom) -> Iterator[str]:
    """Yield what a ``from`` import names; ``from airflow_lake_provider import x`` names the folder x."""
    assert node.level == 0, "a relative import hides which side it reaches"
    assert node.module is not None
    if node.module in (OURS, f"{OURS}.tables"):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    else:
        yield node.module


def called_name(node: ast.Call) -> str:
    """Return the last name of what a call calls."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))

"""Text of an author's module, which a worker ships to the driver."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path


def code_of(function: str | None) -> str | None:
    """Return the text of a function's module when this worker has it; None leaves it to the cluster.

    A module with relative imports is none without its package, and is left to the cluster, too.

    :param function: ``package.module:function``.
    """
    if function is None or ":" not in function:
        return None
    try:
        module = importlib.util.find_spec(function.partition(":")[0])
    except ModuleNotFoundError:
        return None
    if module is None or module.origin is None or not module.origin.endswith(".py"):
        return None
    text = Path(module.origin).read_text(encoding="utf-8")
    return None if _has_relative_imports(text) else text


def _has_relative_imports(text: str) -> bool:
    try:
        nodes = ast.walk(ast.parse(text))
    except SyntaxError:
        # The driver shows the line.
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level for node in nodes)

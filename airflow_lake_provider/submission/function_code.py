"""Text of an author's module, which a worker ships to the driver."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def code_of(function: str | None) -> str | None:
    """Return the text of a function's module when this worker has it; None leaves it to the cluster.

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
    return Path(module.origin).read_text(encoding="utf-8")

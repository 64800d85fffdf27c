"""Follow a spec on its way: the files whose functions receive it, and the calls that carry it into another folder."""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = f"{Path(__file__).parents[1] / 'airflow_lake_provider'}/"
# Files of one upsert, from the operator to the commit: 25 at most, the spec's own among those of the driver.
MOST_ON_DRIVER, MOST_ON_WORKER = 16, 9
OF_BOTH = {
    f"contracts/{name}.py"
    for name in (
        *("author_object", "specs/job", "specs/load", "specs/upsert"),
        *("author/merge_engines", "author/schema_contract"),
    )
}
MAKING = ("__init__", "__post_init__")


@dataclass
class Carriage:
    """What was seen of a spec.

    :param files: whose functions received it, relative to the package.
    :param calls: that carried it from a file into one of another folder, by caller and callee.
    """

    files: set[str] = field(default_factory=set)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def folders(self) -> set[str]:
        """Folders that it was carried into."""
        return {folder(called.partition(":")[0]) for _, called in self.calls}

    def __str__(self) -> str:
        return "\n".join([*sorted(self.files), *(f"{n} x {a} -> {b}" for (a, b), n in sorted(self.calls.items()))])


def folder(file: str) -> str:
    """Return the folder of a file; the rooms of contracts are one, in which a spec is made and checked."""
    found = file.rpartition("/")[0]
    return "contracts" if found.startswith("contracts/") else found


@contextmanager
def watched(kind: type) -> Iterator[Carriage]:
    """Watch the calls of all threads that begin here for arguments of a kind, ``self`` among them."""
    seen = Carriage()

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # What makes a spec carries none yet.
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name in MAKING or is_resumed(frame):
            return
        if any(isinstance(frame.f_locals.get(name), kind) for name in parameters(code)):
            called, caller = within(code), calling(frame)
            seen.files.add(called.partition(":")[0])
            if caller is not None and folder(caller) != folder(called):
                seen.calls[caller, called] += 1

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def is_resumed(frame: FrameType) -> bool:
    """Tell whether a generator goes on, which is no call."""
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) and frame.f_lasti > 10


def parameters(code: CodeType) -> tuple[str, ...]:
    more = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + more]


def within(code: CodeType) -> str:
    return f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_name}"


def calling(frame: FrameType) -> str | None:
    """Return the function of the package that a call comes from, also through code of others."""
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
        caller = caller.f_back
    return None if caller is None else within(caller.f_code)

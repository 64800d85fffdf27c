"""Hide secrets in errors of libraries, which show what was sent, and in the errors that they were raised from."""

from __future__ import annotations

from collections.abc import Callable


def hide_secrets(error: BaseException, hidden: Callable[[str], str]) -> None:
    """Replace secrets in the arguments of an error, and of every error that it was raised from or during.

    :param hidden: returns a text without secrets.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        waiting += [found.__cause__, found.__context__, *(arg for arg in found.args if isinstance(arg, BaseException))]
        shown = repr(found.args) + str(found)
        if hidden(shown) != shown:
            found.args = tuple(hidden(str(arg)) for arg in found.args)

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
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__, *(arg for arg in each.args if isinstance(arg, BaseException))]
        shown = repr(each.args) + str(each)
        if hidden(shown) != shown:
            each.args = tuple(hidden(str(arg)) for arg in each.args)

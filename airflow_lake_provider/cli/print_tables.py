"""Print what commands say of many tables: one line for each, with strangers' texts as a terminal may show them."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from airflow.cli.simple_table import AirflowConsole

from airflow_lake_provider.cli.command_process import as_command, printable
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.json_codec import to_plain

Looked = TypeVar("Looked")

# As rich finds a tag, with the backslashes that may escape it.
_TAG = re.compile(r"(?<!\\)(\\*)(\[[a-z#/@][^\[]*?\])")


def unstyled(text: str) -> str:
    """Return a text in which rich finds no style, for a cell of its own."""
    return _TAG.sub(r"\1\1\\\2", text)


def matching(args: Namespace, look: Callable[[], list[Looked]], what: str = "table") -> list[Looked]:
    """Return what is seen of the tables that a command names.

    :param args: ``tables`` and ``conn_id``.
    :param what: is seen, for the message where there is none.
    :raises SystemExit: with a message where the catalog cannot be read, an argument is refused or no table matches.
    """
    with as_command():
        tables = look()
    if not tables:
        raise SystemExit(f"No {what} of connection {args.conn_id!r} matches {' '.join(args.tables) or '*'}")
    return tables


def show(entries: Sequence[Any], output: str, row: Callable[[Any, Callable[[str], str]], dict[str, Any]]) -> None:
    """Print a line for each entry, or all of it as JSON or YAML.

    :param entries: objects or mappings, several of a table where it has several lines.
    :param row: returns the columns of a line; its second argument takes a text to what a terminal shows of it.
    """
    console = AirflowConsole(emoji=False)
    if output == "json":
        console.print_as_json([to_plain(each) for each in entries])  # type: ignore[arg-type]  # as print_as gives it
    elif output == "yaml":
        console.print_as_yaml([to_plain(each) for each in entries])  # type: ignore[arg-type]  # likewise
    else:
        # Names and errors may have what rich takes for a style.
        as_text = unstyled if output == "table" else str
        console.print_as(
            data=list(entries), output=output, mapper=lambda each: row(each, lambda text: as_text(printable(text)))
        )


def exit_where_broken(tables: Sequence[Any]) -> None:
    """Exit with 1 where one of them has an error; a view, or a table of another format, is none."""
    if any(each.error and not each.error.startswith(UnsupportedError.__name__) for each in tables):
        raise SystemExit(1)

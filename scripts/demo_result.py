"""Hold the numbers that the demo ends with, print them as its last table, and keep them as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Counts:
    """Counts in a table's metadata; rows are counted by reading them."""

    files: int = 0
    delete_files: int = 0
    snapshots: int = 0
    rows: int = 0


@dataclass(frozen=True)
class DemoResult:
    """Tables before and after the nightly maintenance.

    :param before: counts by the table's name.
    :param after: likewise, of the same tables.
    :param wrong: tables that differ from the oracle.
    """

    before: Mapping[str, Counts]
    after: Mapping[str, Counts]
    wrong: Sequence[str]

    def show(self, console: Console) -> None:
        """Print the table, and whether all is right.

        :param console: prints to a terminal, or records for a picture.
        """
        sheet = Table(title="before and after the nightly maintenance")
        for heading in ("table", "files", "delete files", "snapshots", "rows"):
            sheet.add_column(heading, justify="left" if heading == "table" else "right")
        for name in self.before:
            pairs = zip(vars(self.before[name]).values(), vars(self.after[name]).values(), strict=True)
            sheet.add_row(name, *(f"{old:,} → {new:,}" for old, new in pairs))
        console.print(sheet)
        wrong = f"[red]differs from the oracle: {list(self.wrong)}"
        console.print(wrong if self.wrong else "[green]every table equals the oracle")

    def as_json(self) -> str:
        """Return the numbers as a file's text."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> DemoResult:
        """Return the numbers of a file.

        :param text: what :meth:`as_json` returned.
        """
        read: dict[str, Any] = json.loads(text)
        before, after = (
            {name: Counts(**counts) for name, counts in read[when].items()} for when in ("before", "after")
        )
        return cls(before, after, read["wrong"])

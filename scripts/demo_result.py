"""Hold the numbers that the demo ends with, print them as its last table, and keep them as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

TITLE = "what a night's compaction and an expiry gain"
HEADINGS = ("files\nto read", "delete\nfiles", "KB\nto read", "snap-\nshots", "files\non disk", "\nrows")


@dataclass(frozen=True)
class Counts:
    """Counts of one table, or of several.

    :param files: data files that a reader opens; ``delete_files`` that it has to apply; ``bytes`` of both.
    :param stored_files: data and delete files below the table's location, those of older snapshots included.
    :param rows: counted by reading them.
    """

    files: int = 0
    delete_files: int = 0
    bytes: int = 0
    snapshots: int = 0
    stored_files: int = 0
    rows: int = 0

    def __add__(self, other: Counts) -> Counts:
        mine, others = vars(self).values(), vars(other).values()
        return Counts(*(a + b for a, b in zip(mine, others, strict=True)))

    def shown(self) -> list[str]:
        """Return the numbers as they are printed, one for each heading."""
        return [f"{value // 1024 if name == 'bytes' else value:,}" for name, value in vars(self).items()]


@dataclass(frozen=True)
class DemoResult:
    """Tables before and after maintenance.

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
        # Narrow enough for a terminal of 80 columns.
        sheet = Table(title=TITLE, box=box.SIMPLE_HEAD, pad_edge=False)
        sheet.add_column("\ntable", no_wrap=True)
        for heading in HEADINGS:
            sheet.add_column(heading, justify="right", no_wrap=True)
        for name in self.before:
            sheet.add_row(name, *_changes(self.before[name], self.after[name]))
        sheet.add_section()
        total = _changes(sum(self.before.values(), Counts()), sum(self.after.values(), Counts()))
        sheet.add_row("all", *total, style="bold")
        console.print(sheet)
        difference = f"[red]differs from the oracle: {list(self.wrong)}"
        console.print(difference if self.wrong else "[green]every table equals the oracle")

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


def _changes(before: Counts, after: Counts) -> list[str]:
    pairs = zip(before.shown(), after.shown(), strict=True)
    return [old if old == new else f"{old} → {new}" for old, new in pairs]

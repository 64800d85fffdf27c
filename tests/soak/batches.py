"""Random batches whose values tell the batch, and the dict that a serial order of them leaves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from airflow_lake_provider.contracts.author.sources import Files, Source
from tests.spark.upsert_flow import SCHEMA, row

Model = dict[int, tuple[str | None, int | None]]
KEYS = 40


@dataclass(frozen=True)
class Change:
    """One line of an input file.

    :param name: of the batch that it came with.
    :param n: a number that no other change has; None where a partial update leaves it as it is.
    :param gone: the key is deleted.
    """

    key: int
    name: str
    n: int | None
    gone: bool


@dataclass(frozen=True)
class Batch:
    """Changes that one upsert is asked to apply.

    :param keeps: without the column ``n``, which keeps its old values.
    """

    changes: tuple[Change, ...]
    keeps: bool = False

    def apply_to(self, model: Model) -> None:
        """Do to a dict what the upsert does to the table: the changes one by one."""
        for change in self.changes:
            if change.gone:
                model.pop(change.key, None)
            elif self.keeps:
                # A lost update would show in the value that is kept.
                model[change.key] = (change.name, model[change.key][1] if change.key in model else None)
            else:
                model[change.key] = (change.name, change.n)


@dataclass
class Inbox:
    """A source of files; those of a batch that was refused come again with the next.

    :param waiting: changes of files that no accepted batch had.
    """

    folder: Path
    waiting: list[Change] = field(default_factory=list)

    def arrive(self, name: str, changes: Iterable[Change]) -> None:
        """Write a file."""
        changes = list(changes)
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [row(change.key, change.name, change.n, "d" if change.gone else "u") for change in changes]
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.waiting += changes

    def source(self, name: str = "*") -> Source:
        """The folder, or a file of it, as a source of batches."""
        return Files(path=f"{self.folder}/{name}.jsonl", format="json", schema=SCHEMA, name=self.folder.name)


def random_changes(random: Random, name: str, number: int) -> list[Change]:
    """Draw changes of some of the keys; the same key may change more than once.

    :param number: of the batch, for values that no other batch has.
    """
    picked = [random.randrange(KEYS) for _ in range(random.randint(3, 25))]
    return [
        Change(key, name, number * 1000 + place, random.random() < 0.2)  # a fifth are deletes
        for place, key in enumerate(picked)
    ]

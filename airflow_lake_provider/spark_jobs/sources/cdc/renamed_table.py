"""A stream that is read for another table than before: its table was renamed, or another one was meant.

Events under the new name come after those under the old one, since renaming locks the table. So the marks of what was
applied hold for both, and what contradicts that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from airflow_lake_provider.contracts.applied.redelivery import EventPositions
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.cdc.envelope import Envelope
from airflow_lake_provider.spark_jobs.sources.files import digest

MOST_TABLES = 10_000
# The part of a source's shape that names the table of a stream.
EVENTS_OF = "envelope_table"


@dataclass(frozen=True)
class EarlierTable:
    """The table that the source was read for before.

    :param digest: of its name.
    :param unread: opens what was not consumed for it; None where all was.
    """

    digest: str
    unread: Callable[[], AbstractContextManager[Envelope]] | None


def earlier_table(before: Mapping[str, str], table: str) -> str | None:
    """Return the digest of the table that was read before, where another one is read now.

    ``items`` that became ``public.items``, or this one ``shop.public.items``, is the same one.

    :param before: shape of the last commit.
    """
    former = before.get(EVENTS_OF)
    return None if former is None or _is_table(table, former) else former


def _is_table(name: str, former: str) -> bool:
    """Return whether a digest is that of a table, with or without its schema and its database."""
    return former in map(digest, spellings(name))


def spellings(table: str) -> list[str]:
    """Return a name with fewer and fewer of its leading parts; a name may have dots itself."""
    parts = table.split(".")
    return [".".join(parts[start:]) for start in range(len(parts))]


def refuse_other_table(
    stream: Envelope, earlier: EarlierTable, positions: EventPositions, *, ignore_marks: bool
) -> None:
    """Refuse a batch of events that the earlier table has not under a new name, or that would lose some of its own.

    :param positions: of the events of the table that is read now.
    :param ignore_marks: whether older events are applied, too.
    :raises BadInputError: with how many, and what to do.
    """
    table, below = stream.source.table, positions.below_mark.count
    if below and not ignore_marks:
        raise BadInputError(
            f"the source was read for another table before, and {below} events of {table} are older "
            f"than what was applied then. So {table} is not that table under a new name. Where it is the same "
            "one, spelled with or without its schema, spell it as before. Otherwise give the source a new name; or "
            "apply all events with on_repeat='apply'. Nothing was applied"
        )
    if earlier.unread is None:
        return
    with earlier.unread() as unread:
        tables = unread.count_tables(MOST_TABLES)
    for name, count in tables.items():
        if _is_table(name, earlier.digest):
            raise BadInputError(
                f"the source was read for {name} before, and is to be read for {table} now. "
                f"What was not read yet has {count} events of {name}, which would be lost. "
                f"Run once more with table={name!r}, and change it then; or give the source of {table} a "
                "new name, where it is another table. Nothing was applied"
            )


def refuse_other_schema(table: str, applied: str | None, tables: Sequence[str]) -> None:
    """Refuse events of a table of the same name from another schema or database than the events before.

    :param table: as the source names it; the full name of the events says that they are meant.
    :param applied: full name of the table whose events were applied; None where that is not known.
    :param tables: full names of those of the batch, at most one.
    :raises BadInputError: with both names, and what to do.
    """
    for name in tables:
        # Some streams do not say the database.
        is_same = applied is None or name in spellings(applied) or applied in spellings(name)
        if not is_same and name != table:
            raise BadInputError(
                f"events of {table} are of {name}, and those applied before were of {applied}: the rows of one would "
                f"replace those of another with the same key. Give the source table={applied!r} to go on with that "
                f"one; or table={name!r}, where the table has moved. Nothing was applied"
            )

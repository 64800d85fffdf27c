"""Places in a database's log, by which change events are ordered and marks say what was applied.

A change stream brings the kind of its own log. A table keeps it in the packed marks of ``event_marks``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice, repeat
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.applied.positions import Comparison, Position

# By the first byte of packed marks.
LOG_POSITIONS: dict[int, type[LogPosition]] = {}


class LogPosition(Position):
    """A place in a database's log; each kind of log compares its own way, and packs itself as numbers.

    ``code`` is the first byte of packed marks, see ``event_marks.pack``. A class that has one is known by it from then
    on.
    """

    code: ClassVar[int]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "code" not in cls.__dict__:
            return
        former = LOG_POSITIONS.setdefault(cls.code, cls)
        if (former.__module__, former.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{cls.__name__} and {former.__name__} have the code {cls.code}; each log needs its own")

    @abstractmethod
    def numbers(self) -> list[int]:
        """Return the place as whole numbers; a small one takes fewer bytes."""

    @classmethod
    @abstractmethod
    def of_numbers(cls, numbers: Iterator[int]) -> Self:
        """Take what :meth:`numbers` returned from the front."""

    @classmethod
    @abstractmethod
    def before_all(cls) -> Self:
        """Return a place below every event: that of a partition with nothing but tombstones."""

    @property
    def may_be_of_snapshot(self) -> bool:
        """True where a row that a snapshot read may stand: below it may be transactions that were open then."""
        return False


@dataclass(frozen=True)
class TuplePosition(LogPosition):
    """Base of the logs whose places are a few numbers, compared one after the other, so that any two have an order.

    The numbers are the fields of the subclass, most significant first. A batch of events is ordered by them.

    ``number_type`` is the SQL type of each number: ``BIGINT``, or ``DECIMAL(38, 0)`` where one may have more bits.
    """

    number_type: ClassVar[str] = "BIGINT"

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the numbers."""
        return tuple(each.name for each in fields(cls))

    @classmethod
    def sql_type(cls) -> str:
        """Return the SQL type of a place in a batch."""
        return f"STRUCT<{', '.join(f'{name}: {cls.number_type}' for name in cls.names())}>"

    def compare(self, other: Self) -> Comparison:
        """Compare number by number."""
        mine, others = self.to_plain(), other.to_plain()
        return Comparison.of(below=mine <= others, above=mine >= others)

    def numbers(self) -> list[int]:
        """Return the numbers as they are."""
        return self.to_plain()

    @classmethod
    def of_numbers(cls, numbers: Iterator[int]) -> Self:
        """Take as many numbers as the place has."""
        return cls(*islice(numbers, len(cls.names())))

    @classmethod
    def before_all(cls) -> Self:
        """Return a place of numbers that no log has."""
        return cls(*repeat(-1, len(cls.names())))

    def to_plain(self) -> list[int]:
        """Return the numbers."""
        return [getattr(self, name) for name in self.names()]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read the numbers."""
        return cls(*plain)

    def __str__(self) -> str:
        return str(self.to_plain())


@dataclass(frozen=True)
class PostgresLogPosition(TuplePosition):
    """The two LSNs of ``source.sequence``.

    :param last_commit_lsn: end of the last commit before the event; the event's own where there was none.
    :param lsn: of the event.
    """

    kind: ClassVar[str] = "postgresql-lsn"
    code: ClassVar[int] = 1
    last_commit_lsn: int
    lsn: int

    def numbers(self) -> list[int]:
        """Return the LSN of the last commit, and how far the event's is above it."""
        return [self.last_commit_lsn, self.lsn - self.last_commit_lsn]

    @classmethod
    def of_numbers(cls, numbers: Iterator[int]) -> Self:
        """Take two numbers."""
        last_commit_lsn = next(numbers)
        return cls(last_commit_lsn, last_commit_lsn + next(numbers))

    @property
    def may_be_of_snapshot(self) -> bool:
        """True at the end of the last commit, where a snapshot's rows are."""
        return self.last_commit_lsn == self.lsn

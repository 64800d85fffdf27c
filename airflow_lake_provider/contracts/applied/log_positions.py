"""Places in a database's log, by which change events are ordered and marks say what was applied.

A change stream brings the kind of its own log. A table keeps it in the packed marks of ``event_marks``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
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
class PairPosition(LogPosition):
    """Base of the logs whose places are pairs of numbers, which are ordered throughout.

    :param first: compared first; ``second``: compared where the first ones are equal.
    """

    first: int
    second: int

    def compare(self, other: Self) -> Comparison:
        """Compare as a pair."""
        mine, others = (self.first, self.second), (other.first, other.second)
        return Comparison.of(below=mine <= others, above=mine >= others)

    def numbers(self) -> list[int]:
        """Return the first number, and how far the second is above it."""
        return [self.first, self.second - self.first]

    @classmethod
    def of_numbers(cls, numbers: Iterator[int]) -> Self:
        """Take two numbers."""
        first = next(numbers)
        return cls(first, first + next(numbers))

    @classmethod
    def before_all(cls) -> Self:
        """Return a pair below every other one."""
        return cls(-1, -1)

    def to_plain(self) -> list[int]:
        """Return both numbers."""
        return [self.first, self.second]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read both numbers."""
        return cls(*plain)

    def __str__(self) -> str:
        return str(self.to_plain())


@dataclass(frozen=True)
class PostgresLogPosition(PairPosition):
    """The two LSNs of ``source.sequence``: of the end of the last commit before the event, and of the event."""

    kind: ClassVar[str] = "postgresql-lsn"
    code: ClassVar[int] = 1

    @property
    def may_be_of_snapshot(self) -> bool:
        """True at the end of the last commit, where a snapshot's rows are."""
        return self.first == self.second

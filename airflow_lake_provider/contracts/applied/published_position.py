"""The position of commits that tell none, such as those of a branch that was published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from airflow_lake_provider.contracts.applied.positions import Comparison, Position
from airflow_lake_provider.contracts.property_values import LAST_SECOND, is_whole_number


@dataclass(frozen=True)
class PublishedPosition(Position):
    """Moment of the newest commit that main got without a position, such as one of a branch that was published.

    Nothing names its input: what was there before may be applied.

    :param until: epoch seconds.
    :param of_files: whether it is of files with a time alone, as all else that there was is applied once more since.
    """

    kind: ClassVar[str] = "published"
    until: int
    of_files: bool = False

    def may_have(self, modified: int | None) -> bool:
        """Return whether input that no position names may be applied.

        :param modified: epoch seconds; None for what has no time, such as the records of a topic.
        """
        return not self.of_files if modified is None else modified <= self.until

    def compare(self, other: PublishedPosition) -> Comparison:
        """Compare by what may be applied."""
        return Comparison.of(below=self._is_within(other), above=other._is_within(self))

    def joined(self, other: PublishedPosition) -> PublishedPosition:
        """Return the later moment, of all that either is of."""
        return PublishedPosition(max(self.until, other.until), of_files=self.of_files and other.of_files)

    def _is_within(self, other: PublishedPosition) -> bool:
        return self.until <= other.until and (self.of_files or not other.of_files)

    def to_plain(self) -> int | dict[str, int]:
        """Return the moment, and what it is of where that is not everything."""
        return {"of_files": self.until} if self.of_files else self.until

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read the moment."""
        of_files = isinstance(plain, dict) and plain.keys() == {"of_files"}
        until = plain["of_files"] if of_files else plain
        if not is_whole_number(until, LAST_SECOND):
            raise ValueError("it is no moment")
        return cls(until, of_files=of_files)

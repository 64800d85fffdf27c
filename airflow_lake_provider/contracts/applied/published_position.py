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
    """

    kind: ClassVar[str] = "published"
    until: int

    def compare(self, other: PublishedPosition) -> Comparison:
        """Compare the moments."""
        return Comparison.of(below=self.until <= other.until, above=self.until >= other.until)

    def to_plain(self) -> int:
        """Return the moment."""
        return self.until

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Read the moment."""
        if not is_whole_number(plain, LAST_SECOND):
            raise ValueError("it is no moment")
        return cls(plain)

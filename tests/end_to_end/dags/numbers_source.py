"""A source that only tests have: generators count, and what of them is consumed is only partly ordered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from airflow_lake_provider import PositionSource
from airflow_lake_provider.contracts.applied.positions import Comparison, Position
from airflow_lake_provider.contracts.argument_validation import text
from airflow_lake_provider.contracts.author_object import reads


@dataclass(frozen=True)
class VersionVector(Position):
    """How far each generator was read."""

    kind: ClassVar[str] = "version-vector"
    counts: Mapping[str, int]

    def compare(self, other: Self) -> Comparison:
        both = [(self.counts.get(name, 0), other.counts.get(name, 0)) for name in {*self.counts, *other.counts}]
        return Comparison.of(below=all(a <= b for a, b in both), above=all(a >= b for a, b in both))

    def joined(self, other: Self) -> Self:
        names = sorted({*self.counts, *other.counts})
        return type(self)({name: max(self.counts.get(name, 0), other.counts.get(name, 0)) for name in names})

    def to_plain(self) -> dict[str, int]:
        return dict(self.counts)

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        return cls({str(name): int(count) for name, count in plain.items()})


# [START numbers]
@dataclass(frozen=True)
class Numbers(PositionSource):
    """Numbers that generators have counted to.

    :param counted: how far each generator has come, ``"a=3 b=5"``.
    """

    counted: str = field(metadata=reads(text, "a=1"))

    def there(self, spark: Any) -> VersionVector:
        parts = (part.partition("=") for part in self.counted.split())
        return VersionVector({name: int(count) for name, _, count in parts})

    def rows(self, spark: Any, since: VersionVector | None, upto: VersionVector) -> Any:
        consumed = since.counts if since else {}
        numbers = [
            (name, number)
            for name, count in upto.counts.items()
            for number in range(consumed.get(name, 0) + 1, count + 1)
        ]
        return spark.createDataFrame(numbers, "generator STRING, n BIGINT")


# [END numbers]

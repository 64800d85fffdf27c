"""Base of sources of one's own: what is there is a position, and rows lie between two positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_lake_provider.contracts.applied.positions import Position
from airflow_lake_provider.contracts.author.sources import Source


@dataclass(frozen=True)
class PositionSource(Source):
    """A source that says how far it is, and reads what lies between two of its positions.

    A subclass is in a module of its own, which travels to the driver by ``py_files``. Its methods run there, with the
    author's arguments as fields. See docs/explanation/sources.md.
    """

    kind: ClassVar[str] = ""
    reader: ClassVar[str] = "airflow_lake_provider.spark_jobs.sources.custom_source:PositionBatchSource"

    def there(self, spark: Any) -> Position | None:
        """Return how far the source is now; None for a source that has nothing.

        :param spark: the driver's session.
        """
        raise NotImplementedError

    def rows(self, spark: Any, since: Any, upto: Any) -> Any:
        """Return a DataFrame of what is after ``since`` and not after ``upto``, the same each time.

        :param since: position that the table has consumed, which may have parts that are after ``upto``; None for
            nothing.
        :param upto: what :meth:`there` returned.
        """
        raise NotImplementedError

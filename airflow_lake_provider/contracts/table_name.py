"""The name of a lake table: one or more namespace levels and a table, never a catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_lake_provider.contracts.errors import InvalidSpecError

# Word characters and hyphens: whatever needs no escape in a URI, a branch name or a backtick quote.
_LEVEL = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class TableName:
    """A parsed table name.

    :param levels: namespace levels and, last, the table; at least two.
    """

    levels: tuple[str, ...]

    @classmethod
    def parse(cls, text: object) -> TableName:
        """Parse ``namespace.table`` or ``a.b.table``.

        :param text: dotted name without a catalog: the connection names the catalog.
        :raises InvalidSpecError: when a level is missing or has characters other than letters, digits, ``_``, ``-``.
        """
        levels = tuple(text.split(".")) if isinstance(text, str) else ()
        if len(levels) < 2 or not all(_LEVEL.fullmatch(level) for level in levels):
            raise InvalidSpecError(
                f"table name {text!r} is not of the form namespace.table, with letters, digits, '_' and '-' in each "
                "level; the catalog is not part of it, the connection names it"
            )
        return cls(levels)

    @property
    def namespace(self) -> tuple[str, ...]:
        """Namespace levels without the table."""
        return self.levels[:-1]

    @property
    def table(self) -> str:
        """The last level."""
        return self.levels[-1]

    def __str__(self) -> str:
        return ".".join(self.levels)

    def quoted(self, catalog: str | None = None) -> str:
        """Return the name as Spark SQL reads it, each level in backticks.

        :param catalog: put in front when given.
        """
        levels = (catalog, *self.levels) if catalog else self.levels
        return ".".join(f"`{level}`" for level in levels)

    def asset_uri(self, authority: str, scheme: str = "iceberg") -> str:
        """Return the asset URI, ``iceberg://<authority>/<namespace>/<table>``.

        :param authority: the connection's ``asset_authority`` or its id; never a host.
        """
        return f"{scheme}://{authority}/{'/'.join(self.levels)}"

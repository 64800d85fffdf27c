"""Assertions on a batch that is on a branch, before it is published; nonsense is refused here.

What an assertion reads is decided in the driver, from its plan; a text is refused here only where it cannot be one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from airflow_lake_provider.contracts.errors import InvalidSpecError

# A text that begins with a word which begins no query; one that begins with a comment is left to the driver.
_STATEMENT = re.compile(r"[\s(]*(?!(?:select|with|from|table|values)\b)\w", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Audits:
    """What has to hold before a batch becomes part of main.

    :param queries: name of an assertion to the SQL query of the rows that offend it; it passes when there are none.
    :param local: whether all of them look only at the batch, so that what others commit cannot change their answer.
    """

    queries: dict[str, str]
    local: bool = False

    AUDITED: ClassVar[str] = "audited"
    BATCH: ClassVar[str] = "batch"

    def __post_init__(self) -> None:
        if not self.queries:
            raise InvalidSpecError("audits must have at least one assertion, got none")
        for name, query in self.queries.items():
            self._refuse(name, query)

    def _refuse(self, name: object, query: object) -> None:
        if not isinstance(name, str) or not name.strip() or "\n" in name:
            raise InvalidSpecError(f"the name of an audit must be a line of text, got {name!r}")
        if not isinstance(query, str) or not query.strip() or _STATEMENT.match(query):
            raise InvalidSpecError(f"audit {name!r} must be a SELECT of the rows that offend it, got {query!r}")
        if not any(view in query.lower() for view in (self.AUDITED, self.BATCH)):
            raise InvalidSpecError(
                f"audit {name!r} reads neither the view {self.AUDITED}, the table as it is to be, nor the view "
                f"{self.BATCH}, so it cannot see the batch, got {query!r}"
            )

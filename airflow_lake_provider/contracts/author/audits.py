"""Assertions on a batch that is on a branch, before it is published; nonsense is refused here.

What an assertion reads is decided in the driver, from its plan; a text is refused here only where it cannot be one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import flag
from airflow_lake_provider.contracts.author_object import ArgumentObject, reads
from airflow_lake_provider.contracts.errors import InvalidSpecError

# A text that begins with a word which begins no query; one that begins with a comment is left to the driver.
_STATEMENT = re.compile(r"[\s(]*(?!(?:select|with|from|table|values)\b)\w", re.IGNORECASE)


def _queries(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidSpecError(f"{name} must map a name to each query, got {value!r}")
    return dict(value)


@dataclass(frozen=True)
class Audits(ArgumentObject):
    """Assertions that are checked before a batch is published to main.

    :param queries: name of an assertion to the SQL query of the rows that offend it; it passes when there are none. Or
        the path of a file with it.
    :param local: whether all of them look only at the batch, so that what others commit cannot change their answer.
    """

    queries: Mapping[str, str] = field(metadata=reads(_queries, {"stand-in": "SELECT * FROM batch"}, is_sql=True))
    local: bool = field(default=False, kw_only=True, metadata=reads(flag))

    AUDITED: ClassVar[str] = "audited"
    BATCH: ClassVar[str] = "batch"

    def complete(self) -> None:
        """Refuse what is no assertion."""
        if not self.queries:
            raise InvalidSpecError("audits must have at least one assertion, got none")
        for name, query in self.queries.items():
            self._refuse(name, query)

    @property
    def needs(self) -> tuple[str, ...]:
        """They are checked before a batch is published."""
        return ("audits",)

    @property
    def code(self) -> Mapping[str, str | None]:
        """The queries."""
        return {f"audit {name!r}": query for name, query in self.queries.items()}

    def refuse_arguments(self, spec: Any) -> None:
        """Refuse a branch, which nobody publishes."""
        if spec.branch is not None:
            raise InvalidSpecError(
                f"{spec.table}: audits publish to main, and branch={spec.branch!r} is never published; leave out one"
            )

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


def audits(value: object, name: str = "audits") -> Audits | None:
    """Return the audits that an author gives; None without any.

    :param value: audits, a mapping of their fields, or one of names to queries.
    :raises InvalidSpecError: it is none of these.
    """
    if value is None or isinstance(value, Audits):
        return value
    if not isinstance(value, Mapping):
        raise InvalidSpecError(f"{name} must map a name to each query, or be Audits, got {value!r}")
    if isinstance(value.get("queries"), Mapping):
        return Audits.from_mapping(value, name)
    return Audits.from_mapping({"queries": value}, name) if value else None

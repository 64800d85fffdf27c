"""Assertions on a batch that is on a branch, before it is published; nonsense is refused here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from airflow_lake_provider.contracts.errors import InvalidSpecError

_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TEXTS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)


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

    def refuse_table(self, table: str) -> None:
        """Refuse a local assertion that names the table.

        :param table: ``namespace.table`` that the batch goes to.
        """
        written = re.compile(rf"\b{re.escape(table.lower())}\b")
        named = [name for name, query in self.queries.items() if written.search(_code(query).replace("`", ""))]
        if self.local and named:
            raise InvalidSpecError(
                f"{table}: the audits {named} are declared local to the batch but read the table, whose other rows may "
                "change; leave out audits_local, or read the view batch alone"
            )

    def _refuse(self, name: object, query: object) -> None:
        if not isinstance(name, str) or not name.strip() or "\n" in name:
            raise InvalidSpecError(f"the name of an audit must be a line of text, got {name!r}")
        if not isinstance(query, str) or not re.match(r"[\s(]*(select|with)\b", _code(query)):
            raise InvalidSpecError(f"audit {name!r} must be a SELECT of the rows that offend it, got {query!r}")
        views = {view for view in (self.AUDITED, self.BATCH) if re.search(rf"\b{view}\b", _code(query))}
        if not views:
            raise InvalidSpecError(
                f"audit {name!r} reads neither the view {self.AUDITED}, the table as it is to be, nor the view "
                f"{self.BATCH}, so it cannot see the batch, got {query!r}"
            )
        if self.local and self.AUDITED in views:
            raise InvalidSpecError(
                f"audit {name!r} is declared local to the batch but reads the view {self.AUDITED}; leave out "
                f"audits_local, or read the view {self.BATCH}"
            )


def _code(query: str) -> str:
    """Return the query in lower case, without its texts and comments."""
    return _COMMENTS.sub(" ", _TEXTS.sub("''", query)).lower()

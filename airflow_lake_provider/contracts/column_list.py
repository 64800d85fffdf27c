"""A schema as text: names and types of columns, and nothing that Spark would have to evaluate, such as a default."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.sql_limits import forbidden_in

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:]))", re.DOTALL)
_TYPES = frozenset(
    (
        *("BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL"),
        *("DOUBLE", "DECIMAL", "DEC", "NUMERIC", "STRING", "CHAR", "CHARACTER", "VARCHAR", "BINARY", "DATE", "TIME"),
        *("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "INTERVAL", "VARIANT", "VOID"),
    )
)
# What may stand behind a type, with another word.
_QUALIFIED = {"STRING": ("COLLATE",), "INTERVAL": ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")}
_MAX_NESTING = 50


def check_column_list(text: str, role: str) -> None:
    """Refuse a schema that is more than columns with types, ``NOT NULL`` and ``COMMENT``.

    :param role: argument that the text is of, for messages.
    :raises InvalidSpecError: it names the place.
    """
    unfit = forbidden_in(text)
    if unfit is not None:
        raise InvalidSpecError(f"{role} {text!r} may not have {unfit}")
    _ColumnList(text, role).check()


@dataclass
class _ColumnList:
    text: str
    role: str
    tokens: list[str] = field(init=False)
    place: int = 0
    nesting: int = 0

    def __post_init__(self) -> None:
        self.tokens = []
        at, end = 0, len(self.text.rstrip())
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None:
                raise self._refused(self.text[at:].strip()[:20], "is neither a name nor a text; put it in backticks")
            self.tokens.append(found[0].strip())
            at = found.end()

    def check(self) -> None:
        self._columns()
        if self.place < len(self.tokens):
            raise self._refused(self._next(), "only NOT NULL and COMMENT may follow a type")

    def _columns(self) -> None:
        while True:
            self._name()
            self._skip(":")
            self._type()
            if self._skip("NOT"):
                self._take("NULL")
            if self._skip("COMMENT"):
                self._text()
            if not self._skip(","):
                return

    def _name(self) -> None:
        if not re.fullmatch(r"`.+`|\w+", self._next(), re.DOTALL):
            raise self._refused(self._next(), "the name of a column is expected")
        self.place += 1

    def _type(self) -> None:
        word = self._next().upper()
        self.place += 1
        if word in ("ARRAY", "MAP", "STRUCT"):
            self._nested(word)
        elif word not in _TYPES:
            self.place -= 1
            raise self._refused(self._next(), "a type is expected, such as BIGINT or DECIMAL(12,2)")
        elif self._skip("("):
            self._number()
            while self._skip(","):
                self._number()
            self._take(")")
        elif self._next().upper() in _QUALIFIED.get(word, ()):
            self._qualified()

    def _nested(self, word: str) -> None:
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise self._refused(self._next(), f"types are inside of each other more than {_MAX_NESTING} times")
        self._take("<")
        if word == "STRUCT" and self._next() != ">":
            self._columns()
        elif word != "STRUCT":
            self._type()
            if word == "MAP":
                self._take(",")
                self._type()
        self._take(">")
        self.nesting -= 1

    def _qualified(self) -> None:
        self.place += 1
        if self.tokens[self.place - 1].upper() == "COLLATE" or self._skip("TO"):
            self._name()

    def _text(self) -> None:
        if self._next()[:1] not in ("'", '"'):
            raise self._refused(self._next(), "COMMENT takes a text")
        self.place += 1

    def _number(self) -> None:
        if not re.fullmatch(r"[0-9]+", self._next()):
            raise self._refused(self._next(), "a number is expected")
        self.place += 1

    def _next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _skip(self, token: str) -> bool:
        is_next = self._next().upper() == token
        self.place += is_next
        return is_next

    def _take(self, token: str) -> None:
        if not self._skip(token):
            raise self._refused(self._next(), f"{token} is expected")

    def _refused(self, token: str, why: str) -> InvalidSpecError:
        at = f"at {token!r}" if token else "at its end"
        return InvalidSpecError(
            f"{self.role} {self.text!r} is not a list of columns in DDL: {at} {why}. A column is a name and a type, "
            "such as 'id BIGINT, total DECIMAL(12,2) NOT NULL'; defaults and generated columns are not taken"
        )

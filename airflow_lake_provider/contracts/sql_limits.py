"""Refuse SQL texts that may not reach Spark's parser, without a parser.

The answers quote nothing of the text: it may name what is to be erased.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_lake_provider.contracts.errors import InvalidSpecError

_STATEMENT = re.compile(r"[\s(]*(?!(?:select|with|from|table|values|map|reduce)\b)\w", re.IGNORECASE)
_CASE = re.compile(r"\bCASE\b")
# What a predicate may hold, for messages.
PREDICATE = (
    "Allowed are columns of the table compared with each other or with constants by =, <>, <, <=, >, >=, <=>, IN with "
    "constants, BETWEEN, LIKE and IS NULL, joined by AND, OR and NOT; CAST and a minus sign"
)
# Spark walks a predicate by recursion, and an IN list in time that grows with its square.
MAX_CHARACTERS = 500_000
MAX_COMMAS = 10_000
MAX_NESTING = 50


def forbidden_in(text: str) -> str | None:
    """Return what a text has that Spark would read as something else; None where it has nothing of it."""
    if "${" in text:
        return (
            "'${', which Spark replaces by a setting or an environment variable before it parses; in a constant write "
            r"'\u0024{'"
        )
    if "\0" in text:
        return "a character NUL"
    if not is_unicode(text):
        return r"half of a pair of surrogates, such as '\ud800', which is no character"
    return None


def is_unicode(text: str) -> bool:
    """Return whether a text can be written as UTF-8; JSON and Python may have half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_code(texts: Mapping[str, str | None], *, allow_sql: bool) -> None:
    """Refuse an author's queries and expressions for what no parser is needed to see.

    :param texts: by what they are called in messages.
    :raises InvalidSpecError: a text has something of :func:`forbidden_in`, and ``allow_sql`` does not take it.
    """
    for what, text in texts.items():
        forbidden = None if allow_sql or text is None else forbidden_in(text)
        if forbidden is not None:
            raise InvalidSpecError(f"{what} may not have {forbidden}, or set allow_sql=True; got {shown(str(text))}")


def check_query_start(query: str | None, what: str) -> None:
    """Refuse a text that begins as no query does; one that begins with a comment is left to the driver.

    :raises InvalidSpecError: it is a statement that does something.
    """
    if query is not None and (not query.strip() or _STATEMENT.match(query)):
        raise InvalidSpecError(f"{what} must be one query, such as SELECT ..., got {shown(query)}")


def unfit_for_predicate(text: str) -> str | None:
    """Return what a predicate has that it may not have, or too much of; None where it may be parsed."""
    fault = forbidden_in(text)
    if fault is None and len(text) > MAX_CHARACTERS:
        fault = f"{len(text):,} characters, more than {MAX_CHARACTERS:,}; give long lists of keys as a file"
    if fault is None and text.count(",") > MAX_COMMAS:
        fault = f"{text.count(','):,} commas, more than {MAX_COMMAS:,}; give long lists of keys as a file"
    if fault is None and _nesting(text) > MAX_NESTING:
        fault = f"parentheses, comments or CASE inside of each other more than {MAX_NESTING} times"
    return fault


def shown(text: str) -> str:
    """Return a text as messages quote it, cut off where it is long."""
    return repr(text if len(text) <= 500 else f"{text[:500]}...")


def _nesting(text: str) -> int:
    """Return the deepest nesting, or more: what stands in constants counts, and every comment and CASE."""
    # As Spark compares letters: others than a to z become some of these, too.
    depth, deepest = 0, max(text.count("/*"), len(_CASE.findall(text.upper())))
    for character in text:
        if character in "([":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]":
            depth -= 1
    return deepest

"""The name of a lake table: one or more namespace levels and a table, never a catalog; and patterns of names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from airflow_lake_provider.contracts.argument_validation import listed, text
from airflow_lake_provider.contracts.errors import InvalidSpecError

# Word characters and hyphens: whatever needs no escape in a URI, a branch name or a backtick quote.
_LEVEL = re.compile(r"[\w-]+")
_NO_CHARACTER = re.compile(r"[^\w-]")
# What Airflow cuts off or sorts in a URI, and the sign that stands before what is written in its place.
_NOT_IN_BRANCH = re.compile(r"[\s#?%]|/$")


def is_level(text: str) -> bool:
    """Tell whether a text may be a level of a :class:`TableName`."""
    return _LEVEL.fullmatch(text) is not None


def encoded_level(text: str) -> str:
    """Return a level whose characters are those of a :class:`TableName`, the others written as ``%2E``."""
    return _NO_CHARACTER.sub(_percent_encoded, text)


def _percent_encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass"))


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
        if len(levels) < 2 or not all(map(is_level, levels)):
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

    def asset_uri(self, authority: str, *, branch: str = "main") -> str:
        """Return the asset URI, ``iceberg://<authority>/<namespace>/<table>``; of another branch ``/@<branch>`` more.

        :param authority: the connection's ``asset_authority`` or its id; never a host.
        :param branch: written as ``%23`` where it has what Airflow would take out of a URI.
        """
        of_branch = "" if branch == "main" else f"/@{_NOT_IN_BRANCH.sub(_percent_encoded, branch)}"
        return f"iceberg://{authority}/{'/'.join(self.levels)}{of_branch}"


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


_PATTERN = re.compile(r"!?[\w.*?-]+")
_WILD = re.compile(r"[*?]")


@dataclass(frozen=True)
class TablePatterns:
    """Tables by their names: those that a pattern matches, without those that a pattern with ``!`` matches.

    ``*`` stands for any characters, dots included, and ``?`` for one.

    :param included: patterns, of which one has to match; ``*`` where only others are left out.
    :param excluded: patterns, of which none may match.
    :param allowed: patterns, of which one has to match as well; None where any table is allowed.
    """

    included: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    allowed: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, given: object, allowed: tuple[str, ...] | None = None) -> TablePatterns:
        """Read patterns such as ``["shop.*", "!shop.tmp_*"]``.

        :param given: one pattern or several.
        :param allowed: patterns of the tables that may be meant; None for any.
        :raises InvalidSpecError: there is none, or one has other characters than names, ``*`` and ``?``.
        """
        given = listed(given)
        is_one = isinstance(given, (str, bytes, Mapping))
        asked = tuple(given) if isinstance(given, Iterable) and not is_one else (given,)
        patterns = [each for each in asked if isinstance(each, str) and _PATTERN.fullmatch(each)]
        if len(patterns) < len(asked) or not asked:
            refused = [each for each in asked if each not in patterns]
            raise InvalidSpecError(
                f"tables {refused!r} are no patterns of table names; write for example 'shop.orders', 'shop.*' and "
                "'!shop.tmp_*', with letters, digits, '_', '-', '.', '*' and '?'"
            )
        excluded = tuple(each[1:] for each in patterns if each.startswith("!"))
        return cls(tuple(each for each in patterns if not each.startswith("!")) or ("*",), excluded, allowed)

    def matches(self, name: str) -> bool:
        """Tell whether a table is among those that are meant."""
        return (
            _any_matches(self.included, name)
            and not _any_matches(self.excluded, name)
            and (self.allowed is None or _any_matches(self.allowed, name))
        )

    def namespaces(self) -> set[tuple[str, ...]]:
        """Return the namespaces below which all matches are; an empty one stands for the whole catalog."""
        literal = {tuple(_WILD.split(pattern)[0].split(".")[:-1]) for pattern in self.included}
        return {each for each in literal if not any(each[:size] in literal for size in range(len(each)))}

    def unmatched(self, names: Collection[str]) -> list[str]:
        """Return the included patterns with ``*`` or ``?`` that match none of some names."""
        wild = (each for each in self.included if _WILD.search(each))
        return [each for each in wild if not any(fnmatchcase(name, each) for name in names)]

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the included tables that are named without ``*`` and ``?``, and that are not among some names."""
        existing = set(names)
        return [each for each in self.included if not _WILD.search(each) and each not in existing]


def table_name(value: object, name: str) -> str:
    """Read the argument of an author that names a table.

    :param name: of the argument, for the message.
    :raises InvalidSpecError: it is no name of a table.
    """
    return str(TableName.parse(text(value, name)))

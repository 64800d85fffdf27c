"""Options of Spark's readers, whose names Spark compares without case, and the encoding of text that they name."""

from __future__ import annotations

import codecs
from collections.abc import Mapping

from airflow_lake_provider.contracts.errors import InvalidSpecError

# Encodings in which the signs of JSON and CSV are not those of ASCII.
_WIDE = ("utf16", "utf32")
# Escape sequences change what all further bytes mean.
_STATEFUL = ("iso2022", "hz", "utf-7")
ENCODING_OPTIONS = ("encoding", "charset")


def by_lower_name(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a reader by their names in lower case."""
    return {name.lower(): value for name, value in options.items()}


def encoding_of(options: Mapping[str, str]) -> str:
    """Return the encoding that options of a reader name, in lower case."""
    given = by_lower_name(options)
    named = (given[name] for name in ENCODING_OPTIONS if name in given)
    return next(named, "utf-8").strip().lower()


def is_utf8(options: Mapping[str, str]) -> bool:
    """Return whether text is read as UTF-8."""
    return _plain(options) == "utf8"


def is_wide(options: Mapping[str, str]) -> bool:
    """Return whether each sign has 2 or 4 bytes, so that a line does not end with one byte."""
    return _plain(options).startswith(_WIDE)


def _plain(options: Mapping[str, str]) -> str:
    return encoding_of(options).replace("-", "").replace("_", "")


def check_encoding(options: Mapping[str, str], kind: str | None, name: str) -> None:
    """Refuse an encoding that nobody knows, or in which bytes of a letter look like a sign of the format.

    :param kind: format of the files; None for one that is not known yet.
    :param name: of the argument, for the message.
    :raises InvalidSpecError: saying which encodings there are.
    """
    given = by_lower_name(options)
    if not given.keys() & set(ENCODING_OPTIONS) or is_wide(options):
        return
    encoding = encoding_of(options)
    try:
        codecs.lookup(encoding)
        unfit = [sign for sign in _signs(given, kind) if _is_part_of_a_letter(sign, encoding)]
    # Some codecs of Python are not of texts, or decode in one way alone; a NUL is no name.
    except (LookupError, ValueError):
        raise InvalidSpecError(
            f"{name}: the encoding {encoding!r} is not known; give one such as UTF-8, UTF-16, ISO-8859-1, "
            "windows-1252, Shift_JIS or GB18030"
        ) from None
    is_whole = given.get("multiline", "").strip().lower() == "true"
    if unfit and not (kind == "csv" and is_whole):
        instead = "write it as UTF-8, which JSON has to be" if kind == "json" else "give multiLine=True, or write UTF-8"
        raise InvalidSpecError(
            f"{name}: in {encoding!r} the byte of {unfit[0]!r} may be part of a letter, so lines cannot be checked; "
            f"{instead}"
        )


def _signs(options: Mapping[str, str], kind: str | None) -> tuple[str, ...]:
    if kind == "json":
        return ("\\", '"', "{", "}")
    separator = options.get("sep", options.get("delimiter", ","))
    quote = options.get("quote", '"')
    return tuple({*separator.replace("\\t", "\t"), *quote, *options.get("escape", quote)} if kind == "csv" else ())


def _is_part_of_a_letter(sign: str, encoding: str) -> bool:
    """Return whether the sign is no byte of its own, or the second byte of a letter."""
    if not sign.isascii():
        return False
    byte = sign.encode()
    if byte.decode(encoding, "replace") != sign or codecs.lookup(encoding).name.startswith(_STATEFUL):
        return True
    letters = ((bytes((first,)) + byte).decode(encoding, "replace") for first in range(0x80, 0x100))
    return any(len(letter) == 1 and letter != "\ufffd" for letter in letters)

"""Values that options of Spark's readers must have: with another one a reader ends once it runs, as if a job failed."""

from __future__ import annotations

import re

from airflow_lake_provider.contracts.errors import InvalidSpecError

_FLAGS = frozenset(
    (
        *("header", "inferschema", "multiline", "preferdate", "mergeschema", "enabledatetimeparsingfallback"),
        *("ignoreleadingwhitespace", "ignoretrailingwhitespace", "ignoresurroundingspaces", "ignorenamespace"),
        *("allowbackslashescapinganycharacter", "allowcomments", "allownonnumericnumbers", "allowsinglequotes"),
        *("allownumericleadingzeros", "allowunquotedcontrolchars", "allowunquotedfieldnames"),
        *("primitivesasstring", "prefersdecimal", "infertimestamp", "enablestableidentifiersforuniontype"),
    )
)
_NUMBERS = frozenset(("maxcolumns", "maxcharspercolumn", "inputbuffersize"))
_SIGNS = frozenset(("quote", "escape", "chartoescapequoteescaping"))
_SEPARATORS = frozenset(("sep", "delimiter", "linesep"))
_TIME_FORMATS = frozenset(("timestampformat", "timestampntzformat"))
# A quote is doubled within a text that is taken as it is.
_TEXT_OF_FORMAT = re.compile(r"'[^']*'")
# Of weeks, and of what is written and not read, such as the name of the day.
_UNREAD_LETTERS = frozenset("ABceEFnNpqQuwWY{}#")
_LETTERS_OF_TIMES = frozenset("aHhKkmsS")
_MOST_DIGITS = 6
# Names of a zone, of which many zones have one.
_LETTERS_OF_ZONES = frozenset("zv")
# Java's own meanings of three letters: BST is Dhaka's time, and AST that of Alaska.
_JAVAS_ZONES = frozenset(
    (
        *("ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT", "IET"),
        *("IST", "JST", "MIT", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "VST"),
    )
)
# Java takes any other text for no language, which writes numbers as English does.
_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,10}")
_LARGEST = 2**31 - 1


def check_option_value(option: str, value: str, name: str) -> None:
    """Refuse a value that no reader takes.

    :param option: as it is given; Spark compares names without case.
    :param name: of the argument, for the message.
    :raises InvalidSpecError: saying what it must be.
    """
    lower, wanted, advice = option.lower(), "", ""
    if lower in _FLAGS and value.lower() not in ("true", "false"):
        wanted = "true or false"
    elif lower in _NUMBERS and not (_WHOLE_NUMBER.fullmatch(value) and int(value) <= _LARGEST):
        wanted = f"a whole number up to {_LARGEST}"
    elif lower in _SIGNS and len(value) > 1:
        wanted = "at most one character"
    elif lower in _SEPARATORS and not value:
        wanted = "at least one character"
    elif lower == "enabledatetimeparsingfallback" and value.lower() == "true":
        wanted, advice = "false", "; a value in another format than the given one may lose its time, or be one of today"
    else:
        wanted, advice = _wanted_of_writing(lower, value)
    if wanted:
        raise InvalidSpecError(f"{name}: {option} must be {wanted}, got {value!r}{advice}")


def _wanted_of_writing(lower: str, value: str) -> tuple[str, str]:
    """Return what an option must be that says how values are written, and advice; empty texts for any other."""
    if lower == "locale" and not _LANGUAGE_TAG.fullmatch(value):
        return "a language tag such as de-DE, with a hyphen", "; numbers would be read as English ones"
    if lower == "timezone" and (not value.strip() or value.strip() in _JAVAS_ZONES):
        return "the name of a place such as Europe/London, or an offset such as +02:00", (
            "; three letters have many meanings, of which Java takes one: BST is Dhaka's time"
        )
    if lower == "dateformat":
        return _wanted_of_days(_TEXT_OF_FORMAT.sub("", value))
    return _wanted_of_times(_TEXT_OF_FORMAT.sub("", value)) if lower in _TIME_FORMATS else ("", "")


def _wanted_of_days(pattern: str) -> tuple[str, str]:
    """Return what a format of dates must be, and advice; empty texts for one that reads what is written.

    :param pattern: letters of Java's ``DateTimeFormatter``, without the texts in quotes.
    """
    letters = set(pattern)
    if unread := "".join(sorted(letters & _UNREAD_LETTERS)):
        return (
            f"a format without {unread}",
            "; Spark reads no such letter: yyyy is the year, MM the month, dd the day",
        )
    if letters & _LETTERS_OF_TIMES:
        return "a format without a time", (
            ": MM is the month, and mm is minutes. A DATE has no time; declare a TIMESTAMP, which timestampFormat is "
            "for, and cast it in a Query"
        )
    if "y" not in letters:
        return "a format with the year", "; without it each value would be of 1970"
    if "d" in letters and not letters & set("ML"):
        return "a format with the month", "; MM is the month, and mm is minutes"
    return "", ""


def _wanted_of_times(pattern: str) -> tuple[str, str]:
    """Return the same of a format of times."""
    letters = set(pattern)
    unfit = _wanted_of_days("".join(letters - _LETTERS_OF_TIMES))
    if unfit[0]:
        return unfit
    if unclear := "".join(sorted(letters & _LETTERS_OF_ZONES)):
        return f"a format without {unclear}", (
            "; a name such as BST has many meanings, of which Java takes one. VV reads UTC and Europe/London, XXX "
            "+02:00; a time that ends with UTC or an offset needs no format"
        )
    if letters & set("hK") and "a" not in letters:
        return "a format with HH, or with hh and a", "; hh are the hours of a half day, which AM or PM names"
    if pattern.count("S") > _MOST_DIGITS:
        return f"a format of at most {_MOST_DIGITS} S", (
            ", as a time has microseconds, and further digits would be lost. Times such as 2026-01-31T10:00:00.000000 "
            "need no format: one that would lose a digit is refused"
        )
    return "", ""

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
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,10}")
_LARGEST = 2**31 - 1


def check_option_value(option: str, value: str, name: str) -> None:
    """Refuse a value that no reader takes.

    :param option: as it is given; Spark compares names without case.
    :param name: of the argument, for the message.
    :raises InvalidSpecError: saying what it must be.
    """
    lower, wanted = option.lower(), ""
    if lower in _FLAGS and value.lower() not in ("true", "false"):
        wanted = "true or false"
    elif lower in _NUMBERS and not (_WHOLE_NUMBER.fullmatch(value) and int(value) <= _LARGEST):
        wanted = f"a whole number up to {_LARGEST}"
    elif lower in _SIGNS and len(value) > 1:
        wanted = "at most one character"
    elif lower in _SEPARATORS and not value:
        wanted = "at least one character"
    if wanted:
        raise InvalidSpecError(f"{name}: {option} must be {wanted}, got {value!r}")

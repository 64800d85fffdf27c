"""Read numbers that a table's metadata has as text: strangers write it, and ``int`` takes more than digits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from airflow_lake_provider.contracts.errors import BrokenMetadataError

# As many digits as 2**63 has. ``str.isdigit`` takes "²" and other scripts' digits, and ``int`` refuses 4,301 of them.
_DIGITS = re.compile(r"[0-9]{1,19}")
_MOST = 2**63 - 1
_LONGEST_SHOWN = 60


def whole_number(text: object) -> int | None:
    """Return the number that ASCII digits write; None for anything else, and for what a Java ``long`` cannot hold."""
    if not isinstance(text, str) or not _DIGITS.fullmatch(text) or (number := int(text)) > _MOST:
        return None
    return number


def number_property(table: str, properties: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    """Return a number that a table property holds; ``default`` where it is not set.

    :param table: named in the error.
    :raises BrokenMetadataError: it is no whole number from 0 on.
    """
    text = properties.get(name)
    if text is None:
        return default
    found = whole_number(text.strip())
    if found is None:
        raise BrokenMetadataError(
            f"{table}: property {name!r} is {shown(text)}, expected a whole number from 0 on; set it, or remove it "
            f"with ALTER TABLE ... UNSET TBLPROPERTIES ('{name}')"
        )
    return found


def moment(seconds: int) -> datetime | None:
    """Return the time of so many seconds after 1970; None where no ``datetime`` is so far away."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def shown(text: str) -> str:
    """Return a text as an error shows it: quoted, escaped, and cut where it is long."""
    cut = ascii(text[:_LONGEST_SHOWN])
    return cut if len(text) <= _LONGEST_SHOWN else f"{cut} and {len(text) - _LONGEST_SHOWN} characters more"

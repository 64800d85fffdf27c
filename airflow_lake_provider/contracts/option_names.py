"""Names of the options of Spark's readers, which Spark compares without case."""

from __future__ import annotations

from collections.abc import Mapping


def by_lower_name(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a reader by their names in lower case."""
    return {name.lower(): value for name, value in options.items()}

"""Named inputs of a query: several sources, each under the name of its view."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from airflow_lake_provider.contracts.argument_validation import mapping
from airflow_lake_provider.contracts.author.sources import Source
from airflow_lake_provider.contracts.errors import InvalidSpecError

# Their positions share one table property of 3,500 characters, where a list of files takes the paths of four.
MOST_INPUTS, MOST_FILES = 8, 2
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,29}")
# The view of a single input.
_TAKEN = "source"


def is_named(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Tell whether a value is a mapping of names to sources, and not of the fields of one source."""
    return isinstance(value, Mapping) and "type" not in value


def named_inputs(value: Mapping[str, Any], name: str, read: Callable[[Any, str], Source]) -> dict[str, Source]:
    """Return sources by the name of their view.

    :param name: of the argument, for messages.
    :param read: reads one source.
    :raises InvalidSpecError: a name is none, two are the same, or an input is no source that a query can be over.
    """
    given = mapping(value, name, "the name of a view to its source")
    if unfit := [each for each in given if not _NAME.fullmatch(each) or each.lower() == _TAKEN]:
        raise InvalidSpecError(
            f"{name} names its inputs by up to 30 letters, digits and '_', a letter first, and not by {_TAKEN!r}, got "
            f"{unfit[0]!r}"
        )
    if twice := [each for each, count in Counter(map(str.lower, given)).items() if count > 1]:
        raise InvalidSpecError(f"{name} names an input twice: SQL takes no notice of case, got {twice[0]!r}")
    if not 1 <= len(given) <= MOST_INPUTS:
        raise InvalidSpecError(f"{name} must name 1 to {MOST_INPUTS} inputs, got {len(given)}")
    inputs = {each: read(item, f"{name}[{each!r}]") for each, item in given.items()}
    if len(listed := [each for each, source in inputs.items() if source.files is not None]) > MOST_FILES:
        raise InvalidSpecError(
            f"{name} may have {MOST_FILES} inputs of files at most, got {', '.join(listed)}; put files of one kind "
            "under one path, or load them into a table first"
        )
    return inputs

"""Arguments of sources of files, read as the specs want them."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from airflow_lake_provider.contracts.argument_validation import names, not_none, text
from airflow_lake_provider.contracts.author.reader_options import FORMATS, check_column_list
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError

_LONGEST_MEMORY_DAYS = 36_500
# As Python and JSON write one; a class of characters has no use for quotes.
_TEXT_OF_LIST = re.compile(r"\s*[\[(]\s*['\"]")


def file_path(value: object, name: str) -> str:
    """Return a path or a glob; one that a template makes of no value, or of a list, would match no file."""
    path = text(not_none(value, name), name)
    if _TEXT_OF_LIST.match(path):
        raise InvalidSpecError(
            f"{name} must be one path or glob, got the text of a list: {path!r}; write a glob such as "
            "'in/{a,b}.csv', or map the task over the paths"
        )
    return path


def file_format(value: object, name: str) -> str:
    """Return a format of files."""
    if value not in FORMATS:
        raise InvalidSpecError(f"{name} must be one of {', '.join(FORMATS)}, got {value!r}")
    return str(value)


def column_list(value: object, name: str) -> str:
    """Return columns as DDL."""
    columns = value if isinstance(value, str) else text(value, name)
    check_column_list(columns, name)
    return columns


def partition_names(value: object, name: str) -> tuple[str, ...]:
    """Return names of folders that are columns."""
    columns = names(() if value is None else value, name)
    lower = [column.lower() for column in columns]
    if len(set(lower)) < len(lower):
        raise InvalidSpecError(f"{name} has a column twice, as names are compared without case, got {value!r}")
    unfit = [column for column in columns if "=" in column or "/" in column]
    if unfit:
        raise InvalidSpecError(f"{name} takes names without value, 'day' for the folder day=2026-01-01, got {unfit}")
    return columns


def file_age(value: object, name: str) -> timedelta:
    """Return how long a consumed file is remembered."""
    # A position keeps whole days.
    age = timedelta(days=math.ceil(duration(value, name) / timedelta(days=1)))
    if age.days > _LONGEST_MEMORY_DAYS:
        raise InvalidSpecError(
            f"{name} must be at most {_LONGEST_MEMORY_DAYS:,} days, got {age.days:,}; an Aggregation forgets no file"
        )
    return age

"""Columns that a batch cannot have, whatever it is read from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.errors import BadInputError

_OURS = "_lake_"
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# From, to: what a reader may widen without a change of value.
_WIDER = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


def refuse_unfit_columns(columns: Sequence[str], what: str) -> None:
    """Refuse column names of this package, and names that are one to Spark, which compares them without case.

    :param what: whose columns they are, for the message.
    :raises BadInputError: naming them.
    """
    ours = [name for name in columns if name.lower().startswith(_OURS)]
    if ours:
        raise BadInputError(
            f"columns {ours} of {what} begin with {_OURS}, which this package keeps for itself; rename them there"
        )
    lower = [name.lower() for name in columns]
    twice = sorted({name for name in columns if lower.count(name.lower()) > 1})
    if twice:
        raise BadInputError(
            f"{what} has columns twice, as names are compared without case: {twice}; give each a name of its own"
        )


def refuse_lossy_types(found: StructType, declared: StructType, what: str) -> None:
    """Refuse declared types that do not hold what the files have; a reader of ORC puts NULL where a value does not fit.

    :param found: columns of the files.
    :raises BadInputError: naming the columns with both types.
    """
    types = {field.name.lower(): field.dataType.simpleString() for field in found}
    lossy = [
        f"{field.name} is {types[field.name.lower()]} and declared as {field.dataType.simpleString()}"
        for field in declared
        if not _widens(types.get(field.name.lower()), field.dataType.simpleString())
    ]
    if lossy:
        raise BadInputError(
            f"{what}: {'; '.join(lossy)}. Declare the types of the files in source_schema, and cast in source_query"
        )


def _more_digits(found: str, declared: str) -> bool:
    narrow, wide = (_DECIMAL.fullmatch(text) for text in (found, declared))
    return bool(narrow and wide and narrow[2] == wide[2] and int(narrow[1]) <= int(wide[1]))


def _widens(found: str | None, declared: str) -> bool:
    if found is None or found == declared or _more_digits(found, declared):
        return True
    return any(
        found in widths and declared in widths and widths.index(found) < widths.index(declared) for widths in _WIDER
    )

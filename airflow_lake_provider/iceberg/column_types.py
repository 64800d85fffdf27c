"""Compare the columns of two schemas of one table, as the Iceberg spec writes schemas in JSON.

A table that is replaced keeps the ids of columns of the same name, whatever their new type is. Files of before cannot
be read by such a schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_lake_provider.contracts.table_facts import schema_columns

_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2}),\s*([0-9]{1,2})\)")
# Iceberg spec, schema evolution: types that a column may be widened to.
_WIDER = {
    "int": {"long"},
    "float": {"double"},
    "date": {"timestamp", "timestamp_ns"},
}


def changed_types(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns whose values of before cannot be read as they are now: name to both types.

    :param before: a schema in JSON; likewise ``after``.
    """
    old, new = _kinds(before), _kinds(after)
    return {
        new[id_][0]: f"{old[id_][1]}, now {new[id_][1]}"
        for id_ in old.keys() & new.keys()
        if not _can_be_read(old[id_][1], new[id_][1])
    }


def other_types(table: str, start: str, changed: Mapping[str, str]) -> str:
    """Return the sentence that refuses a range.

    :param start: snapshot id.
    :param changed: of :func:`changed_types`.
    """
    changes = "; ".join(f"{name} was {types}" for name, types in sorted(changed.items()))
    return (
        f"{table}: the table was replaced since snapshot {start}, or rolled back to before columns were widened. "
        f"Columns have other types now: {changes}. So the rows of then cannot be compared with those of now. After a "
        "roll-back, run again once something was committed to it. Else rebuild with full_refresh=True, or let "
        "on_gap='full' do so; with read_changes, read from None"
    )


def _kinds(schema: Mapping[str, Any]) -> dict[int, tuple[str, str]]:
    return {id_: (path, kind if isinstance(kind, str) else kind["type"]) for id_, path, kind in schema_columns(schema)}


def _can_be_read(old: str, new: str) -> bool:
    if old in (new, "unknown") or new in _WIDER.get(old, ()):
        return True
    narrow, wide = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    return bool(narrow and wide and narrow[2] == wide[2] and int(narrow[1]) <= int(wide[1]))

"""Choose the columns whose distinct values are counted, by rules that worker and driver share.

Iceberg looks for columns in the schema of the snapshot, and asks Spark for them by a name without quotes
(``ComputeTableStatsSparkAction`` and ``ThetaSketchAgg`` of 1.12).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from airflow_lake_provider.contracts.table_facts import TableFacts, schema_columns
from airflow_lake_provider.iceberg.table_obstacles import unread_columns

_NO_PRIMITIVE = "variant"
# Of the spec of Puffin: a sketch of the distinct values of one column.
SKETCH = "apache-datasketches-theta-v1"
HAS_ALL = "main's head has all that can be computed"


@dataclass(frozen=True, kw_only=True)
class CountedColumns:
    """Columns of main's head whose distinct values are to be counted.

    :param by_id: names at the head, by field id.
    :param left_out: names of now, of columns that cannot be counted.
    :param has_no_schema: the head does not say what its columns are.
    """

    by_id: dict[int, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    has_no_schema: bool = False


def columns_to_count(facts: TableFacts, asked: Sequence[str], counted: Collection[int] = ()) -> CountedColumns:
    """Return the columns to count, none where all of them are counted.

    A snapshot has one file of statistics, so that columns which were counted before are counted again.

    :param asked: names of now; empty for all that are primitive.
    :param counted: field ids of the columns whose distinct values the head has.
    """
    head, shape = facts.newest(), facts.shape
    if head is None:
        return CountedColumns()
    if head.schema_id is None:
        return CountedColumns(has_no_schema=True)
    fields = shape.schema()["fields"]
    primitive = [each["name"] for each in fields if isinstance(each["type"], str) and each["type"] != _NO_PRIMITIVE]
    ids = {path: id_ for id_, path, _ in schema_columns(shape.schema())}
    wanted = {name: ids.get(name) for name in asked or primitive}
    then = {id_: path for id_, path, _ in schema_columns(shape.schema(head.schema_id))}
    paths = frozenset(then.values())
    countable = {id_: path for id_, path in then.items() if _is_asked_for(path, paths)}
    chosen = countable.keys() & {*wanted.values(), *counted}
    return CountedColumns(
        by_id={id_: path for id_, path in countable.items() if id_ in chosen and not chosen <= set(counted)},
        left_out=tuple(name for name, id_ in wanted.items() if id_ not in countable),
    )


def _is_asked_for(name: str, paths: Collection[str]) -> bool:
    """Tell whether Spark reads a name as the column: a dot in it is one between the names of a struct."""
    if "`" in name or unread_columns([name]):
        return False
    parts = name.split(".")
    return all(".".join(parts[:length]) in paths for length in range(1, len(parts)))

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.file_columns import arrow_schema
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow import row_order
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.row_order import (
    SortColumn,
    sort_columns,
    sorted_batches,
)

ROWS = st.lists(st.tuples(st.none() | st.integers(-3, 3), st.none() | st.text("aBé😀", max_size=2)), max_size=30)
SCHEMA = pa.schema([("n", pa.int32()), ("name", pa.string())])


def column(name: str, *, is_descending: bool = False, has_nulls_first: bool = True) -> SortColumn:
    return SortColumn(name=name, is_descending=is_descending, has_nulls_first=has_nulls_first)


def in_order(rows: list[tuple[Any, ...]], columns: tuple[SortColumn, ...]) -> list[tuple[Any, ...]]:
    """Sort as SQL does, by one column after another from the last."""
    for each in reversed(columns):
        place = SCHEMA.get_field_index(each.name)
        nulls = [row for row in rows if row[place] is None]
        others = [row for row in rows if row[place] is not None]
        # Texts in the order of their bytes.
        others.sort(
            key=lambda row: row[place].encode() if isinstance(row[place], str) else row[place],
            reverse=each.is_descending,
        )
        rows = [*nulls, *others] if each.has_nulls_first else [*others, *nulls]
    return rows


@given(rows=ROWS, cut=st.integers(0, 30), flags=st.lists(st.booleans(), min_size=4, max_size=4))
def test_rows_lie_as_sql_sorts_them(rows: list[tuple[Any, ...]], cut: int, flags: list[bool]) -> None:
    columns = (
        column("n", is_descending=flags[0], has_nulls_first=flags[1]),
        column("name", is_descending=flags[2], has_nulls_first=flags[3]),
    )
    parts = (rows[:cut], rows[cut:])
    batches = [
        pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in part], schema=SCHEMA)
        for part in parts
    ]
    lies = [tuple(row.values()) for batch in sorted_batches(batches, columns, 7) for row in batch.to_pylist()]
    assert lies == in_order(rows, columns)


def test_more_rows_than_a_worker_may_sort_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_order, "MOST_SORTED_BYTES", 20)
    batch = pa.record_batch([list(range(100)), ["a"] * 100], schema=SCHEMA)
    with pytest.raises(UnsupportedError, match="are to be sorted"):
        list(sorted_batches([batch], (column("n"),), 7))


FIELDS = [
    {"id": 1, "name": "n", "required": False, "type": "int"},
    {"id": 2, "name": "price", "required": False, "type": "double"},
    {
        "id": 3,
        "name": "place",
        "required": False,
        "type": {"type": "struct", "fields": [{"id": 4, "name": "x", "required": False, "type": "int"}]},
    },
]


def term(source: int, transform: str = "identity") -> dict[str, Any]:
    return {"transform": transform, "source-id": source, "direction": "desc", "null-order": "nulls-last"}


def test_terms_of_plain_columns_become_columns() -> None:
    schema = arrow_schema({"fields": FIELDS}, has_row_lineage=False)
    assert sort_columns({"order-id": 0, "fields": []}, schema) == ()
    assert sort_columns({"fields": [term(1)]}, schema) == (column("n", is_descending=True, has_nulls_first=False),)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (term(1, "bucket[4]"), "by bucket"),
        (term(2), "price, of type double"),
        (term(3), "place, of type struct"),
        (term(4), "by one in a struct"),
    ],
)
def test_other_terms_are_refused(wanted: dict[str, Any], reason: str) -> None:
    schema = arrow_schema({"fields": FIELDS}, has_row_lineage=False)
    with pytest.raises(UnsupportedError, match=reason):
        sort_columns({"fields": [term(1), wanted]}, schema)

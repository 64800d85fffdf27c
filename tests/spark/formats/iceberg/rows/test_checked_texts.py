"""Texts and maps that other readers of a table refuse, or read otherwise, are refused before they are stored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StringType

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.spark.append_flow import append
from tests.spark.upsert_flow import Flow, NewFlow

BY_ID: dict[str, Any] = {"keys": ("id",), "order_by": (), "delete_when": None, "exclude_columns": ()}
LATIN = "é".encode("latin-1")


def texts(*values: bytes) -> pa.Array:
    """Return a column of Parquet that is called a text, whatever its bytes are."""
    return pa.StringArray.from_buffers(len(values), *pa.array(values, pa.binary()).buffers()[1:])


def as_map(*pairs: tuple[str, int]) -> pa.Array:
    return pa.array([list(pairs)], pa.map_(pa.string(), pa.int32()))


SOUND = {"v": texts("é\0".encode()), "s": as_map(("é", 1), ("e", 2)), "w": pa.array([["a", None, "b"]])}
FAULTY: dict[str, tuple[dict[str, pa.Array], str]] = {
    "a text": ({"v": texts(LATIN)}, "column v does not hold: bytes that are no UTF-8.*iso-8859-1"),
    "a text in a list": (
        {"w": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), texts(LATIN))},
        "column w does not hold: bytes that are no UTF-8",
    ),
    "a key of a map": (
        {"s": pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), texts(LATIN), pa.array([1], pa.int32()))},
        "column s does not hold: bytes that are no UTF-8",
    ),
    "a map with a key twice": ({"s": as_map(("a", 1), ("a", 2))}, "column s does not hold: a map that has a key twice"),
}


def bring(flow: Flow, name: str, number: int, **columns: pa.Array) -> None:
    flow.inbox.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [number], **SOUND, **columns}), flow.inbox / f"{name}.parquet")


@pytest.mark.parametrize("case", FAULTY)
def test_a_value_that_not_every_reader_reads_alike_is_refused_by_each_load(new_flow: NewFlow, case: str) -> None:
    flow = new_flow()
    source = Files(f"{flow.inbox}/*.parquet")
    bring(flow, "1", 1)
    append(flow, "run 1", source=source)
    head = flow.head()
    columns, said = FAULTY[case]
    bring(flow, "2", 2, **columns)
    with pytest.raises(BadInputError, match=said):
        append(flow, "run 2", source=source)
    for strategy in (UpsertStrategy.POSITIONS, UpsertStrategy.MERGE):
        with pytest.raises(BadInputError, match=said):
            flow.apply("run 2", source=source, strategy=strategy, **BY_ID)
    assert flow.head() == head
    # As a reader of another kind has them.
    assert flow.loaded().scan().to_arrow().to_pylist() == [
        {"id": 1, "v": "é\0", "s": [("é", 1), ("e", 2)], "w": ["a", None, "b"]}
    ]


def test_bytes_are_stored_as_the_text_that_a_query_says_they_are(new_flow: NewFlow) -> None:
    flow = new_flow()
    bring(flow, "1", 1, v=texts(LATIN))
    sql = "SELECT id, decode(CAST(v AS BINARY), 'iso-8859-1') AS v FROM source"
    append(flow, "run 1", source=Query(sql, over=Files(f"{flow.inbox}/*.parquet")))
    assert flow.loaded().scan().to_arrow().to_pylist() == [{"id": 1, "v": "é"}]
    assert isinstance(flow.spark.table(flow.table).schema["v"].dataType, StringType)

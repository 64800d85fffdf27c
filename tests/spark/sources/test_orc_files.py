"""ORC files: columns named by place, files of 0 bytes, and types that Spark would make NULL of; pyarrow writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import UpsertReport
from tests.spark.upsert_flow import Flow, NewFlow


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    """A table, and a folder for ORC files."""
    made = new_flow(delete_when=None, exclude_columns=())
    made.inbox.mkdir(parents=True)
    return made


def write(flow: Flow, name: str, **columns: Any) -> None:
    orc.write_table(pa.table(columns), str(flow.inbox / name))


def apply(flow: Flow, files: str, schema: str | None = None, query: str | None = None) -> UpsertReport:
    read = Files(f"{flow.inbox}/{files}", format="orc", schema=schema)
    return flow.apply(f"run of {files}", source=read if query is None else Query(query, over=read))


def test_orc_puts_no_null_in_the_place_of_a_value_that_does_not_fit(flow: Flow) -> None:
    write(flow, "a.orc", id=[1], n=["x"])
    with pytest.raises(BadInputError, match=r"n is string and declared as bigint.*cast in a Query"):
        apply(flow, "a.orc", "id BIGINT, n BIGINT")
    write(flow, "b.orc", id=[2], n=[2])
    with pytest.raises(BadInputError, match=r"n is string and declared as bigint"):
        apply(flow, "*.orc", "id BIGINT, n BIGINT")
    assert apply(flow, "a.orc", "id BIGINT").batch_rows == 1


def test_orc_files_that_spark_cannot_merge_are_read_as_they_are_declared(flow: Flow) -> None:
    nested = [{"A": 1, "b": "x", "list": [{"c": 1, "d": 2}]}]
    write(flow, "a.orc", id=pa.array([1], pa.int32()), s=nested)
    write(flow, "b.orc", id=[2], s=nested)
    # Hive writes such a file for an empty bucket.
    (flow.inbox / "c.orc").write_bytes(b"")
    with pytest.raises(BadInputError, match=r"s\.list\.element\.d is bigint and declared as string"):
        apply(flow, "*.orc", "id BIGINT, s STRUCT<list: ARRAY<STRUCT<d: STRING>>>")
    types = "id BIGINT, s STRUCT<list: ARRAY<STRUCT<D: BIGINT>>, a: BIGINT>"
    assert apply(flow, "*.orc", types, "SELECT id, s.a AS a, s.list[0].d AS d FROM source").batch_rows == 2
    assert flow.rows() == {1: (1, 2), 2: (1, 2)}


def test_orc_files_of_0_bytes_have_no_rows(flow: Flow) -> None:
    (flow.inbox / "0.orc").write_bytes(b"")
    with pytest.raises(BadInputError, match=r"0 bytes.*give the source a schema"):
        apply(flow, "0.orc")
    write(flow, "1.orc", id=[1], n=["x"])
    assert apply(flow, "*.orc").batch_rows == 1
    (flow.inbox / "2.orc").write_bytes(b"")
    assert apply(flow, "2.orc").batch_rows == 0
    assert flow.rows() == {1: ("x",)}


def test_a_numbered_column_of_orc_beside_named_ones_is_compared_with_the_schema(flow: Flow) -> None:
    # Old Hive names columns by their place. Spark read NULL for the number that is too long for an INT.
    write(flow, "a.orc", _col0=[1], _col1=[2**40])
    write(flow, "b.orc", id=[2], n=pa.array([7], pa.int32()))
    with pytest.raises(BadInputError, match=r"n .*bigint.*int|n .*int.*bigint"):
        apply(flow, "", "id BIGINT, n INT")
    apply(flow, "", "id BIGINT, n BIGINT")
    assert flow.rows() == {1: (2**40,), 2: (7,)}


def test_a_name_of_orc_that_begins_as_those_of_old_hive_is_a_name(flow: Flow) -> None:
    write(flow, "a.orc", id=[1], _collected=["a"])
    apply(flow, "", "id BIGINT, _collected STRING")
    assert flow.rows() == {1: ("a",)}


def test_a_numbered_column_of_orc_that_the_schema_names_is_a_name(flow: Flow) -> None:
    # Trino names what has no name of its own so.
    for place in (1, 2):
        write(flow, f"{place}.orc", id=[place], _col1=[2**40])
    with pytest.raises(BadInputError, match=r"_col1 .*bigint.*int"):
        apply(flow, "", "id BIGINT, _col1 INT")
    as_declared = {
        ("1.orc", "id BIGINT, _col1 BIGINT"): {1: (2**40,)},
        ("*.orc", "id BIGINT, _col1 BIGINT"): {1: (2**40,), 2: (2**40,)},
        ("2.orc", "id BIGINT"): {2: ()},
    }
    for number, ((files, schema), rows) in enumerate(as_declared.items()):
        table = replace(flow, table=f"{flow.table}_{number}")
        apply(table, files, schema)
        assert table.rows() == rows

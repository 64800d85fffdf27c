"""Whatever became of a table's schema, one batch leaves the same table by every strategy, and the one of the model."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.spark.changing_table import ChangingTable, Column, DrawnBatch, with_fields
from tests.spark.upsert_flow import Flow

EXAMPLES = int(os.environ.get("LAKE_EXAMPLES", "2"))
KINDS = st.sampled_from(("INT", "STRING", "STRUCT"))
STEPS = ("add", "add with default", "rename", "drop", "add again", "widen", "first", "add field", "insert", "optional")


def handle(flow: Flow) -> Any:
    jvm: Any = flow.spark._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(flow.spark._jsparkSession, flow.table)


def insert(flow: Flow, table: ChangingTable, ids: list[int], data: st.DataObject) -> None:
    """Insert rows with all columns, by Spark."""
    for id_ in ids:
        table.rows[id_] = {column.uid: data.draw(column.values()) for column in table.columns}
    listed = ", ".join(f"`{column.name}` {column.sql()}" for column in table.columns)
    read = table.read()
    values = [(id_, *(read[id_][column.name] for column in table.columns)) for id_ in ids]
    rows = flow.spark.createDataFrame(values, f"id BIGINT, {listed}")
    rows.writeTo(flow.table).append()


def alter(flow: Flow, change: str) -> None:
    flow.spark.sql(f"ALTER TABLE {flow.table} {change}")


def add_with_default(flow: Flow, column: Column, parent: str | None = None) -> None:
    """Add a column, or a field of one, with an initial and another write default; Spark's SQL cannot."""
    jvm: Any = flow.spark._jvm
    types, literal = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Literal
    kind = {"INT": types.IntegerType, "STRING": types.StringType}[column.kind].get()
    change = handle(flow).updateSchema()
    add = change.addRequiredColumn if column.required else change.addColumn
    add(*([parent] if parent else []), column.name, kind, "", literal.of(column.initial)).commit()
    path = f"{parent}.{column.name}" if parent else column.name
    handle(flow).updateSchema().updateColumnDefault(path, literal.of(column.default)).commit()
    flow.spark.catalog.refreshTable(flow.table)


def defaults(kind: str) -> dict[str, Any]:
    return {"initial": 7, "default": 8} if kind == "INT" else {"initial": "i", "default": "it's"}


def step(flow: Flow, table: ChangingTable, version: int, data: st.DataObject, number: int) -> None:
    """Change the table by one drawn step; one that does not go here changes nothing."""
    kind = data.draw(st.sampled_from(STEPS))
    column = data.draw(st.sampled_from(table.columns))
    if kind.startswith("add"):
        add(flow, table, version, data, number, kind, column)
    elif kind == "rename":
        table.put(column, replace(column, name=f"r{number}"))
        alter(flow, f"RENAME COLUMN {column.name} TO r{number}")
    elif kind == "drop" and len(table.columns) > 1:
        table.columns.remove(column)
        alter(flow, f"DROP COLUMN {column.name}")
    elif kind == "widen" and column.kind == "INT":
        table.put(column, replace(column, kind="BIGINT"))
        alter(flow, f"ALTER COLUMN {column.name} TYPE BIGINT")
    elif kind == "first":
        alter(flow, f"ALTER COLUMN {column.name} FIRST")
    elif kind == "insert":
        insert(flow, table, [10 + number], data)
    elif kind == "optional" and column.required:
        table.put(column, replace(column, required=False))
        alter(flow, f"ALTER COLUMN {column.name} DROP NOT NULL")


def add(
    flow: Flow, table: ChangingTable, version: int, data: st.DataObject, number: int, kind: str, column: Column
) -> None:
    """Add a column, with a default, or in place of one that is dropped; or a field of a struct."""
    if kind == "add field":
        if not column.fields:
            return
        added = table.new(f"f{number}", "INT", **(defaults("INT") if version >= 3 else {}))
        table.put(column, with_fields(column, [*column.fields, added]))
        if version >= 3:
            add_with_default(flow, added, column.name)
        else:
            alter(flow, f"ADD COLUMN {column.name}.{added.name} INT")
        return
    if kind == "add with default" and version >= 3:
        type_ = data.draw(st.sampled_from(("INT", "STRING")))
        added = table.new(f"n{number}", type_, required=data.draw(st.booleans()), **defaults(type_))
        add_with_default(flow, added)
    else:
        is_again = kind == "add again"
        if is_again:
            alter(flow, f"DROP COLUMN {column.name}")
            table.columns.remove(column)
        added = table.new(column.name if is_again else f"n{number}", data.draw(KINDS))
        alter(flow, f"ADD COLUMN {added.name} {added.sql()}")
    table.columns.append(added)


def drawn_batch(table: ChangingTable, data: st.DataObject) -> DrawnBatch:
    """Draw a batch of some columns, their structs with some of their fields, and perhaps more than the table has."""
    chosen = [column for column in table.columns if data.draw(st.integers(0, 3)) or column.required]
    batch: list[Column] = []
    for column in chosen:
        fields = [each for each in column.fields if data.draw(st.integers(0, 3)) or each.required]
        if column.fields:
            if data.draw(st.booleans()):
                more = table.new("more", "INT")
                table.put(column, with_fields(column, [*column.fields, more]))
                fields.append(more)
            if not fields:
                continue
            column = with_fields(column, data.draw(st.permutations(fields)))
        batch.append(column)
    if data.draw(st.booleans()):
        added = table.new("added", data.draw(KINDS))
        table.columns.append(added)
        batch.append(added)
    batch = data.draw(st.permutations(batch))
    loose = [loosened(column, data) for column in batch]
    ids = data.draw(st.lists(st.sampled_from((1, 2, 3, 11, 21, 22)), min_size=1, max_size=4, unique=True))
    rows: dict[int, Any] = {
        id_: {column.uid: data.draw(column.values()) for column in loose} if data.draw(st.integers(0, 4)) else None
        for id_ in ids
    }
    return DrawnBatch(given=batch, rows=rows, keeps=data.draw(st.booleans()))


def loosened(column: Column, data: st.DataObject) -> Column:
    """Return a column whose values may rarely be NULL where the table requires one."""
    inner = tuple(loosened(each, data) for each in column.fields)
    return replace(column, required=column.required and bool(data.draw(st.integers(0, 8))), fields=inner)


def branch_rows(flow: Flow, branch: str, strategy: UpsertStrategy) -> dict[int, dict[str, Any]]:
    """Read by PyIceberg, which knows no equality deletes."""
    if strategy is not UpsertStrategy.EQUALITY:
        table = flow.loaded()
        snapshot = table.metadata.refs[branch].snapshot_id
        found = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    else:
        flow.spark.catalog.refreshTable(flow.table)
        rows = flow.spark.sql(f"SELECT * FROM {flow.table} VERSION AS OF '{branch}'").collect()
        found = [row.asDict(recursive=True) for row in rows]
    return {row.pop("id"): row for row in found}


def strategies(version: int, keeps: bool) -> list[UpsertStrategy]:
    known = [UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE, UpsertStrategy.AUTO]
    if version > 1:
        known += [UpsertStrategy.POSITIONS, *([] if keeps else [UpsertStrategy.EQUALITY])]
    return known


@pytest.mark.parametrize("version", [1, 2, 3])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_one_batch_leaves_the_same_table_by_every_strategy(
    spark: SparkSession, tmp_path: Path, version: int, data: st.DataObject
) -> None:
    flow = Flow(spark, f"changing.t{uuid.uuid4().hex[:10]}", tmp_path)
    table = ChangingTable()
    for number in range(data.draw(st.integers(1, 3))):
        required = data.draw(st.booleans())
        kind = data.draw(KINDS)
        inside = {"required_inside": data.draw(st.booleans())} if kind == "STRUCT" else {}
        table.columns.append(table.new(f"c{number}", kind, required=required, **inside))
    flow.catalog()
    listed = ", ".join(f"{column.name} {column.sql()}" for column in table.columns)
    modes = ", ".join(f"'write.{each}.mode'='merge-on-read'" for each in ("delete", "update", "merge"))
    properties = f"'format-version'='{version}'" + (f", {modes}" if version > 1 else "")
    spark.sql(f"CREATE TABLE {flow.table} (id BIGINT, {listed}) USING iceberg TBLPROPERTIES ({properties})")
    insert(flow, table, [1, 2, 3], data)
    for number in range(data.draw(st.integers(0, 4))):
        step(flow, table, version, data, number)
    batch = drawn_batch(table, data)
    path = tmp_path / f"{uuid.uuid4().hex}.parquet"
    pq.write_table(batch.arrow(), path)
    is_applied = batch.applied_to(table)
    changes: dict[str, Any] = {
        "source": Files(path=str(path), format="parquet"),
        "missing_columns": "keep" if batch.keeps else "null",
    }
    for strategy in strategies(version, batch.keeps):
        branch = f"by_{strategy.value}"
        if not is_applied:
            with pytest.raises(BadInputError, match=r"requires|required"):
                flow.apply(branch, strategy=strategy, branch=branch, **changes)
            continue
        flow.apply(branch, strategy=strategy, branch=branch, **changes)
        assert branch_rows(flow, branch, strategy) == table.read(), strategy

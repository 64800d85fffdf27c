"""Tables whose columns were renamed, swapped or dropped since a commit, read by every source of lake tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from tests.spark.upsert_flow import Flow

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}
NULLS: dict[str, Any] = {"missing_columns": "null"}


def prices(flow: Flow, kind: str, *rows: str) -> str:
    """Make a table of two columns of a type, ``gross`` and ``net``."""
    flow.catalog()
    table = f"{flow.table}_prices"
    flow.spark.sql(
        f"CREATE TABLE {table} (id BIGINT, gross {kind}, net {kind}) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3')"
    )
    flow.spark.sql(f"INSERT INTO {table} VALUES {', '.join(rows)}")
    return table


def swap(flow: Flow, table: str) -> None:
    """Give each of the two columns the name of the other."""
    for old, new in (("gross", "spare"), ("net", "gross"), ("spare", "net")):
        flow.spark.sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")


def test_a_head_is_read_by_the_names_its_columns_have_now_before_the_next_commit(flow: Flow) -> None:
    table = prices(flow, "BIGINT", "(1, 119, 100)")
    swap(flow, table)
    selected = "SELECT id, gross, net FROM source"
    sources = {
        "table": LakeTable(table, name="s"),
        "where": LakeTable(table, where="gross = 100", name="s"),
        "query": Query(selected, over=LakeTable(table)),
        "named": Query(selected.replace("source", "t"), over={"t": LakeTable(table)}),
        "changes": Changes(table, keys=["id"], protect_source=False, name="s"),
        "changes_where": Changes(table, keys=["id"], where="gross = 100", protect_source=False, name="s"),
    }
    for name, source in sources.items():
        stored = replace(flow, table=f"{flow.table}_{name}")
        stored.apply(source=source, **PLAIN)
        assert stored.records() == [{"id": 1, "gross": 100, "net": 119}], name
    flow.spark.sql(f"ALTER TABLE {table} DROP COLUMN net")
    stored = replace(flow, table=f"{flow.table}_dropped")
    stored.apply(source=LakeTable(table, name="s"), **PLAIN)
    assert stored.records() == [{"id": 1, "gross": 100}]


FILTERING = """
def at_119(spark, inputs, params):
    return inputs["prices"].filter("gross = 119")
"""


@pytest.mark.parametrize(
    ("kinds", "values", "where"),
    [
        (("BIGINT", "BIGINT"), "(1, 119, 100), (2, 119, 100)", "gross = 119"),
        (("STRING", "STRING"), "(1, 'a', 'z'), (2, 'a', 'z')", "gross = 'a'"),
        (("FLOAT", "DECIMAL(9,2)"), "(1, float('NaN'), 1), (2, 7.0, 1)", "gross > 5"),
        (("INT", "STRING"), "(1, 119, 'a'), (2, 119, 'b')", "gross = 119"),
    ],
)
def test_a_filter_on_a_name_of_another_column_now_finds_all_rows_of_then(
    flow: Flow, kinds: tuple[str, str], values: str, where: str
) -> None:
    flow.catalog()
    table = f"{flow.table}_prices"
    flow.spark.sql(f"CREATE TABLE {table} (id BIGINT, gross {kinds[0]}, net {kinds[1]}) USING iceberg")
    flow.spark.sql(f"INSERT INTO {table} VALUES {values}")
    then = replace(flow, table=table).head()
    swap(flow, table)
    source = LakeTable(table, as_of=then)
    flow.apply("run 1", source=replace(source, where=where, columns=["id"], name="s"), **PLAIN)
    assert flow.rows() == {1: (), 2: ()}
    below: tuple[Any, ...] = (source, {"prices": source})
    for number, over in enumerate(below):
        stored = replace(flow, table=f"{flow.table}_{number}")
        query = f"SELECT id FROM {'prices' if number else 'source'} WHERE {where}"
        stored.apply("run 1", source=Query(query, over=over, name="q"), **PLAIN)
        assert stored.rows() == {1: (), 2: ()}
    if where == "gross = 119":
        stored = replace(flow, table=f"{flow.table}_function")
        filtered = PySparkFunction("own:at_119", function_code=FILTERING, over={"prices": source}, name="f")
        stored.apply("run 1", source=filtered, **PLAIN)
        assert sorted(stored.rows()) == [1, 2]


def test_changes_whose_columns_were_renamed_since_the_last_commit_come_by_their_names_of_now(flow: Flow) -> None:
    table = prices(flow, "BIGINT", "(1, 119, 100)")
    source = Changes(table, keys=["id"], protect_source=False, name="s")
    flow.apply("run 1", source=source, **PLAIN)
    flow.spark.sql(f"INSERT INTO {table} VALUES (2, 238, 200)")
    flow.spark.sql(f"ALTER TABLE {table} ADD COLUMN note STRING")
    flow.apply("run 2", source=source, **PLAIN)
    flow.spark.sql(f"INSERT INTO {table} VALUES (3, 357, 300, 'c')")
    swap(flow, table)
    with pytest.raises(UnsupportedError, match=r"\['gross', 'net'\] were renamed or dropped since the last commit"):
        flow.apply("run 3", source=replace(source, where="gross > 0"), **PLAIN)
    flow.spark.sql(f"ALTER TABLE {table} DROP COLUMN note")
    flow.apply("run 3", source=source, **PLAIN, **NULLS)
    expected = {1: (119, 100, None), 2: (238, 200, None), 3: (300, 357, None)}
    assert flow.rows() == expected
    flow.spark.sql(f"INSERT INTO {table} (id, gross, net) VALUES (4, 400, 476)")
    flow.spark.sql(f"ALTER TABLE {table} RENAME COLUMN net TO other")
    chosen = replace(source, keys=["ID"], columns=["ID", "GROSS"])
    flow.apply("run 4", source=chosen, **PLAIN, **NULLS)
    assert flow.rows() == {**expected, 4: (400, None, None)}


def test_changes_have_the_columns_that_were_added_since_the_last_commit_with_their_defaults(flow: Flow) -> None:
    table = prices(flow, "BIGINT", "(1, 119, 100)")
    changes = Changes(table, keys=["id"], protect_source=False, on_source_change="continue")
    flow.apply("run 1", source=replace(changes, name="s"), **PLAIN)
    for change in (
        f"INSERT INTO {table} VALUES (2, 238, 200)",
        f"DELETE FROM {table} WHERE id = 1",
        f"ALTER TABLE {table} RENAME COLUMN net TO after_tax",
        f"ALTER TABLE {table} ADD COLUMN note STRING FIRST",
    ):
        flow.spark.sql(change)
    iceberg: Any = flow.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    java = IcebergTable(flow.spark, "lake_default", TableName.parse(table)).refresh().java
    text, default = iceberg.types.Types.StringType.get(), iceberg.expressions.Literal.of("it's new")
    java.updateSchema().addColumn("state", text, "", default).commit()
    flow.spark.catalog.refreshTable(table)
    columns = ["note", "id", "gross", "after_tax", "state"]
    asked = f"SELECT {', '.join(columns)}, _change_type FROM source WHERE note IS NULL AND state = 'it\\'s new'"
    sources = {"plain": changes, "chosen": replace(changes, columns=columns), "query": Query(asked, over=changes)}
    for name, source in sources.items():
        stored = flow.copy(f"{flow.table}_{name}")
        stored.apply("run 2", source=replace(source, name="s", on_source_change="continue"), **PLAIN, **NULLS)
        rows = [tuple(row[column] for column in columns) for row in stored.records()]
        assert rows == [tuple(row) for row in flow.spark.table(table).collect()] == [(None, 2, 238, 200, "it's new")]
    with pytest.raises(UnsupportedError, match=r"\['state'\] were added since the last commit"):
        flow.apply("run 2", source=replace(changes, name="s", keys=["state"]), **PLAIN)


def test_changes_whose_fields_were_renamed_since_the_last_commit_wait_for_the_next_one(flow: Flow) -> None:
    table = prices(flow, "STRUCT<a: INT>", "(1, named_struct('a', 1), named_struct('a', 1))")
    source = Changes(table, keys=["id"], protect_source=False, name="s")
    flow.apply("run 1", source=source, **PLAIN)
    flow.spark.sql(f"INSERT INTO {table} VALUES (2, named_struct('a', 2), named_struct('a', 2))")
    flow.spark.sql(f"ALTER TABLE {table} RENAME COLUMN gross.a TO b")
    with pytest.raises(UnsupportedError, match=r"fields \['gross\.a'\] were renamed or dropped since"):
        flow.apply("run 2", source=source, **PLAIN)

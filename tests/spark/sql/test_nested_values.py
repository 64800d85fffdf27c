"""Fields of a struct are those of the column, whatever a view or a table is called that has the column."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.spark_jobs.batch.row_content import content_digest
from tests.spark.upsert_flow import Flow


def test_fields_are_fitted_of_a_struct_that_is_named_as_the_view_of_a_query(flow: Flow) -> None:
    flow.catalog()
    inside = "source STRUCT<id: BIGINT, name: STRING>"
    flow.spark.sql(f"CREATE TABLE {flow.table} (id BIGINT, name STRING, {inside}) USING iceberg")
    files = Files(f"{flow.inbox}/*.jsonl", "json", "id BIGINT, name STRING, source STRUCT<name: STRING, id: INT>")
    record = {"id": 1, "name": "outer", "source": {"name": "inner", "id": 7}}
    flow.arrive("1.jsonl", record)
    flow.apply(source=Query("SELECT * FROM source", files), delete_when=None, exclude_columns=())
    assert flow.records() == [record]


def test_rows_differ_in_a_struct_that_is_named_as_their_table(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM VALUES (1, named_struct('x', 1)), (1, named_struct('x', 2)) AS s(x, s)")
    digest = content_digest([("`s`", rows.schema["s"].dataType)])
    assert rows.select(digest).distinct().count() == 2

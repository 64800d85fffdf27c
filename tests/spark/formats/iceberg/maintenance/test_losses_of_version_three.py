"""Rows and values that tables of version 3 have lost elsewhere: by deletion vectors, and by variants."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.maintained_table import CATALOG, RUN
from tests.spark.upsert_flow import Flow, row


def test_a_deletion_vector_has_the_partition_of_its_data_file_through_a_change_of_the_spec(flow: Flow) -> None:
    """apache/iceberg#16957: a deletion vector of another partition than its data file's makes scans fail."""
    flow.arrive("1.jsonl", *(row(number, f"n{number % 3}") for number in range(30)), row(30, "n3"))
    flow.apply("first", create=TableLayout(partition_by=("name",), properties={"format-version": "3"}))
    flow.spark.sql(f"ALTER TABLE {flow.table} REPLACE PARTITION FIELD name WITH bucket(4, id)")
    for number in range(2, 5):
        flow.arrive(f"{number}.jsonl", row(number, "n0", n=number), row(number * 7, "moved"), row(30, "n3", n=number))
        flow.apply(f"run {number}", strategy=UpsertStrategy.POSITIONS)
        assert vectors_beside_their_files(flow) > 0
    before = flow.rows()
    for level in (CompactionLevel.MINOR, CompactionLevel.MAJOR):
        spec = CompactionSpec(catalog=CATALOG, table=flow.table, run=RUN, level=level, min_input_files=2)
        compact_table(flow.spark, spec, Progress())
        vectors_beside_their_files(flow)
        assert flow.rows() == flow.rows_of_spark() == before


def vectors_beside_their_files(flow: Flow) -> int:
    """Compare spec and partition of each vector with those of its data file; return how many there are."""
    flow.spark.sql(f"REFRESH TABLE {flow.table}")

    def placed(path: str, files: str) -> dict[str, tuple[int, str]]:
        query = f"SELECT {path}, spec_id, CAST(partition AS STRING) FROM {flow.table}.{files}"
        return {file: (spec, partition) for file, spec, partition in flow.spark.sql(query).collect()}

    vectors = placed("referenced_data_file", "delete_files")
    assert vectors.items() <= placed("file_path", "data_files").items()
    return len(vectors)


VARIANTS = ['{"a":1}', '{"a":"x","b":[1,2.5,null]}', "7", "null", '{"a":{"c":true}}', '"t"', "[]"]


def test_values_of_variants_survive_compactions(spark: SparkSession) -> None:
    """apache/iceberg#15087: variants that were shredded lost values."""
    if spark.version < "4.1":
        pytest.skip("Spark 4.1 writes variants to Iceberg")
    name = "maintained.variants"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake_default.maintained")
    shredded = "'format-version'='3', 'write.parquet.shred-variants'='true'"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, v VARIANT) USING iceberg TBLPROPERTIES ({shredded})")
    for number, value in enumerate(VARIANTS):
        spark.sql(f"INSERT INTO {name} VALUES ({number}, parse_json('{value}')), ({-1 - number}, NULL)")
    for arguments in ({"level": "minor"}, {"level": "full", "strategy": "sort", "sort_by": ("id DESC",)}):
        spec = CompactionSpec(catalog=CATALOG, table=name, run=RUN, **arguments)
        assert compact_table(spark, spec, Progress()).outcome is Outcome.DONE
        spark.sql(f"REFRESH TABLE {name}")
        found = {
            id_: text and json.loads(text) for id_, text in spark.sql(f"SELECT id, to_json(v) FROM {name}").collect()
        }
        given = {number: json.loads(value) for number, value in enumerate(VARIANTS)}
        assert found == {**given, **{-1 - number: None for number in given}}

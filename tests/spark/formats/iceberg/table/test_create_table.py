"""A missing table is made in one commit of the catalog, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.capabilities import ICEBERG
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    CommitConflictError,
    InvalidSpecError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.table import create_table
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.table_definition import define_table
from tests.spark.upsert_flow import SCHEMA, Flow, row


def names(flow: Flow) -> tuple[list[str], list[str], list[str]]:
    """Identifier fields, partition fields and sort fields, as PyIceberg reads them."""
    table = flow.loaded()
    schema = table.schema()
    return (
        [str(schema.find_column_name(number)) for number in schema.identifier_field_ids],
        [field.name for field in table.spec().fields],
        [str(schema.find_column_name(field.source_id)) for field in table.sort_order().fields],
    )


def test_a_layout_that_the_columns_refuse_makes_no_table_and_its_correction_makes_it_whole(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    wrong = [
        TableLayout(sort_by=("gone",)),
        TableLayout(partition_by=("gone",)),
        TableLayout(partition_by=("days(name)",)),
        TableLayout(partition_by=("bucket(4, id)", "bucket(8, id)")),
        TableLayout(bloom_filter_columns=("gone",)),
        TableLayout(properties={"format-version": "9"}),
    ]
    for layout in wrong:
        with pytest.raises(InvalidSpecError):
            flow.apply("run 1", create=layout)
        with pytest.raises(NoSuchTableError):
            flow.loaded()
    layout = TableLayout(
        partition_by=("bucket(4, ID)", "truncate(3, name)"), sort_by=("N DESC NULLS FIRST", "truncate(2, name)")
    )
    assert flow.apply("run 1", create=layout).outcome is Outcome.APPLIED
    assert names(flow) == (["id"], ["id_bucket", "name_trunc"], ["n", "name"])
    properties = flow.loaded().properties
    assert properties["write.distribution-mode"] == "range"
    # The creation, and the commit of the batch.
    assert len(flow.loaded().metadata.metadata_log) == 1


COLUMNS = (
    "id BIGINT, name STRING, at TIMESTAMP, day DATE, share DOUBLE, ok BOOLEAN, cut DECIMAL(5,2), place STRUCT<x: INT>"
)
UNFIT = (
    *((f"{transform}(name)", "DATE or a TIMESTAMP") for transform in ("years", "months", "days")),
    ("hours(name)", "a TIMESTAMP"),
    ("hours(day)", "a TIMESTAMP"),
    ("days(id)", "DATE or a TIMESTAMP"),
    ("bucket(4, share)", "STRING or BINARY"),
    ("bucket(4, ok)", "STRING or BINARY"),
    ("truncate(4, at)", "STRING or BINARY"),
    ("days(place.x)", "DATE or a TIMESTAMP"),
    ("bucket(4, place)", "STRING or BINARY"),
)


@pytest.mark.parametrize(("term", "takes"), UNFIT, ids=[term for term, _ in UNFIT])
@pytest.mark.parametrize("role", ["partition_by", "sort_by"])
def test_a_transform_that_a_columns_type_does_not_take_is_refused_with_what_makes_it_fit(
    flow: Flow, role: str, term: str, takes: str
) -> None:
    columns = flow.spark.createDataFrame([], COLUMNS).schema
    table = IcebergTable(flow.spark, "lake_default", TableName.parse(flow.table))
    layout: dict[str, Any] = {role: (term,)}
    with pytest.raises(InvalidSpecError) as refused:
        define_table(table, columns, ("id",), TableLayout(**layout))
    for said in (role, takes, "cast the column in a Query"):
        assert said in str(refused.value)


@pytest.mark.parametrize(
    "term", ["days(day)", "hours(at)", "bucket(4, cut)", "truncate(2, cut)", "bucket(4, day)", "truncate(4, place.x)"]
)
def test_a_transform_that_a_columns_type_takes_is_not_refused(flow: Flow, term: str) -> None:
    columns = flow.spark.createDataFrame([], COLUMNS).schema
    table = IcebergTable(flow.spark, "lake_default", TableName.parse(flow.table))
    define_table(table, columns, ("id",), TableLayout(partition_by=(term,), sort_by=(term,)))


def test_a_table_is_asked_for_with_the_field_ids_that_it_will_have(flow: Flow) -> None:
    described = "place STRUCT<x: INT, y: INT>, id BIGINT, tags ARRAY<STRING>, name STRING"
    columns = flow.spark.createDataFrame([], described).schema
    table = IcebergTable(flow.spark, "lake_default", TableName.parse(flow.table))
    asked = define_table(table, columns, ("id", "name"), TableLayout()).schema
    create_table.create_table(table, columns, ("id", "name"), TableLayout(), UpsertStrategy.AUTO)
    made = flow.loaded().schema()
    names = ("place", "place.x", "place.y", "id", "tags", "tags.element", "name")
    assert {name: asked.findField(name).fieldId() for name in names} == {
        name: made.find_field(name).field_id for name in names
    }
    # A catalog that assigns ids without looking at these, as Nessie does, still finds them.
    assert set(asked.identifierFieldIds()) == set(made.identifier_field_ids)


def test_a_layout_that_the_asked_strategy_cannot_change_makes_no_table(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    copied = TableLayout(properties={"write.merge.mode": "copy-on-write"})
    old = TableLayout(properties={"format-version": "1"})
    wrong = [
        (UpsertStrategy.EQUALITY, TableLayout(partition_by=("name",)), "partitioned by name"),
        (UpsertStrategy.EQUALITY, copied, "asks for copy-on-write"),
        (UpsertStrategy.POSITIONS, copied, "asks for copy-on-write"),
        (UpsertStrategy.POSITIONS, old, "format version 1 has no deletes"),
    ]
    for strategy, layout, reason in wrong:
        with pytest.raises(UnsupportedError, match=f"{reason}.*No table was made"):
            flow.apply("run 1", create=layout, strategy=strategy)
        assert not flow.catalog().table_exists(flow.table)
    corrected = TableLayout(partition_by=("bucket(2, id)",))
    flow.apply("run 1", create=corrected, strategy=UpsertStrategy.EQUALITY)
    assert names(flow)[1] == ["id_bucket"]


@pytest.mark.parametrize("has_rows", [False, True])
def test_half_a_table_of_an_older_try_gets_the_layout_that_was_corrected(flow: Flow, has_rows: bool) -> None:
    flow.make_table(
        "id BIGINT NOT NULL, name STRING, n INT",
        "PARTITIONED BY (name) TBLPROPERTIES ('lake.creation-unfinished' = 'true', 'format-version' = '3')",
    )
    if has_rows:
        flow.spark.sql(f"INSERT INTO {flow.table} VALUES (7, 'theirs', 7)")
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1", create=TableLayout(partition_by=("bucket(4, id)",), sort_by=("n",)))
    assert names(flow) == (["id"], ["name"], []) if has_rows else (["id"], ["id_bucket"], ["n"])
    assert flow.rows() == {1: ("a", 0), **({7: ("theirs", 7)} if has_rows else {})}
    assert "lake.creation-unfinished" not in flow.loaded().properties


def test_a_table_that_another_job_makes_first_is_looked_at_again(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog: Catalog = flow.catalog()
    create = create_table._create_namespace

    def late(table: Any) -> None:
        create(table)
        if not catalog.table_exists(flow.table):
            schema = Schema(NestedField(1, "id", LongType(), required=True), identifier_field_ids=[1])
            catalog.create_table(flow.table, schema)

    flow.arrive("1.jsonl", row(1, "a"))
    monkeypatch.setattr(create_table, "_create_namespace", late)
    with pytest.raises(CommitConflictError):
        flow.apply("run 1", max_attempts=1)
    assert flow.apply("run 1").schema_changes == ("added column name string", "added column n int")
    assert flow.rows() == {1: ("a", 0)}


@pytest.mark.parametrize("exists", [False, True])
def test_a_column_under_a_name_that_iceberg_reserves_never_reaches_a_table(flow: Flow, exists: bool) -> None:
    if exists:
        flow.arrive("1.jsonl", row(1, "a"))
        flow.apply("run 1")
    for place, name in enumerate(sorted(ICEBERG.reserved_columns)):
        spelled = name.upper() if place % 2 else name
        flow.arrive("1.jsonl", {**row(1, "b"), spelled: 1})
        source = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=f"{SCHEMA}, {spelled} INT")
        with pytest.raises(BadInputError, match=rf"\['{spelled}'\].*exclude_columns"):
            flow.apply(f"run {place + 2}", source=source)
    if exists:
        assert flow.loaded().schema().column_names == ["id", "name", "n"]
    else:
        assert not flow.catalog().table_exists(flow.table)
    assert flow.apply("run 99", source=source, exclude_columns=("op", name)).outcome is Outcome.APPLIED


def test_two_jobs_that_make_one_namespace_both_go_on(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = type(flow.spark).sql

    def late(session: SparkSession, text: str, *arguments: Any, **named: Any) -> Any:
        if "CREATE NAMESPACE" in text:
            execute(session.newSession(), text)
            text = text.replace("IF NOT EXISTS ", "")
        return execute(session, text, *arguments, **named)

    flow.table = f"{flow.table.replace('.', '_')}.t"
    flow.arrive("1.jsonl", row(1, "a"))
    monkeypatch.setattr(type(flow.spark), "sql", late)
    flow.apply("run 1")
    assert flow.rows() == {1: ("a", 0)}

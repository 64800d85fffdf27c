"""Queries and expressions of an author: one of each, and no shell command, or nothing of the job is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.spark_jobs.actions.incremental_run import run_incremental
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sql.query import check_expression_text, check_query
from tests.spark.maintained_table import CATALOG, MaintainedTable
from tests.spark.row_change_flow import rows_outside, update
from tests.spark.spark_syntax import skip_without_pipes
from tests.spark.sql.query_attacks import SHELL, STATEMENTS, TAKEN
from tests.spark.sql.spark_traces import SparkTraces
from tests.spark.upsert_flow import SCHEMA, Flow, row


@pytest.fixture
def traces(spark: SparkSession, tmp_path: Path) -> SparkTraces:
    return SparkTraces(spark, tmp_path / "canary")


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> MaintainedTable:
    made = MaintainedTable(spark)
    made.append(0, 3)
    return made


def _filled(text: str, traces: SparkTraces, table: MaintainedTable) -> str:
    return text.replace("{canary}", str(traces.canary)).replace("{table}", table.name)


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_is_not_one_query_is_refused_and_not_run(
    spark: SparkSession, table: MaintainedTable, traces: SparkTraces, name: str
) -> None:
    query = _filled(STATEMENTS[name], traces, table)
    for allow_sql in (False, True):
        with traces.none_left(), pytest.raises(InvalidSpecError, match=r"Query\.sql is no query"):
            check_query(spark, query, "Query.sql", allow_sql=allow_sql)


@pytest.mark.parametrize("name", SHELL)
def test_a_query_that_runs_a_shell_command_is_refused_unless_it_is_allowed(
    spark: SparkSession, table: MaintainedTable, traces: SparkTraces, name: str
) -> None:
    query = _filled(SHELL[name], traces, table)
    skip_without_pipes(spark, query)
    with traces.none_left():
        with pytest.raises(InvalidSpecError, match=r"shell command; set allow_sql=True"):
            check_query(spark, query, "Query.sql")
        with pytest.raises(InvalidSpecError, match="shell command; set allow_sql=True"):
            check_expression_text(spark, f"id IN ({query})", "delete_when")
        check_query(spark, query, "Query.sql", allow_sql=True)


@pytest.mark.parametrize("query", TAKEN)
def test_a_query_is_taken_whatever_words_it_has(spark: SparkSession, query: str) -> None:
    skip_without_pipes(spark, query)
    check_query(spark, query, "Query.sql")


def test_a_variable_of_the_session_is_refused_with_what_to_write(spark: SparkSession, traces: SparkTraces) -> None:
    for query in ("SELECT '${env:PATH}'", "FROM ${env:PATH} MAP", "SELECT 1 /* ${x} */"):
        with pytest.raises(InvalidSpecError, match="or set allow_sql=True") as refused:
            check_query(spark, query, "Query.sql")
        assert not [value for value in traces.values() if value in str(refused.value)]
    check_query(spark, "SELECT '\\u0024{env:PATH}'", "Query.sql")


def _incremental(spark: SparkSession, table: MaintainedTable, query: str) -> None:
    spec = IncrementalSpec(
        catalog=CATALOG,
        table="queries.target",
        run=RunIdentity.of("dag", "run", "task", "-1"),
        source=table.name,
        consumer="mart",
        keys=("id",),
        to_snapshot=str(table.handle.head()),
        query=query,
    )
    run_incremental(spark, spec, Progress())


def test_nothing_of_a_job_is_run_where_one_of_its_texts_is_refused(
    spark: SparkSession, table: MaintainedTable, traces: SparkTraces, tmp_path: Path
) -> None:
    flow = Flow(spark, "queries.batches", tmp_path / "inbox")
    flow.arrive("1.jsonl", row(1, "a"))
    files: dict[str, Any] = {"path": f"{flow.inbox}/*.jsonl", "format": "json", "schema": SCHEMA}
    for text in (STATEMENTS["a table dropped behind a comment"], STATEMENTS["rows inserted behind WITH"], SHELL["MAP"]):
        query = _filled(text, traces, table)
        with traces.none_left():
            with pytest.raises(InvalidSpecError, match=r"the query of the source|Query\.sql"):
                flow.apply(source=Query(query, over=Files(**files)))
            with pytest.raises(InvalidSpecError, match=r"queries\.target: query"):
                _incremental(spark, table, query)
            with pytest.raises(InvalidSpecError, match="audit 'a'"):
                flow.apply(audits=Audits(queries={"a": f"/* batch */ {query}"}))
    for text in (f"op = 'd' OR id IN ({SHELL['MAP']})", "op = 'd'; DROP TABLE {table}", "op = 'd') OR (true"):
        expression = _filled(text, traces, table)
        with traces.none_left():
            with pytest.raises(InvalidSpecError, match="delete_when"):
                flow.apply(delete_when=expression)
            with pytest.raises(InvalidSpecError, match=r"assignments\['amount'\]"):
                update(table, "texts", assignments={"amount": expression}, where="id = 1")
    assert rows_outside(table) == table.rows


def test_with_allow_sql_a_query_may_run_a_shell_command(spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow(spark, "queries.shell", tmp_path / "inbox")
    flow.arrive("1.jsonl", row(1, "a"))
    query = "FROM source MAP id, name, n, op USING 'cat' AS (id BIGINT, name STRING, n INT, op STRING)"
    source = Query(query, over=Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=SCHEMA))
    flow.apply(source=source, allow_sql=True)
    assert flow.rows() == {1: ("a", 0)}


def test_a_default_in_a_schema_is_never_evaluated(spark: SparkSession, traces: SparkTraces) -> None:
    default = "reflect('java.lang.System', 'setProperty', 'lake.canary', 'x')"
    for schema in (f"id BIGINT, name STRING DEFAULT {default}", "id BIGINT GENERATED ALWAYS AS (1)"):
        with traces.none_left(), pytest.raises(BadInputError, match="not a list of columns"):
            parse_ddl(schema)
    assert parse_ddl("id BIGINT COMMENT 'x', name STRING").names == ["id", "name"]

"""Operators build the specs that they should, and answer from the metadata of real tables without Spark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowFailException
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Debezium, Files, Source
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import (
    InvalidSpecError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.specs.load import keep_consumed_for
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.operators.overwrite_partitions import LakeOverwritePartitionsOperator
from tests.unit.operators.row_operators import delete, upsert
from tests.unit.operators.run_of_tests import NO_SPARK, RUN
from tests.unit.operators.submitted import report_without_spark

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("lake_connection")


def test_an_upsert_needs_a_table_a_source_and_keys(context: Context) -> None:
    assert upsert().build_spec(context) == UpsertSpec(
        catalog="lake_default",
        table="shop.orders",
        run=RUN,
        source=Files(path="in/*.parquet", format="parquet", name="dag.task"),
        keys=("id",),
    )


def test_an_upsert_of_events_takes_whole_rows_and_a_batch_its_own_identity(context: Context) -> None:
    source = Debezium(path="in/*.jsonl.gz", table="public.orders", name="dag.task")
    job = upsert(
        source=Debezium("in/*.jsonl.gz", table="public.orders"),
        create={"partition_by": ["days(at)"]},
        batch_id="2026-01-01",
        branch="",
    )
    assert job.build_spec(context) == UpsertSpec(
        catalog="lake_default",
        table="shop.orders",
        run=RunIdentity.of("batch", "2026-01-01", "dag.task", try_number=2),
        source=source,
        keys=("id",),
        create=TableLayout(partition_by=("days(at)",)),
        batch_id="2026-01-01",
    )
    assert job.build_spec(context).missing_columns is MissingColumns.NULL


def test_tasks_that_give_one_batch_id_to_different_inputs_are_not_one_batch(context: Context) -> None:
    eu, again, us = (
        upsert(source=Files(f"{at}/*.csv", name=at), batch_id="2026-01-01").build_spec(context)
        for at in ("eu", "eu", "us")
    )
    assert eu.run.who == again.run.who != us.run.who


def test_a_source_keeps_its_name_when_its_path_schema_options_or_query_change(context: Context) -> None:
    sources: list[str | Source] = [
        "in/*.parquet",
        "file:///in/2026-01-02/*.parquet",
        Files("in/*.parquet", schema="id BIGINT,n INT"),
        Files("in/*.parquet", options={"mergeSchema": "true"}),
        Query("SELECT 1", over="in/*.parquet"),
    ]
    assert {upsert(source=source).build_spec(context).source_name for source in sources} == {"dag.task"}
    assert upsert(source=Files("in/*.parquet", name="orders")).build_spec(context).source_name == "orders"


def test_a_mapped_task_that_shares_the_name_of_its_source_with_its_siblings_is_refused(context: Context) -> None:
    context["ti"].map_index = 3
    # Its place in the list would be the name of another source as soon as the list has another one before it.
    with pytest.raises(InvalidSpecError, match=r"mapped.*by what it reads, for example Files\(..., name='orders_eu'\)"):
        upsert().build_spec(context)
    assert upsert(source=Files("in/*.csv", name="orders_eu")).build_spec(context).source_name == "orders_eu"
    # Which keeps no position under the name.
    days = LakeOverwritePartitionsOperator(task_id="t", table="shop.days", source="in/*.csv", **NO_SPARK)
    assert days.build_spec(context).source_name == "dag.task"


def test_a_source_remembers_its_files_for_as_long_as_asked_and_replays_no_sums(context: Context) -> None:
    files = {"type": "files", "path": "in/*.parquet"}
    spec = upsert(source={**files, "max_file_age": "P30DT1H", "on_source_change": "replay"}).build_spec(context)
    assert keep_consumed_for(spec.source) == timedelta(days=31)
    assert keep_consumed_for(upsert().build_spec(context).source) == timedelta(days=365)
    sums: dict[str, Any] = {"merge_engine": Aggregation({"n": "sum"})}
    assert upsert(**sums).build_spec(context).counts_rows
    for wrong, said in (
        ({**sums, "source": {**files, "on_source_change": "replay"}}, "would count all files again"),
        ({"source": {**files, "on_source_change": "again"}}, "'continue', 'replay', 'fail'"),
        ({"source": {**files, "max_file_age": "P500Y"}}, "max_file_age"),
        ({"source": {**files, "max_file_age": "30"}}, "max_file_age"),
    ):
        with pytest.raises(InvalidSpecError, match=said):
            upsert(**wrong).build_spec(context)


def test_what_may_be_done_about_a_changed_source_does_not_make_another_run_of_it(context: Context) -> None:
    changes: list[dict[str, Any]] = [{}, {"on_source_change": "fail"}, {"max_file_age": "P1D"}]

    def digest(**change: Any) -> str:
        return upsert(source=Files("in/*.parquet", **change)).build_spec(context).digest_text()

    assert len({digest(**change) for change in changes}) == 1
    assert digest(schema="id INT") != digest()


def test_a_deletion_renders_its_rows_where_airflow_does_not_keep_them(context: Context) -> None:
    job = delete(where="id = {{ run_id_of }}", retries=2)
    context["run_id_of"] = 4711  # type: ignore[typeddict-unknown-key]  # stands for a parameter of the run
    spec = job.build_spec(context)
    assert isinstance(spec, DeleteRowsSpec)
    assert (spec.where, spec.keys_from, spec.allow_sql, spec.proof) == ("id = 4711", None, False, True)
    assert job.where == "id = {{ run_id_of }}"
    assert "where" not in job.template_fields
    context["ti"].try_number, context["ti"].max_tries = 4, 5
    assert job.build_spec(context).run.who != spec.run.who


def test_a_deletion_takes_keys_from_files_or_a_table(context: Context) -> None:
    common: dict[str, Any] = {"keys": ["id"], "where": None}
    files = delete(**common, keys_from=Files("in/forget.csv", options={"header": True}))
    table = delete(**common, keys_from=LakeTable("legal.forget"))
    assert files.build_spec(context).keys_from == Files(path="in/forget.csv", format="csv", options={"header": "true"})
    assert table.build_spec(context).keys_from == LakeTable("legal.forget")
    with pytest.raises(InvalidSpecError, match="list of column names"):
        delete(where=None, keys="id", keys_from="in/forget.csv").build_spec(context)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.csv", "csv"),
        ("s3://b.c/d/*.json.gz", "json"),
        ("x/*.avro", "avro"),
        ("a.ndjson", "json"),
        ("a.parquet.crypt", "parquet"),
    ],
)
def test_the_paths_ending_tells_the_format(context: Context, path: str, expected: str) -> None:
    read, said = (upsert(source=given).build_spec(context).source for given in (path, Files(path, format="orc")))
    assert [found.files and found.files.format for found in (read, said)] == [expected, "orc"]


@pytest.mark.parametrize("source", ["s3://bucket/folder", "in/*.xlsx"])
def test_a_path_that_tells_no_format_asks_for_one(context: Context, source: str) -> None:
    with pytest.raises(InvalidSpecError, match=r"give Files\(\.\.\., format=\)"):
        upsert(source=source).build_spec(context)


def test_a_table_is_a_source_too(context: Context) -> None:
    job = upsert(source=Query("SELECT DISTINCT * FROM source", over=LakeTable("shop.raw")))
    expected = Query("SELECT DISTINCT * FROM source", over=LakeTable("shop.raw"), name="dag.task")
    assert job.build_spec(context).source == expected


def test_audits_are_rendered_and_say_whether_they_are_local(context: Context) -> None:
    job = upsert(audits=Audits({"dated": "SELECT * FROM batch WHERE day <> '{{ ds }}'"}, local=True))
    job.render_template_fields({**context, "ds": "2026-01-01"})
    assert job.build_spec(context).audits == Audits(
        queries={"dated": "SELECT * FROM batch WHERE day <> '2026-01-01'"}, local=True
    )
    assert upsert(audits={}).build_spec(context).audits is None
    with pytest.raises(InvalidSpecError, match=r"audits must map a name to each query, or be Audits, got \['SELECT"):
        upsert(audits=["SELECT * FROM batch"]).build_spec(context)


def test_what_cannot_be_fails_the_task_for_good(context: Context) -> None:
    with pytest.raises(InvalidSpecError, match="on_repeat") as failed:
        upsert(on_repeat="never", **NO_SPARK).execute(context)
    assert isinstance(failed.value, AirflowFailException)


@pytest.mark.parametrize(
    ("argument", "asked"),
    [
        ("partition_by", r"columns or transforms of them, such as \['days\(at\)'\]"),
        ("sort_by", r"columns with their order"),
    ],
)
def test_a_layout_of_a_wrong_type_is_asked_for_as_what_it_is(argument: str, asked: str) -> None:
    with pytest.raises(InvalidSpecError, match=rf"create: TableLayout\.{argument} must be a list of {asked}.*got 'id'"):
        upsert(create={argument: "id"})


def test_a_format_that_no_reader_has_is_refused_when_the_dag_is_parsed() -> None:
    book: dict[str, Any] = {"type": "files", "path": "{{ path }}", "format": "xlsx"}
    expected = r"{}: Files\.format must be one of parquet, orc, json, csv, avro, xml, got 'xlsx'".format
    with pytest.raises(InvalidSpecError, match=expected("source")):
        upsert(source=book)
    with pytest.raises(InvalidSpecError, match=expected("keys_from")):
        delete(where=None, keys_from=book, keys=["id"])


def test_keys_of_no_known_format_ask_for_one_when_the_dag_is_parsed() -> None:
    with pytest.raises(InvalidSpecError, match=r"'s3://in/forget' does not tell a format; give Files"):
        delete(where=None, keys_from="s3://in/forget", keys=["id"])


def test_an_upsert_is_not_answered_without_spark(context: Context) -> None:
    assert report_without_spark(upsert(), upsert().build_spec(context)) is None


@pytest.mark.usefixtures("spark_connection", "job_directory")
@pytest.mark.parametrize(("core_jar", "is_refused"), [("spark-core_2.12-3.5.9.jar", True), ("other.jar", False)])
def test_xml_is_refused_before_a_spark_starts_that_does_not_read_it(
    orders: Table, context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, core_jar: str, is_refused: bool
) -> None:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / core_jar).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    started: list[Any] = []
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda job, _: started.append(job))
    source = Files("in/*.xml", options={"rowTag": "order"})
    # Of a Spark that nobody knows here, the driver says it.
    kind, said = (UnsupportedError, r"XML, which Spark 3\.5 does not") if is_refused else (LakeProviderError, "report")
    with pytest.raises(kind, match=said):
        upsert(source=source).execute(context)
    assert bool(started) is not is_refused


def test_named_inputs_render_in_objects_and_mappings_to_one_spec(context: Context) -> None:
    over = {"orders": Changes("{{ 'shop' }}.orders"), "names": LakeTable("shop.names", as_of="{{ ti.dag_id }}")}
    query = Query("SELECT '{{ ti.task_id }}' AS id FROM orders", over=over, name="s")
    jobs = [upsert(source=each) for each in (query, query.to_mapping())]
    for job in jobs:
        job.render_template_fields(context)
    first, second = (job.build_spec(context) for job in jobs)
    assert first == second
    source = first.source
    assert (source.query, source.lake_tables["orders"].table) == ("SELECT 'task' AS id FROM orders", "shop.orders")
    assert source.lake_tables["names"].moment == "dag"

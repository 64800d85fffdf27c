"""Operators build the specs that they should, and answer from the metadata of real tables without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowFailException
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys, RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Aggregation
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Debezium, Files, Source
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import (
    ForgottenRunError,
    InvalidSpecError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.specs.load import keep_consumed_for
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.overwrite_partitions import LakeOverwritePartitionsOperator
from airflow_lake_provider.operators.update_rows import LakeUpdateRowsOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.unit.operators.run_of_tests import NO_SPARK, RUN, StateStore
from tests.unit.operators.submitted import report_without_spark

if TYPE_CHECKING:
    from airflow.sdk import Context


def upsert(**arguments: Any) -> LakeUpsertOperator:
    given = {"task_id": "t", "table": "shop.orders", "source": "in/*.parquet", "keys": ["id"]}
    return LakeUpsertOperator(**{**given, **arguments})


def test_an_upsert_needs_a_table_a_source_and_keys(lake_connection: str, context: Context) -> None:
    assert upsert().build_spec(context) == UpsertSpec(
        catalog="lake_default",
        table="shop.orders",
        run=RUN,
        source=Files(path="in/*.parquet", format="parquet", name="dag.task"),
        keys=("id",),
    )


def test_an_upsert_of_events_takes_whole_rows_and_a_batch_its_own_identity(
    lake_connection: str, context: Context
) -> None:
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


def test_tasks_that_give_one_batch_id_to_different_inputs_are_not_one_batch(
    lake_connection: str, context: Context
) -> None:
    eu, again, us = (
        upsert(source=Files(f"{at}/*.csv", name=at), batch_id="2026-01-01").build_spec(context)
        for at in ("eu", "eu", "us")
    )
    assert eu.run.who == again.run.who != us.run.who


def test_a_source_keeps_its_name_when_its_path_schema_options_or_query_change(
    lake_connection: str, context: Context
) -> None:
    sources: list[str | Source] = [
        "in/*.parquet",
        "file:///in/2026-01-02/*.parquet",
        Files("in/*.parquet", schema="id BIGINT,n INT"),
        Files("in/*.parquet", options={"mergeSchema": "true"}),
        Query("SELECT 1", over="in/*.parquet"),
    ]
    assert {upsert(source=source).build_spec(context).source_name for source in sources} == {"dag.task"}
    assert upsert(source=Files("in/*.parquet", name="orders")).build_spec(context).source_name == "orders"


def test_a_mapped_task_that_shares_the_name_of_its_source_with_its_siblings_is_refused(
    lake_connection: str, context: Context
) -> None:
    context["ti"].map_index = 3
    # Its place in the list would be the name of another source as soon as the list has another one before it.
    with pytest.raises(InvalidSpecError, match=r"mapped.*by what it reads, for example Files\(..., name='orders_eu'\)"):
        upsert().build_spec(context)
    assert upsert(source=Files("in/*.csv", name="orders_eu")).build_spec(context).source_name == "orders_eu"
    # Which keeps no position under the name.
    days = LakeOverwritePartitionsOperator(task_id="t", table="shop.days", source="in/*.csv", **NO_SPARK)
    assert days.build_spec(context).source_name == "dag.task"


def test_a_source_remembers_its_files_for_as_long_as_asked_and_replays_no_sums(
    lake_connection: str, context: Context
) -> None:
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


def test_what_may_be_done_about_a_changed_source_does_not_make_another_run_of_it(
    lake_connection: str, context: Context
) -> None:
    changes: list[dict[str, Any]] = [{}, {"on_source_change": "fail"}, {"max_file_age": "P1D"}]

    def digest(**change: Any) -> str:
        return upsert(source=Files("in/*.parquet", **change)).build_spec(context).digest_text()

    assert len({digest(**change) for change in changes}) == 1
    assert digest(schema="id INT") != digest()


def test_with_on_repeat_apply_a_cleared_task_is_somebody_new_and_a_retry_is_not(
    lake_connection: str, context: Context
) -> None:
    def who(on_repeat: str, try_number: int, max_tries: int, **arguments: str) -> str:
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        return upsert(on_repeat=on_repeat, **arguments).build_spec(context).run.who

    assert who("apply", 1, 1) == who("apply", 2, 1) != who("apply", 3, 3)
    assert who("skip", 1, 1) == who("skip", 3, 3) != who("apply", 1, 1)
    first_run = who("apply", 1, 1, batch_id="b")
    context["ti"].run_id = "another run"
    assert who("apply", 1, 1, batch_id="b") != first_run


def test_a_deletion_renders_its_rows_where_airflow_does_not_keep_them(lake_connection: str, context: Context) -> None:
    job = LakeDeleteRowsOperator(task_id="t", table="shop.orders", where="id = {{ run_id_of }}", retries=2)
    context["run_id_of"] = 4711  # type: ignore[typeddict-unknown-key]  # stands for a parameter of the run
    spec = job.build_spec(context)
    assert isinstance(spec, DeleteRowsSpec)
    assert (spec.where, spec.keys_from, spec.allow_sql, spec.proof) == ("id = 4711", None, False, True)
    assert job.where == "id = {{ run_id_of }}"
    assert "where" not in job.template_fields
    context["ti"].try_number, context["ti"].max_tries = 4, 5
    assert job.build_spec(context).run.who != spec.run.who


def test_the_tries_of_a_deletion_are_counted_from_its_clearing_and_those_of_an_update_from_the_run(
    lake_connection: str, context: Context
) -> None:
    common: dict[str, Any] = {"task_id": "t", "table": "shop.orders", "where": "id = 3", "retries": 2}
    deletion, update = LakeDeleteRowsOperator(**common), LakeUpdateRowsOperator(assignments={"n": "n + 1"}, **common)

    def tries(try_number: int, max_tries: int) -> tuple[int, int]:
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        return deletion.build_spec(context).run.try_number, update.build_spec(context).run.try_number

    # max_tries is 2 at first; clearing after the second try makes it 4.
    assert [tries(number, 2) for number in (1, 2, 3)] == [(1, 1), (2, 2), (3, 3)]
    assert [tries(number, 4) for number in (3, 4)] == [(1, 3), (2, 4)]


@pytest.mark.parametrize(
    ("started", "clear_number", "max_tries", "of_deletion", "of_update"),
    [
        # Airflow gives a run of a backfill the moment that its day would have had.
        ("2026-11-29", 0, 2, "2026-11-29", "2026-11-29"),
        # Tries of before a clearing may have committed before the new start; a cleared deletion is another run.
        ("2026-11-29", 1, 4, "2026-11-29", "2026-01-01"),
        ("2026-11-29", 1, 2, "2026-11-29", "2026-01-01"),
        ("2026-11-29", 0, 4, "2026-11-29", "2026-01-01"),
        ("2025-12-31", 0, 2, "2026-01-01", "2026-01-01"),
        (None, 0, 2, "2026-01-01", "2026-01-01"),
    ],
)
def test_a_run_of_a_backfill_is_as_old_as_its_start_unless_it_was_cleared(
    lake_connection: str,
    context: Context,
    started: str | None,
    clear_number: int,
    max_tries: int,
    of_deletion: str,
    of_update: str,
) -> None:
    def day(text: str) -> datetime:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)

    common: dict[str, Any] = {"task_id": "t", "table": "shop.orders", "where": "id = 3", "retries": 2}
    deletion, update = LakeDeleteRowsOperator(**common), LakeUpdateRowsOperator(assignments={"n": "n + 1"}, **common)
    context["dag_run"].start_date = day(started) if started else None
    context["dag_run"].clear_number = clear_number
    context["ti"].try_number, context["ti"].max_tries = max_tries, max_tries
    assert deletion.build_spec(context).run.run_after == day(of_deletion)
    assert update.build_spec(context).run.run_after == day(of_update)


def test_a_retry_of_a_backfill_is_not_refused_for_runs_that_were_forgotten_before_it_began(
    lake_connection: str, context: Context
) -> None:
    forgotten = RecentRunKeys(dropped_before=int(datetime(2026, 6, 1, tzinfo=UTC).timestamp()))
    update = LakeUpdateRowsOperator(
        task_id="t", table="shop.orders", where="id = 3", assignments={"n": "n + 1"}, retries=2
    )
    context["ti"].try_number, context["ti"].max_tries = 2, 2
    with pytest.raises(ForgottenRunError):
        forgotten.refuse_forgotten(update.build_spec(context).run, "shop.orders")
    context["dag_run"].start_date = datetime(2026, 11, 29, tzinfo=UTC)
    forgotten.refuse_forgotten(update.build_spec(context).run, "shop.orders")


def test_a_deletion_takes_keys_from_files_or_a_table(lake_connection: str, context: Context) -> None:
    common: dict[str, Any] = {"task_id": "t", "table": "shop.orders", "keys": ["id"], "where": None}
    files = LakeDeleteRowsOperator(**common, keys_from=Files("in/forget.csv", options={"header": True}))
    table = LakeDeleteRowsOperator(**common, keys_from=LakeTable("legal.forget"))
    assert files.build_spec(context).keys_from == Files(path="in/forget.csv", format="csv", options={"header": "true"})
    assert table.build_spec(context).keys_from == LakeTable("legal.forget")
    with pytest.raises(InvalidSpecError, match="list of column names"):
        LakeDeleteRowsOperator(**{**common, "keys": "id"}, keys_from="in/forget.csv").build_spec(context)


def test_an_update_is_recognised_when_its_task_is_cleared(lake_connection: str, context: Context) -> None:
    job = LakeUpdateRowsOperator(task_id="t", table="shop.orders", assignments={"n": "n + 1"}, where="id = 3")
    assert job.build_spec(context) == UpdateRowsSpec(
        catalog="lake_default", table="shop.orders", run=RUN, assignments={"n": "n + 1"}, where="id = 3"
    )
    assert ("where" in job.template_fields, "assignments" in job.template_fields) == (True, False)


def test_the_first_try_after_a_clearing_is_no_retry(lake_connection: str, context: Context) -> None:
    def is_retry(try_number: int, max_tries: int) -> bool:
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        return upsert(retries=2).task_run(context).is_retry

    # max_tries is 2 at first; clearing after the second try makes it 4.
    assert [is_retry(number, 2) for number in (1, 2, 3)] == [False, True, True]
    assert [is_retry(number, 4) for number in (3, 4, 5)] == [False, True, True]


def test_a_try_after_the_author_has_lowered_the_retries_is_still_a_retry(
    lake_connection: str, context: Context
) -> None:
    # max_tries stays at the retries that the task had when its run began.
    context["ti"].try_number, context["ti"].max_tries = 2, 3
    assert upsert(retries=0).task_run(context).is_retry


class TriesOfADeletion:
    """Tries of a deletion whose task has three retries when its run begins."""

    def __init__(self, context: Context) -> None:
        self.context = context
        context["ti"].max_tries = 3
        StateStore.of(context)

    def who(self, try_number: int, retries: int, clear_number: int = 0, *, tells: bool = False) -> str:
        self.context["ti"].try_number, self.context["dag_run"].clear_number = try_number, clear_number
        job = LakeDeleteRowsOperator(task_id="t", table="shop.orders", where="id = 3", retries=retries)
        run = job.build_spec(self.context).run
        if tells:
            job.task_run(self.context).note_told()
        return run.who


@pytest.mark.parametrize(("last", "retries"), [(1, 2), (2, 1), (3, 0)])
def test_a_task_that_is_cleared_after_its_author_has_lowered_the_retries_is_another_run(
    lake_connection: str, context: Context, last: int, retries: int
) -> None:
    tries = TriesOfADeletion(context)
    first = tries.who(1, 3)
    assert tries.who(last, 3, tells=True) == first
    # Its max_tries is the tries so far and the retries of now: what it was before.
    cleared = [tries.who(last + number, retries, 1, tells=True) for number in range(1, retries + 2)]
    assert len({first, *cleared}) == 2
    assert set(cleared) != {first}
    # Cleared once more, with the retries as they are.
    context["ti"].max_tries = 4 + retries
    assert tries.who(5, retries, 2) not in {first, *cleared}


def test_each_clearing_is_another_run_though_the_retries_are_lowered_before_each(
    lake_connection: str, context: Context
) -> None:
    tries = TriesOfADeletion(context)
    first = tries.who(1, 3, tells=True)
    # The second try of this clearing follows a failure behind the report.
    second = [tries.who(number, 2, 1, tells=True) for number in (2, 3)]
    third = tries.who(4, 0, 2, tells=True)
    assert second[0] == second[1]
    assert len({first, *second, third}) == 3


def test_a_retry_after_a_clearing_is_the_same_run_though_the_retries_are_lowered_once_more(
    lake_connection: str, context: Context
) -> None:
    tries = TriesOfADeletion(context)
    tries.who(2, 3, tells=True)
    assert tries.who(3, 1, 1) == tries.who(4, 0, 1)


@pytest.mark.parametrize(
    ("tells", "before", "since"),
    [
        pytest.param(False, 0, 1, id="a lost report, and another task was cleared"),
        pytest.param(True, 0, 0, id="a failure behind the report"),
        pytest.param(True, 1, 1, id="a failure behind the report, in a run that was cleared before"),
    ],
)
def test_a_retry_after_the_author_has_lowered_the_retries_is_the_same_run(
    lake_connection: str, context: Context, tells: bool, before: int, since: int
) -> None:
    tries = TriesOfADeletion(context)
    first = [tries.who(number, 3, before, tells=tells) for number in (1, 2)]
    assert {*first, tries.who(3, 1, since), tries.who(4, 0, since)} == set(first[:1])


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
def test_the_paths_ending_tells_the_format(lake_connection: str, context: Context, path: str, expected: str) -> None:
    read, said = (upsert(source=given).build_spec(context).source for given in (path, Files(path, format="orc")))
    assert [found.files and found.files.format for found in (read, said)] == [expected, "orc"]


@pytest.mark.parametrize("source", ["s3://bucket/folder", "in/*.xlsx"])
def test_a_path_that_tells_no_format_asks_for_one(lake_connection: str, context: Context, source: str) -> None:
    with pytest.raises(InvalidSpecError, match=r"give Files\(\.\.\., format=\)"):
        upsert(source=source).build_spec(context)


def test_a_table_is_a_source_too(lake_connection: str, context: Context) -> None:
    job = upsert(source=Query("SELECT DISTINCT * FROM source", over=LakeTable("shop.raw")))
    expected = Query("SELECT DISTINCT * FROM source", over=LakeTable("shop.raw"), name="dag.task")
    assert job.build_spec(context).source == expected


def test_audits_are_rendered_and_say_whether_they_are_local(lake_connection: str, context: Context) -> None:
    job = upsert(audits=Audits({"dated": "SELECT * FROM batch WHERE day <> '{{ ds }}'"}, local=True))
    job.render_template_fields({**context, "ds": "2026-01-01"})
    assert job.build_spec(context).audits == Audits(
        queries={"dated": "SELECT * FROM batch WHERE day <> '2026-01-01'"}, local=True
    )
    assert upsert(audits={}).build_spec(context).audits is None
    with pytest.raises(InvalidSpecError, match=r"audits must map a name to each query, or be Audits, got \['SELECT"):
        upsert(audits=["SELECT * FROM batch"]).build_spec(context)


def test_what_cannot_be_fails_the_task_for_good(lake_connection: str, context: Context) -> None:
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
        LakeDeleteRowsOperator(task_id="t", table="shop.orders", keys_from=book, keys=["id"])


def test_keys_of_no_known_format_ask_for_one_when_the_dag_is_parsed() -> None:
    with pytest.raises(InvalidSpecError, match=r"'s3://in/forget' does not tell a format; give Files"):
        LakeDeleteRowsOperator(task_id="t", table="shop.orders", keys_from="s3://in/forget", keys=["id"])


def test_an_upsert_is_not_answered_without_spark(lake_connection: str, context: Context) -> None:
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
        LakeUpsertOperator(task_id="t", table="shop.orders", source=source, keys=["id"]).execute(context)
    assert bool(started) is not is_refused


def test_named_inputs_render_in_objects_and_mappings_to_one_spec(lake_connection: str, context: Context) -> None:
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

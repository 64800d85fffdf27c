"""Rows of an author's own function: applied once, by its inputs or its batch id, and its errors as the author's."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError, JobFailedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.spark_jobs.actions.append_batch import append_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.session.pinned_settings import pin_settings
from tests.spark.upsert_flow import SCHEMA, Flow, InterruptedProgress, row

CODE = """
from pyspark.sql import functions as sf

def priced(spark, inputs, params):
    print("priced by", params["rate"])
    orders = inputs["orders"].filter("op <> 'd'").join(inputs["names"], "id", "left")
    return orders.select("id", sf.coalesce("label", "name").alias("name"), (sf.col("n") * params["rate"]).alias("n"))

def counted(spark, inputs, params):
    assert inputs == {}
    return spark.range(params["rows"]).selectExpr("id", "'counted' AS name", "CAST(id AS INT) AS n")

def deep(rows):
    return rows["price"] / 0

def failing(spark, inputs, params):
    return deep({"price": 1})

def wrong_sql(spark, inputs, params):
    return spark.sql("SELECT nowhere FROM (SELECT 1 AS a)")

def listed(spark, inputs, params):
    return [1, 2]

def streamed(spark, inputs, params):
    return spark.readStream.format("rate").load()

def in_new_york(spark, inputs, params):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.caseSensitive", "true")
    return spark.sql("SELECT id, timestamp_seconds(1793505600 - 7200 * id) AS at FROM range(2)")

def in_place(spark, inputs, params):
    kept = spark.table(params["kept"])
    for place in params["places"]:
        spark.sql(f"USE {place}")
    return inputs["t"].join(kept, "id", "left_semi").selectExpr("id", "name", "n")

def two(spark, inputs):
    return None

def in_pandas(spark, inputs, params):
    import pandas
    return pandas.DataFrame({"id": [1]})

def of_pandas(spark, inputs, params):
    import pandas
    columns = {"id": [1, 2], "name": ["a", None], "n": pandas.array([7, None], "Int32")}
    return spark.createDataFrame(pandas.DataFrame(columns))

def too_large(spark, inputs, params):
    import pandas
    frame = pandas.DataFrame({"id": [1], "name": ["a"], "n": [300]})
    return spark.createDataFrame(frame, "id INT, name STRING, n BYTE")

def elsewhere(spark, inputs, params):
    return spark.newSession().range(1)

def leaving(spark, inputs, params):
    import sys
    sys.exit()

def in_workers(spark, inputs, params):
    return spark.range(1).select("id", sf.udf(lambda id: deep({"price": id}))("id").alias("name"), sf.lit(1).alias("n"))

def without_module(spark, inputs, params):
    import no_such_module

def without_module_in_workers(spark, inputs, params):
    def name_of(id):
        import no_such_module
    return spark.range(1).select("id", sf.udf(name_of)("id").alias("name"), sf.lit(1).alias("n"))

def plain(spark, inputs, params):
    return inputs["t"].join(spark.range(9), "id").selectExpr("id", "name", "n")

def beside_target(spark, inputs, params):
    return inputs["t"].join(spark.table(params["target"]).select("id"), "id", "left_anti").selectExpr("id", "name", "n")
"""
PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}


def function(name: str, **arguments: Any) -> PySparkFunction:
    return PySparkFunction(f"loads:{name}", function_code=CODE, name="loads", **arguments)


def test_rows_of_files_and_a_table_go_through_a_function_once(flow: Flow, capfd: pytest.CaptureFixture[str]) -> None:
    names = f"{flow.table}_names"
    flow.catalog()
    flow.spark.sql(f"CREATE TABLE {names} (id BIGINT, label STRING) USING iceberg")
    flow.spark.sql(f"INSERT INTO {names} VALUES (2, 'two')")
    files = Files(f"{flow.inbox}/*.jsonl", format="json", schema=SCHEMA)
    read = function("priced", over={"orders": files, "names": LakeTable(names)}, params={"rate": 3})
    expected: dict[int, tuple[Any, ...]] = {}
    for number in (1, 2):
        flow.arrive(f"{number}.jsonl", row(number, f"row {number}", number))
        # What was applied is not applied again by another rate.
        rated = replace(read, params={"rate": 2 + number})
        report = flow.apply(f"run {number}", source=rated, **PLAIN)
        expected[number] = ("two" if number == 2 else f"row {number}", (2 + number) * number)
        assert (report.outcome, report.batch_rows, flow.rows()) == (Outcome.APPLIED, 1, expected)
        assert f"priced by {2 + number}" in capfd.readouterr().out
        assert flow.apply(f"run {number}", source=rated, **PLAIN).outcome in (
            Outcome.ALREADY_APPLIED,
            Outcome.NOTHING_NEW,
        )
    assert flow.apply("run 3", source=read, **PLAIN).outcome is Outcome.NOTHING_NEW
    assert flow.rows() == expected


def test_rows_that_come_from_nowhere_known_are_added_once_for_each_batch_id(flow: Flow) -> None:
    flow.catalog()

    def add(batch: str, source: PySparkFunction) -> Outcome:
        run = RunIdentity.of("batch", batch, "loads")
        spec = AppendSpec(catalog="lake_default", table=flow.table, run=run, source=source, batch_id=batch)
        return append_batch(flow.spark, spec, Progress()).outcome

    three = function("counted", params={"rows": 3})
    assert add("mon", three) is Outcome.APPLIED
    assert add("mon", replace(three, function_code=f"{CODE}# mended\n")) is Outcome.ALREADY_APPLIED
    assert add("tue", three) is Outcome.APPLIED
    assert add("mon", three) is Outcome.ALREADY_APPLIED
    assert sorted(each["id"] for each in flow.loaded().scan().to_arrow().to_pylist()) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("failing", JobFailedError, "loads:failing raised an error:\n"),
        ("wrong_sql", JobFailedError, "loads:wrong_sql raised an error:\n"),
        ("listed", InvalidSpecError, r"loads:listed must return a DataFrame of Spark, got list; spark\.createData"),
        (
            "in_pandas",
            InvalidSpecError,
            r"must return a DataFrame of Spark, got pandas\..*DataFrame; spark\.createData",
        ),
        ("streamed", InvalidSpecError, "loads:streamed must return a DataFrame of a batch, got a stream"),
        ("elsewhere", InvalidSpecError, "loads:elsewhere returned a DataFrame of another session"),
        ("leaving", InvalidSpecError, "loads:leaving must not end Python"),
        ("in_workers", JobFailedError, "loads:in_workers: Python code that its rows go through, such as a UDF"),
        ("without_module", InvalidSpecError, "loads:without_module: No module named 'no_such_module'; .* py_files:"),
        ("without_module_in_workers", InvalidSpecError, "such as a UDF, imports a module .* py_files:"),
        ("two", InvalidSpecError, r"loads:two must take \(spark, inputs, params\)"),
        ("absent", InvalidSpecError, "loads:absent: the module has no function 'absent'"),
    ],
)
def test_what_goes_wrong_in_a_function_is_told_in_its_own_lines(
    flow: Flow, name: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as raised:
        flow.apply("run 1", source=function(name), batch_id="mon", **PLAIN)
    told = str(raised.value)
    if name == "leaving":
        assert "    sys.exit()\nSystemExit" in told
    if name in ("failing", "in_workers"):
        assert told.endswith("ZeroDivisionError: division by zero")
        assert 'deep({"price": ' in told
        assert 'return rows["price"] / 0' in told
        assert "author_function" not in told
    if name.startswith("without_module"):
        assert told.endswith("    import no_such_module\nModuleNotFoundError: No module named 'no_such_module'")
    if name == "wrong_sql":
        assert "in wrong_sql" in told
        assert "UNRESOLVED_COLUMN" in told
        assert "py4j" not in told
        assert "pyspark/" not in told


@pytest.mark.parametrize("places", [["flows"], ["spark_catalog", "default"]])
def test_a_use_in_a_function_changes_no_name_of_what_comes_after(flow: Flow, places: list[str]) -> None:
    kept = f"{flow.table}_kept"
    flow.catalog()
    flow.spark.sql(f"CREATE TABLE {kept} USING iceberg AS SELECT 1L AS id, 'a' AS name, 1 AS n")
    flow.spark.sql(f"CREATE TABLE {flow.table} (id BIGINT, name STRING, n INT) USING iceberg")
    before = flow.spark.catalog.currentCatalog(), flow.spark.catalog.currentDatabase()
    read = function("in_place", over={"t": LakeTable(kept)}, params={"kept": kept, "places": places})
    spec = AppendSpec(
        catalog="lake_default",
        table=flow.table,
        run=RunIdentity.of("dag", "run", "task"),
        source=read,
        audits=Audits({"kept": f"SELECT id FROM batch LEFT ANTI JOIN {kept} USING (id)"}),
    )
    # The second attempt calls the function again.
    assert append_batch(flow.spark, spec, foreign_commit(flow)).outcome is Outcome.APPLIED
    assert flow.rows() == {1: ("a", 1), 77: ("foreign", 7)}
    assert (flow.spark.catalog.currentCatalog(), flow.spark.catalog.currentDatabase()) == before


def foreign_commit(flow: Flow) -> InterruptedProgress:
    insert = f"INSERT INTO {flow.table} (id, name, n) VALUES (77, 'foreign', 7)"
    return InterruptedProgress(at="commit", then=lambda: flow.spark.sql(insert))


def test_a_commit_of_another_writer_is_in_the_way_of_what_reads_the_table_alone(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 0")
    flow.spark.sql(f"CREATE TABLE {flow.table}_in (id BIGINT, name STRING, n INT) USING iceberg")
    attempts = []
    for number, name in enumerate(("plain", "beside_target"), 2):
        flow.spark.sql(f"INSERT INTO {flow.table}_in VALUES ({number}, '{name}', {number})")
        over, params = {"t": LakeTable(f"{flow.table}_in")}, {"target": flow.table}
        spec = AppendSpec(
            catalog="lake_default",
            table=flow.table,
            run=RunIdentity.of("dag", name, "task"),
            source=replace(function(name, over=over, params=params), name=name),
        )
        attempts.append(append_batch(flow.spark, spec, foreign_commit(flow)).attempts)
    assert attempts == [1, 2]


def test_a_conflict_of_a_function_without_inputs_names_no_other_batch(
    flow: Flow, capfd: pytest.CaptureFixture[str]
) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 0")
    source = function("counted", params={"rows": 3})
    run = RunIdentity.of("batch", "mon", "loads")
    spec = AppendSpec(catalog="lake_default", table=flow.table, run=run, source=source, batch_id="mon")
    assert append_batch(flow.spark, spec, foreign_commit(flow)).attempts == 2
    said = capfd.readouterr()
    assert "another batch of source" not in said.out + said.err
    assert "may be, made of rows that have changed since" in said.out + said.err


def test_a_batch_that_another_tool_rolled_back_is_no_batch_of_another_driver(
    flow: Flow, capfd: pytest.CaptureFixture[str]
) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 0")
    before = flow.loaded().metadata.current_snapshot_id
    source = function("counted", params={"rows": 3})
    run = RunIdentity.of("batch", "mon", "loads")
    spec = AppendSpec(catalog="lake_default", table=flow.table, run=run, source=source, batch_id="mon")
    assert append_batch(flow.spark, spec, Progress()).outcome is Outcome.APPLIED
    flow.spark.sql(f"CALL system.rollback_to_snapshot('{flow.table}', {before})")
    capfd.readouterr()
    assert append_batch(flow.spark, spec, foreign_commit(flow)).outcome is Outcome.APPLIED
    said = capfd.readouterr()
    assert "another driver of this run" not in said.out + said.err
    ids = [each["id"] for each in flow.loaded().scan().to_arrow().to_pylist()]
    assert [ids.count(each) for each in (0, 2)] == [1, 1]


STOPPED = """
import sys
from pyspark.sql import SparkSession
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.session.author_function import errors_of

def stopping(spark):
    spark.stop()
    return spark.range(1)

for function in (stopping, lambda spark: spark.stop()):
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        with errors_of(spark, "loads:stopping"):
            function(spark)
    except InvalidSpecError as error:
        print(error)
"""


def test_what_is_missing_in_a_frame_of_pandas_is_null(flow: Flow) -> None:
    # As each session of a job begins.
    pin_settings(flow.spark)
    flow.apply("run 1", source=function("of_pandas"), batch_id="b1", **PLAIN)
    assert flow.rows() == {1: ("a", 7), 2: (None, None)}
    # It wrapped around to 44.
    with pytest.raises(JobFailedError, match="loads:too_large raised an error"), pytest.warns(UserWarning, match="'n'"):
        flow.apply("run 2", source=function("too_large"), batch_id="b2", **PLAIN)


def test_a_function_that_stops_the_session_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("loads:stopping has stopped the Spark session") == 2


def test_settings_that_a_function_makes_end_with_it(flow: Flow) -> None:
    session = flow.spark.newSession()
    own = replace(flow, spark=session)
    # The first row is of 2026-11-01 04:00 UTC, the second two hours before.
    flow.spark.sql(f"CREATE TABLE {flow.table} (id BIGINT, at TIMESTAMP) USING iceberg")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (0, NULL), (1, NULL)")
    deletes: dict[str, Any] = {"delete_when": "AT >= '2026-11-01 04:00:00'", "exclude_columns": ()}
    own.apply("run 1", source=function("in_new_york"), batch_id="b1", **deletes)
    assert sorted(flow.rows()) == [1]

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.merge_engines import Aggregation, Deduplicate, Deletes, FirstRow
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.schema_contract import SchemaContract
from airflow_lake_provider.contracts.author.sources import Files, Source
from airflow_lake_provider.contracts.errors import BadInputError, MissingTableError, UnsupportedError
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.sources.base import ChangeBatch, open_source
from airflow_lake_provider.spark_jobs.sources.input_files import list_input_files
from airflow_lake_provider.spark_jobs.sources.lake_table import read_table
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource, read_row_changes
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch
from airflow_lake_provider.spark_jobs.sources.read_files import read_files
from airflow_lake_provider.spark_jobs.sources.text_schema import parse_ddl
from airflow_lake_provider.spark_jobs.sql.parsed_tree import has_subquery, parse_expression
from tests.benchmarks.spark_meter import SparkMeter
from tests.spark.append_flow import append, event, events_of
from tests.spark.upsert_flow import Flow


def changes(
    spark: SparkSession, source: Source, table: str | None = None, keys: tuple[str, ...] = ("id",), **words: Any
) -> ChangeBatch:
    run = RunIdentity.of("dag", "run", "task", "-1")
    named = replace(source, name="batches")
    words["schema_contract"] = SchemaContract(exclude_columns=words.pop("exclude_columns", ()))
    spec = UpsertSpec(catalog="lake_default", table="shop.target", run=run, source=named, keys=keys, **words)
    opened = open_source(spark, spec)
    assert isinstance(opened, PlainSource)
    return read_row_changes(opened, opened.list(), parse_ddl(table) if table else None)


def rows_of(batch: ChangeBatch) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in batch.changes.collect()]
    return sorted(rows, key=lambda row: row["id"])


def files_in(folder: Path, **texts: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text)
    return str(folder)


def test_a_small_batch_is_reduced_checked_and_counted_in_one_stage(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 1, 2], "n": [1, 2, 1]}), tmp_path / "1.parquet")
    meter = SparkMeter(spark)
    batch = changes(spark, Files(path=str(tmp_path), format="parquet"), order_by=("n",))
    assert (batch.rows, batch.keys, meter.read().stages) == (3, 2, 1)
    assert [(row["id"], row["n"]) for row in rows_of(batch)] == [(1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("delete_when", "may"),
    [
        ("op = 'd'", False),
        ("op IN ('d', 'x') AND n > 1", False),
        ("`from` = 'the select table'", False),
        ("id IN (SELECT id FROM lake.closed)", True),
        ("exists(/* closed */ from lake.closed)", True),
        ("id IN (\nTABLE lake.closed)", True),
        ("id IN (VALUES 1, 2)", True),
    ],
)
def test_an_expression_that_may_read_other_tables_is_told(spark: SparkSession, delete_when: str, may: bool) -> None:
    assert has_subquery(spark, parse_expression(spark, delete_when)) is may


def test_files_are_listed_by_path_with_what_tells_a_new_version(spark: SparkSession, tmp_path: Path) -> None:
    visible = ["b.json", "a/z.json", "a/day=1/y.json", "sp ace.json", "x[1].json"]
    for name in [*visible, "_SUCCESS", ".b.json.crc", "_temporary/t.json", "a/.hidden/h.json", "c.json._COPYING_"]:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text("{}")
    found = list_input_files(spark, str(tmp_path / "in"))
    expected = sorted(f"file:{tmp_path}/in/{name}" for name in visible)
    assert [file.path for file in found] == expected
    told = {file.path: (file.size, file.version) for file in found}
    status = (tmp_path / "in" / "b.json").stat()
    assert told[f"file:{tmp_path}/in/b.json"] == (2, str(status.st_mtime_ns // 1_000_000))
    by_glob = list_input_files(spark, f"file://{tmp_path}/in/{{b,sp*}}.json")
    assert [file.path.rpartition("/")[2] for file in by_glob] == ["b.json", "sp ace.json"]


def test_a_glob_may_match_nothing_but_a_path_may_not(spark: SparkSession, tmp_path: Path) -> None:
    assert list_input_files(spark, f"{tmp_path}/*.json") == ()
    with pytest.raises(BadInputError, match=r"none\.json' does not exist"):
        list_input_files(spark, f"{tmp_path}/none.json")
    (tmp_path / "_hidden.json").write_text("{}")
    with pytest.raises(BadInputError, match="hidden name"):
        list_input_files(spark, f"{tmp_path}/_hidden.json")


# Few files are told apart by comparison, many by a join.
@pytest.mark.parametrize("more", [0, 9])
def test_exactly_the_listed_files_are_read_each_once_and_in_path_order(
    spark: SparkSession, tmp_path: Path, more: int
) -> None:
    names = ["a b.json", "a!b.json", "a[1].json", "a1.json", "a%20b.json", "a*{x,y}?.json", "a+ü.json"]
    names += [f"b{number}.json" for number in range(more)]
    folder = tmp_path / "in"
    folder.mkdir()
    for name in names:
        (folder / name).write_text(
            json.dumps({"id": 1, "file": name}) + "\n" + json.dumps({"id": 2, "file": name}) + "\n"
        )
    source = Files(path=str(folder), format="json")
    files = list_input_files(spark, str(folder))
    (folder / "zzz.json").write_text('{"id": 1, "file": "came too late"}\n')
    batch = read_files(spark, source, files, None)
    assert sorted(row["file"] for row in batch.rows.collect()) == sorted(names * 2)
    placed = batch.rows.select("file", "_lake_arrival.file").distinct().collect()
    assert sorted((index, name) for name, index in placed) == list(enumerate(sorted(names)))


def test_arrival_in_a_file_is_its_order_also_where_the_file_is_split(spark: SparkSession, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"id": place % 7, "place": place, "pad": "x" * 90}) + "\n" for place in range(3_000))
    path = files_in(tmp_path / "in", a_json=lines, b_json='{"id": 0, "place": -1}\n')
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    spark.conf.set("spark.sql.files.openCostInBytes", "100")
    try:
        batch = changes(spark, Files(path=path, format="json", schema="id INT, place INT"))
        assert batch.changes.sparkSession.read.text(path).rdd.getNumPartitions() > 10
        last = {place % 7: place for place in range(3_000)}
        assert {row["id"]: row["place"] for row in rows_of(batch)} == {**last, 0: -1}
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columns_that_only_some_files_have_are_not_dropped(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    tables = [pa.table({"id": [1], "old": ["o"]}), pa.table({"id": [2], "new": [5]})]
    for number, table in enumerate(tables):
        write = pq.write_table if kind == "parquet" else orc.write_table
        write(table, str(tmp_path / f"{number}.{kind}"))
    batch = changes(spark, Files(path=str(tmp_path), format=kind))
    assert rows_of(batch) == [
        {"id": 1, "old": "o", "new": None, DELETED: False},
        {"id": 2, "old": None, "new": 5, DELETED: False},
    ]


def test_json_takes_the_tables_types_and_infers_only_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = files_in(tmp_path, a_json='{"id": "7", "total": 1.50, "day": "2025-01-02", "extra": 3}\n')
    batch = changes(spark, Files(path=path, format="json"), "id STRING, total DECIMAL(12,2), day DATE, absent INT")
    expected = {"id": "7", "total": Decimal("1.50"), "day": date(2025, 1, 2), "extra": 3, DELETED: False}
    assert rows_of(batch) == [expected]
    types = {field.name: field.dataType.simpleString() for field in batch.changes.schema.fields}
    assert types["total"] == "decimal(12,2)"
    assert types["extra"] == "bigint"


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("MAP<STRING, INT>", ("{}", "{}"), [{}, {}]),
        ("MAP<STRING, INT>", ("{}", "null"), [{}, None]),
        ("MAP<STRING, STRUCT<a: INT>>", ("{ }", "{}"), [{}, {}]),
        ("STRUCT<a: INT>", ("{}", "{}"), [{"a": None}, {"a": None}]),
        ("STRUCT<m: MAP<STRING, INT>>", ('{"m": {}}', "{}"), [{"m": {}}, {"m": None}]),
    ],
)
def test_objects_of_json_that_are_all_empty_are_values_of_the_tables_column(
    spark: SparkSession, tmp_path: Path, kind: str, values: tuple[str, ...], expected: list[Any]
) -> None:
    lines = "".join(f'{{"id": {number}, "v": {value}}}\n' for number, value in enumerate(values))
    source = Files(path=files_in(tmp_path, a_json=lines), format="json")
    found = rows_of(changes(spark, source, f"id INT, v {kind}, other MAP<STRING, INT>"))
    assert [row["v"].asDict() if hasattr(row["v"], "asDict") else row["v"] for row in found] == expected
    assert "other" not in found[0]


def test_csv_columns_follow_the_header_not_the_order_of_the_schema(spark: SparkSession, tmp_path: Path) -> None:
    path = files_in(tmp_path, a_csv="note,id\nfirst,1\n", b_csv='note,id\nsecond,1\n"two",2\n')
    source = Files(path=path, format="csv", options={"header": "true"}, schema="id INT, note STRING")
    expected = [{"id": 1, "note": "second", DELETED: False}, {"id": 2, "note": "two", DELETED: False}]
    assert rows_of(changes(spark, source)) == expected
    by_table = Files(path=path, format="csv", options={"header": "true"})
    assert rows_of(changes(spark, by_table, "ID INT, note STRING, other INT")) == expected


@pytest.mark.parametrize(
    ("arguments", "options", "is_told"),
    [
        ({}, {}, True),
        ({"order_by": ("at",), "keys": ("_c0",)}, {}, True),
        ({}, {"sep": ";"}, True),
        ({"keys": ("nowhere",)}, {"header": "true"}, False),
    ],
    ids=["keys", "order_by", "another separator", "with a header"],
)
def test_csv_without_the_option_for_its_header_is_refused_with_it(
    spark: SparkSession, tmp_path: Path, arguments: dict[str, Any], options: dict[str, str], is_told: bool
) -> None:
    path = files_in(tmp_path, **{"a.csv": "id,note\n1,a\n"})
    with pytest.raises(BadInputError) as refused:
        changes(spark, Files(path=path, format="csv", options=options), **arguments)
    assert ("options={'header': True}" in str(refused.value)) is is_told


def test_csv_files_with_different_headers_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = files_in(tmp_path, a_csv="id,note\n1,x\n", b_csv="note,id\nx,2\n")
    source = Files(path=path, format="csv", options={"header": "true"}, schema="id INT, note STRING")
    with pytest.raises(BadInputError, match="do not all have the same header"):
        changes(spark, source)
    with pytest.raises(BadInputError, match=r"columns \['id'\], but the header .* has \['id', 'note'\]"):
        changes(spark, Files(path=path, format="csv", options={"header": "true"}, schema="id INT"))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("json", '{"id": 1, "n": 1}', '{"id": 2, "n": '),
        ("json", '{"id": 1, "n": 1}', '{"id": 2, "n": "two"}'),
        ("json", '{"id": 1, "n": 1}', "[3]"),
        ("csv", "1,1", "2"),
        ("csv", "1,1", "2,2,2"),
        ("csv", "1,1", "2,two"),
    ],
)
def test_records_that_cannot_be_read_are_refused_with_their_place(
    spark: SparkSession, tmp_path: Path, kind: str, good: str, bad: str
) -> None:
    path = files_in(tmp_path, **{f"a_{kind}": f"{good}\n", f"b_{kind}": f"{good}\n{good}\n{bad}\n{good}\n"})
    source = Files(path=path, format=kind, schema="id INT, n INT")
    with pytest.raises(BadInputError, match=rf"1 records cannot be read .*/b\.{kind}, the first is its record 3"):
        changes(spark, source)
    query = Query("SELECT * FROM source", over=Files(path=path, format=kind, schema="id INT, n INT"))
    with pytest.raises(BadInputError, match="1 records cannot be read"):
        changes(spark, query)


def test_ignored_deletes_hide_no_record_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    path = files_in(tmp_path, a_json='{"id": 1, "op": "u"}\n{"id": 2, "op": \n')
    source = Files(path=path, format="json", schema="id INT, op STRING")
    ignored = Deduplicate(deletes=Deletes.IGNORE)
    with pytest.raises(BadInputError, match="1 records cannot be read"):
        changes(spark, source, merge_engine=ignored, delete_when="op IS NULL")


def test_avro_without_its_package_says_which_one(spark: SparkSession, tmp_path: Path) -> None:
    path = files_in(tmp_path, a_avro="")
    # The jar of Spark's core is named after the same Scala and Spark.
    (core,) = (Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar")
    package = ":".join(core.stem.replace("core", "avro").rsplit("-", 1))
    said = re.escape(f'packages="org.apache.spark:{package}"')
    with classes_of_spark_alone(spark), pytest.raises(UnsupportedError, match=said):
        changes(spark, Files(path=path, format="avro"))


@contextmanager
def classes_of_spark_alone(spark: SparkSession) -> Iterator[None]:
    """Look data sources up in Spark's own jars: tests of topics bring Avro into the session that they share."""
    jvm: Any = spark._jvm
    thread = jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    thread.setContextClassLoader(loader.getParent())
    try:
        yield
    finally:
        thread.setContextClassLoader(loader)


def test_deletes_and_excluded_columns_leave_only_what_is_stored(spark: SparkSession, tmp_path: Path) -> None:
    lines = [{"id": 1, "op": "U", "v": 1}, {"id": 1, "op": "D", "v": 2}, {"id": 2, "op": "D"}, {"id": 2, "op": None}]
    path = files_in(tmp_path, a_json="".join(json.dumps(line) + "\n" for line in lines))
    batch = changes(spark, Files(path=path, format="json"), delete_when="op = 'D'", exclude_columns=("OP", "absent"))
    assert rows_of(batch) == [{"id": 1, "v": 2, DELETED: True}, {"id": 2, "v": None, DELETED: False}]
    assert (batch.rows, batch.keys, batch.upserts, batch.deletes) == (4, 2, 1, 1)


def test_a_predicate_that_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = files_in(tmp_path, a_json='{"id": 1}\n')
    with pytest.raises(BadInputError, match=r"delete_when \"nope = 'D'\" does not fit the columns \['id'\]"):
        changes(spark, Files(path=path, format="json"), delete_when="nope = 'D'")


def test_a_table_or_a_query_has_no_order_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake_default.batches")
    spark.sql("CREATE TABLE batches.source (id INT, at INT, note STRING) USING iceberg")
    spark.sql("INSERT INTO batches.source VALUES (1, 1, 'old'), (1, 2, 'new'), (2, 5, 'two')")
    table = LakeTable("batches.source")
    with pytest.raises(BadInputError, match=r"1 keys of .* occur more than once"):
        changes(spark, table)
    newest = [{"id": 1, "at": 2, "note": "new", DELETED: False}, {"id": 2, "at": 5, "note": "two", DELETED: False}]
    assert rows_of(changes(spark, table, order_by=("at",))) == newest
    query = Query("SELECT id, max(at) AS at FROM source GROUP BY id", over=LakeTable("batches.source"))
    assert [row["at"] for row in rows_of(changes(spark, query))] == [2, 5]
    path = files_in(tmp_path, a_json='{"id": 1, "at": 1}\n{"id": 1, "at": 2}\n')
    from_files = Query("SELECT id, at * 10 AS at FROM source", over=Files(path=path, format="json"))
    with pytest.raises(BadInputError, match=r"1 keys of .* occur more than once"):
        changes(spark, from_files)
    assert [row["at"] for row in rows_of(changes(spark, from_files, order_by=("at",)))] == [20]


def test_sources_that_cannot_be_resolved_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    run, gone = RunIdentity.of("dag", "run", "task", "-1"), LakeTable("batches.none", name="none")
    spec = AppendSpec(catalog="lake_default", table="shop.target", run=run, source=gone)
    with pytest.raises(BadInputError, match=r"source table batches\.none cannot be read"):
        # As where it is dropped once it was listed.
        read_table(spark, spec, gone)
    with pytest.raises(MissingTableError, match=r"batches\.none: the source table does not exist"):
        changes(spark, LakeTable("batches.none"))
    path = files_in(tmp_path, a_json='{"id": 1}\n')
    with pytest.raises(BadInputError, match="query over the view source"):
        changes(spark, Query("SELECT nope FROM source", over=Files(path=path, format="json")))
    with pytest.raises(BadInputError, match="not a list of columns in DDL"):
        changes(spark, Files(path=path, format="json", schema="id DECIMAL(99)"))
    with pytest.raises(BadInputError, match="keeps for itself"):
        changes(spark, Query("SELECT 1 AS id, 2 AS _lake_x FROM source", over=Files(path=path, format="json")))


def test_rows_of_a_query_with_one_order_are_refused_below_the_last_too_where_more_than_the_last_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = files_in(tmp_path, a_json='{"id": 1}\n')
    summed = Aggregation(aggregates={"total": "sum"})
    named = "SELECT * FROM VALUES (1, 5, 'a'), (1, 7, 'b') AS t(id, total, name)"
    with pytest.raises(BadInputError, match=r"1 keys of .* give order_by"):
        changes(spark, Query(named, over=Files(path=path, format="json")), merge_engine=summed)
    plain = Query(f"SELECT id, total FROM ({named})", over=Files(path=path, format="json"))
    assert [row["total"] for row in rows_of(changes(spark, plain, merge_engine=summed))] == [12]
    ambiguous = "SELECT * FROM VALUES (1, 1, 'a'), (1, 1, 'b'), (1, 2, 'c') AS t(id, at, name)"
    below = Query(ambiguous, over=Files(path=path, format="json"))
    assert [row["name"] for row in rows_of(changes(spark, below, order_by=("at",)))] == ["c"]
    for merge_engine in (
        FirstRow(),
        Aggregation(aggregates={"name": "listagg"}),
    ):
        with pytest.raises(BadInputError, match=r"1 keys of .* the same \['at'\]"):
            changes(spark, below, order_by=("at",), merge_engine=merge_engine)


def test_rows_of_text_that_are_read_once_are_not_cached(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    cached: list[DataFrame] = []
    frame = type(flow.spark.range(0))
    persist = frame.persist

    def noted(rows: DataFrame, *level: Any) -> DataFrame:
        cached.append(rows)
        return persist(rows, *level)

    monkeypatch.setattr(frame, "persist", noted)
    flow.arrive("1.jsonl", event(1), event(2))
    assert append(flow, "1").rows_appended == 2
    assert cached == []
    flow.arrive("2.jsonl", event(3), {"id": "x"})
    with pytest.raises(BadInputError, match="1 records cannot be read"):
        append(flow, "2")
    assert events_of(flow) == [(1, "a"), (2, "a")]


def test_marks_are_looked_for_in_thousands_of_texts(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("\ufffd", *["a"] * 2_999)], ", ".join(f"c{place} STRING" for place in range(3_000)))
    flagged = RawBatch(rows=rows, lines=rows).has_replaced_text()
    assert flagged is not None
    assert rows.filter(flagged).columns == rows.columns

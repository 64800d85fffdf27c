"""Files of Avro: each has a schema of its own, and a batch has the columns of all of them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError
from tests.spark.append_flow import append
from tests.spark.sources.kafka.topic_writer import add_connector
from tests.spark.sources.test_unreadable_files import apply, flow
from tests.spark.upsert_flow import Flow


@pytest.fixture(autouse=True)
def _package(spark: SparkSession) -> None:
    add_connector(spark)


def write(spark: SparkSession, folder: Path, **queries: str) -> None:
    """Write a file for the result of each query."""
    folder.mkdir(exist_ok=True)
    for name, query in queries.items():
        spark.sql(query).coalesce(1).write.format("avro").save(str(folder / f"_{name}"))
        (made,) = (folder / f"_{name}").glob("*.avro")
        made.rename(folder / f"{name}.avro")


def rows_of(spark: SparkSession, flow: Flow) -> list[dict[str, Any]]:
    rows = spark.newSession().table(flow.table).collect()
    return sorted((row.asDict(recursive=True) for row in rows), key=lambda row: str(row["id"]))


def test_a_column_that_only_one_file_has_is_kept_by_appends_and_upserts(spark: SparkSession, tmp_path: Path) -> None:
    write(
        spark,
        tmp_path / "in",
        a="SELECT 1L AS id, 'a' AS name, named_struct('x', 1) AS s, array(named_struct('p', 1)) AS l",
        b="SELECT 2L AS id, 9.5D AS total, named_struct('x', 2, 'y', 3) AS s, array(named_struct('q', 4)) AS l",
        c="SELECT 3L AS id, 'c' AS NAME",
    )
    expected = [
        {"id": 1, "name": "a", "s": {"x": 1, "y": None}, "l": [{"p": 1, "q": None}], "total": None},
        {"id": 2, "name": None, "s": {"x": 2, "y": 3}, "l": [{"p": None, "q": 4}], "total": 9.5},
        {"id": 3, "name": "c", "s": None, "l": None, "total": None},
    ]
    appended = Flow(spark, "unreadable.avro_appended", tmp_path)
    append(appended, "first", source=Files(path=str(tmp_path / "in"), format="avro"))
    assert rows_of(spark, appended) == expected
    apply(spark, tmp_path / "in", "avro_upserted", format="avro")
    assert rows_of(spark, flow(spark, tmp_path, "avro_upserted")) == expected


def test_types_are_widened_where_every_value_stays_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    write(
        spark,
        tmp_path / "in",
        a="SELECT 1 AS id, 1.5F AS f, CAST(1.25 AS DECIMAL(5,2)) AS d",
        b="SELECT 10000000000L AS id, 1e100D AS f, CAST(12345678.25 AS DECIMAL(10,2)) AS d",
    )
    apply(spark, tmp_path / "in", "avro_wider", format="avro")
    assert rows_of(spark, flow(spark, tmp_path, "avro_wider")) == [
        {"id": 1, "f": 1.5, "d": Decimal("1.25")},
        {"id": 10_000_000_000, "f": 1e100, "d": Decimal("12345678.25")},
    ]


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        ("CAST(1 AS DECIMAL(10,2))", "CAST(1.2345 AS DECIMAL(10,4))", r"v is decimal\(10,4\) and decimal\(10,2\)"),
        ("'x'", "1", "v is int and string"),
        ("map('k', named_struct('x', 1))", "map('k', named_struct('x', 'a'))", r"v\.value\.x is string and int"),
    ],
)
def test_files_of_types_that_do_not_go_together_are_refused(
    spark: SparkSession, tmp_path: Path, left: str, right: str, told: str
) -> None:
    write(spark, tmp_path / "in", a=f"SELECT 1L AS id, {left} AS v", b=f"SELECT 2L AS id, {right} AS v")
    with pytest.raises(BadInputError, match=rf"b\.avro and those before it: {told}"):
        apply(spark, tmp_path / "in", format="avro")


def test_a_file_that_is_no_avro_is_named(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, tmp_path / "in", a="SELECT 1L AS id")
    (tmp_path / "in" / "b.avro").write_bytes(b"no file of Avro, but some text")
    with pytest.raises(BadInputError, match=r"/b\.avro cannot be read as avro.*repair the file"):
        apply(spark, tmp_path / "in", format="avro")


def test_avro_that_was_cut_off_or_does_not_fit_its_schema_is_no_work_for_a_retry(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(spark, tmp_path / "in", a="SELECT id, CAST(id AS STRING) AS s FROM range(1000)")
    whole = (tmp_path / "in" / "a.avro").read_bytes()
    (tmp_path / "cut.avro").write_bytes(whole[:-500])
    with pytest.raises(BadInputError, match=r"cut\.avro cannot be read as avro, it is cut off"):
        apply(spark, tmp_path / "cut.avro", format="avro")
    other = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}'
    with pytest.raises(BadInputError, match=r"a\.avro cannot be read as avro.*AvroTypeException"):
        apply(spark, tmp_path / "in", format="avro", options={"avroSchema": other})


def test_a_time_of_another_unit_than_that_of_the_files_before_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    number = "CAST({} AS {}) AS v"
    folder = tmp_path / "in"
    written = {"a": (36_000_000, "INT", "time-millis"), "b": (36_000_000_000, "BIGINT", "time-micros")}
    for name, (value, kind, unit) in written.items():
        plain = "int" if kind == "INT" else "long"
        fields = [{"name": "id", "type": "long"}, {"name": "v", "type": {"type": plain, "logicalType": unit}}]
        schema = json.dumps({"type": "record", "name": "r", "fields": fields})
        rows = spark.sql(f"SELECT {len(name)}L AS id, {number.format(value, kind)}").coalesce(1)
        rows.write.format("avro").option("avroSchema", schema).save(str(folder / f"_{name}"))
        (made,) = (folder / f"_{name}").glob("*.avro")
        made.rename(folder / f"{name}.avro")
    with pytest.raises(BadInputError, match=r"v is time-millis in .*a\.avro and time-micros in .*b\.avro"):
        apply(spark, folder, format="avro")


def write_record(spark: SparkSession, path: Path, schema: str, id_: int, **inner: tuple[int, Any]) -> None:
    """Write a file of one record with Java's library.

    :param inner: by field, the branch of its union, and the value of the one field of that record.
    """
    jvm: Any = spark._jvm
    avro = jvm.org.apache.avro
    path.parent.mkdir(exist_ok=True)
    parsed = avro.Schema.Parser().parse(schema)
    writer = avro.file.DataFileWriter(avro.generic.GenericDatumWriter(parsed))
    writer.create(parsed, jvm.java.io.File(str(path)))
    record = avro.generic.GenericData.Record(parsed)
    record.put("id", jvm.java.lang.Long.valueOf(id_))
    for name, (branch, value) in inner.items():
        of_branch = avro.generic.GenericData.Record(parsed.getField(name).schema().getTypes().get(branch))
        of_branch.put(0, value)
        record.put(name, of_branch)
    writer.append(record)
    writer.close()


def test_branches_of_a_union_have_units_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    def branch(name: str, kind: str, unit: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": "t", "type": {"type": kind, "logicalType": unit}}]}

    def schema(*branches: dict[str, Any], **more: str) -> str:
        fields = [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", *branches]}]
        fields += [{"name": name, "type": ["null", kind]} for name, kind in more.items()]
        return json.dumps({"type": "record", "name": "r", "fields": fields})

    millis, micros = branch("A", "int", "time-millis"), branch("B", "long", "time-micros")
    jvm: Any = spark._jvm
    first, second = jvm.java.lang.Integer.valueOf(36_000_000), jvm.java.lang.Long.valueOf(36_000_000_000)
    write_record(spark, tmp_path / "in" / "a.avro", schema(millis, micros), 1, v=(1, first))
    write_record(spark, tmp_path / "in" / "b.avro", schema(millis, micros, note="string"), 2, v=(2, second))
    apply(spark, tmp_path / "in", "avro_branches", format="avro")
    assert [(row["id"], row["v"]) for row in rows_of(spark, flow(spark, tmp_path, "avro_branches"))] == [
        (1, {"member0": {"t": 36_000_000}, "member1": None}),
        (2, {"member0": None, "member1": {"t": 36_000_000_000}}),
    ]
    write_record(spark, tmp_path / "in" / "c.avro", schema(millis, branch("B", "int", "time-millis")), 3, v=(1, first))
    with pytest.raises(BadInputError, match=r"v\.member1\.t is time-micros in .*a\.avro and time-millis in .*c\.avro"):
        apply(spark, tmp_path / "in", format="avro")


def test_a_record_inside_of_itself_is_refused_and_may_be_left_out(spark: SparkSession, tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "parent", "type": ["null", "r"]}]
    schemas = [json.dumps({"type": "record", "name": "r", "fields": fields[:count]}) for count in (2, 1)]
    folder = tmp_path / "in"
    write_record(spark, folder / "a.avro", schemas[0], 1)
    with pytest.raises(BadInputError, match=r"a\.avro has a record of avro inside of itself.*avroSchema"):
        apply(spark, folder, format="avro")
    apply(spark, folder, "avro_left_out", format="avro", options={"avroSchema": schemas[1]})
    assert rows_of(spark, flow(spark, tmp_path, "avro_left_out")) == [{"id": 1}]


@pytest.mark.parametrize("names_a_file", [False, True], ids=["avroSchema", "avroSchemaUrl"])
@pytest.mark.parametrize(
    ("written", "read", "told"),
    [
        ("timestamp-millis", "timestamp-micros", "v' as timestamp-millis.* as timestamp-micros"),
        ("timestamp-micros", "timestamp-millis", "v' as timestamp-micros.* as timestamp-millis"),
        ("timestamp-millis", "timestamp-millis", None),
    ],
)
def test_a_schema_for_all_files_has_the_units_of_each(
    spark: SparkSession, tmp_path: Path, written: str, read: str, told: str | None, *, names_a_file: bool
) -> None:
    def schema(unit: str) -> str:
        kind = {"type": "long", "logicalType": unit}
        fields = [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", kind]}]
        return json.dumps({"type": "record", "name": "topLevelRecord", "fields": fields})

    rows = spark.sql("SELECT 1L AS id, TIMESTAMP '2024-01-01 00:00:00' AS v").coalesce(1)
    rows.write.format("avro").option("avroSchema", schema(written)).save(str(tmp_path / "in"))
    given = tmp_path / "given.avsc"
    given.write_text(schema(read))
    options = {"avroSchemaUrl": str(given)} if names_a_file else {"avroSchema": schema(read)}
    if told is not None:
        with pytest.raises(BadInputError, match=told):
            apply(spark, tmp_path / "in", format="avro", options=options)
        return
    name = f"avro_given_{names_a_file}".lower()
    apply(spark, tmp_path / "in", name, format="avro", options=options)
    assert [row["v"].year for row in rows_of(spark, flow(spark, tmp_path, name))] == [2024]

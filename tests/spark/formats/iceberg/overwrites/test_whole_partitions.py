"""Whole partitions that Iceberg's own proof leaves out, replaced; and what is none, refused."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from tests.spark.overwrite_flow import overwrite
from tests.spark.upsert_flow import Flow, InterruptedProgress

DAYS = ["1969-11-30", "1969-12-01", "1969-12-31", "1970-01-01", "2026-11-01", "2026-11-02"]
TIMES = ["1969-12-30T23:59:59.999999", "1969-12-31T00:00:00", "1969-12-31T23:59:59.999999", "1970-01-01T00:00:00"]
NUMBERS = [-21, -20, -11, -10, -1, 0]


def filled(flow: Flow, kind: str, transform: str, values: list[Any]) -> None:
    """Make a table with a row for each value, and an inbox with the one of the batch."""
    flow.catalog()
    flow.spark.sql(f"CREATE TABLE {flow.table} (id BIGINT, v {kind}) USING iceberg PARTITIONED BY ({transform})")
    rows = ", ".join(f"(1, CAST('{value}' AS {kind}))" for value in values)
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES {rows}, (1, NULL)")


def load(flow: Flow, kind: str, value: Any, where: str) -> Any:
    """Overwrite by one row."""
    flow.arrive("rows.jsonl", {"id": 2, "v": value})
    source = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=f"id BIGINT, v {kind}")
    return overwrite(flow, where, "", source=source, where=where)


@pytest.mark.parametrize(
    ("kind", "transform", "values", "where", "replaced"),
    [
        ("DATE", "days(v)", DAYS, "v = '2026-11-01'", DAYS[4:5]),
        ("DATE", "days(v)", DAYS, "V = '2026-11-01'", DAYS[4:5]),
        ("DATE", "days(v)", DAYS, "v IN (DATE '1969-12-31', DATE '2026-11-02')", [DAYS[2], DAYS[5]]),
        ("DATE", "months(v)", DAYS, "v >= '1969-12-01' AND v <= '1969-12-31'", DAYS[1:3]),
        ("DATE", "years(v)", DAYS, "v >= '1969-01-01' AND v < '1970-01-01'", DAYS[:3]),
        ("TIMESTAMP_NTZ", "days(v)", TIMES, "v >= '1969-12-31' AND v < '1970-01-01'", TIMES[1:3]),
        ("TIMESTAMP", "hours(v)", TIMES, "v >= '1969-12-31 00:00:00' AND v < '1969-12-31 01:00:00'", TIMES[1:2]),
        ("INT", "truncate(10, v)", NUMBERS, "v >= -20 AND v < 0", NUMBERS[1:5]),
        ("BIGINT", "truncate(10, v)", NUMBERS, "v <= -11", NUMBERS[:3]),
    ],
)
def test_the_rows_of_whole_partitions_are_replaced_and_no_others(
    flow: Flow, kind: str, transform: str, values: list[Any], where: str, replaced: list[Any]
) -> None:
    filled(flow, kind, transform, values)
    report = load(flow, kind, replaced[0], where)
    assert (report.rows_replaced, report.rows_written) == (len(replaced), 1)
    stayed = [(1, text_of(value)) for value in values if value not in replaced]
    expected = [*stayed, (1, "None"), (2, text_of(replaced[0]))]
    assert sorted((row["id"], text_of(row["v"])) for row in flow.records()) == sorted(expected)


REGIONS = ["de", "eu", "eu-west", "us"]


@pytest.mark.parametrize(
    ("kind", "transform", "values", "where", "replaced"),
    [
        ("DATE", "v", DAYS, "v NOT BETWEEN '1969-12-31' AND '2026-11-01'", [*DAYS[:2], DAYS[5]]),
        ("DATE", "days(v)", DAYS, "v < '1969-12-01' OR v > '2026-11-01'", [DAYS[0], DAYS[5]]),
        ("DATE", "days(v)", DAYS, "NOT (v >= '1969-12-01' AND v <= '2026-11-01')", [DAYS[0], DAYS[5]]),
        ("STRING", "v", REGIONS, "v < 'e' OR v >= 'u'", ["de", "us"]),
        ("STRING", "v", REGIONS, "v <= 'de' OR v = 'us'", ["de", "us"]),
        ("INT", "truncate(10, v)", NUMBERS, "v <= -21 OR v >= 0", [-21, 0]),
        ("STRING", "v", REGIONS, "v LIKE 'eu%'", ["eu", "eu-west"]),
        ("STRING", "v", REGIONS, "v LIKE 'eu%' OR v = 'us'", ["eu", "eu-west", "us"]),
        ("STRING", "v", REGIONS, "v NOT LIKE 'eu%'", ["de", "us"]),
        ("STRING", "truncate(2, v)", REGIONS, "v LIKE 'eu%'", ["eu", "eu-west"]),
        ("STRING", "truncate(2, v)", REGIONS, "v LIKE 'e%' OR v IS NULL", ["eu", "eu-west", None]),
        ("STRING", "truncate(1, v)", REGIONS, "v >= 'e' AND v < 'f'", ["eu", "eu-west"]),
        ("STRING", "truncate(3, v)", REGIONS, "v LIKE 'eu%' OR v = 'us'", ["eu", "eu-west", "us"]),
        ("STRING", "v", ["a\U0010ffff", "a\U0010ffffb", "b"], "v LIKE 'a\U0010ffff%'", ["a\U0010ffff", "a\U0010ffffb"]),
    ],
)
def test_a_partition_that_is_null_stays_where_sql_does_not_know(
    flow: Flow, kind: str, transform: str, values: list[Any], where: str, replaced: list[Any]
) -> None:
    filled(flow, kind, transform, values)
    if None not in replaced:
        with pytest.raises(BadInputError, match="1 rows of the batch are in partitions of which"):
            load(flow, kind, None, where)
        (flow.inbox / "rows.jsonl").unlink()
    assert load(flow, kind, replaced[0], where).rows_replaced == len(replaced)
    stayed = [(1, text_of(value)) for value in [*values, None] if value not in replaced]
    assert sorted((row["id"], text_of(row["v"])) for row in flow.records()) == sorted(
        [*stayed, (2, text_of(replaced[0]))]
    )


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("DATE", "v IS DISTINCT FROM DATE '2026-11-01'"),
        ("DATE", "NOT v <=> DATE '2026-11-01'"),
        ("BOOLEAN", "v IS NOT TRUE"),
    ],
)
def test_what_is_true_of_null_is_refused_where_it_cannot_be_told(flow: Flow, kind: str, where: str) -> None:
    filled(flow, kind, "v", ["2026-11-01", "2026-11-02"] if kind == "DATE" else ["true", "false"])
    with pytest.raises(InvalidSpecError, match="cannot be told of whole partitions"):
        load(flow, kind, "2026-11-02" if kind == "DATE" else False, where)


def text_of(value: Any) -> str:
    """Return a value of JSON, or of PyIceberg, as one text."""
    if isinstance(value, str) and "T" in value:
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


@pytest.mark.parametrize(
    ("transform", "where"),
    [
        # No row of the day is outside, and one may come.
        ("days(v)", "v >= '1969-12-31 06:00:00' AND v < '1970-01-01'"),
        ("hours(v)", "v = '1969-12-31 12:00:00'"),
        ("days(v)", "v >= '1969-12-31' AND v < '1970-01-01' AND id = 1"),
    ],
)
def test_some_hours_of_a_day_before_1970_are_no_whole_partition(flow: Flow, transform: str, where: str) -> None:
    filled(flow, "TIMESTAMP", transform, ["1969-12-31T12:00:00"])
    with pytest.raises(InvalidSpecError, match="does not select all rows of partition v_"):
        load(flow, "TIMESTAMP", "1969-12-31T12:00:00", where)


@pytest.mark.parametrize("where", ["v >= 'eu' AND v < 'eu-x'", "v = 'eu'", "v > 'eu' AND v < 'ev'"])
def test_some_texts_of_one_beginning_are_no_whole_partition(flow: Flow, where: str) -> None:
    value = "eu-west" if ">" in where else "eu"
    filled(flow, "STRING", "truncate(2, v)", [value])
    with pytest.raises(InvalidSpecError, match="does not select all rows of partition v_trunc=eu"):
        load(flow, "STRING", value, where)


def test_a_file_of_a_writer_that_rounded_towards_1970_is_not_taken_for_a_day(flow: Flow) -> None:
    filled(flow, "TIMESTAMP", "days(v)", TIMES[3:])
    flow.spark.sql(f"CREATE TABLE {flow.table}_files (id BIGINT, v TIMESTAMP) USING iceberg")
    times = "(1, TIMESTAMP '1969-12-30 12:00:00'), (1, TIMESTAMP '1969-12-31 12:00:00')"
    flow.spark.sql(f"INSERT INTO {flow.table}_files SELECT /*+ COALESCE(1) */ * FROM VALUES {times}")
    java: Any = flow.spark._jvm
    load_table = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
    session = flow.spark._jsparkSession
    other, table = (load_table(session, name) for name in (f"{flow.table}_files", flow.table))
    file = other.newScan().includeColumnStats().planFiles().iterator().next().file()
    builder = java.org.apache.iceberg.DataFiles.builder(table.spec())
    placed = builder.withPath(file.location()).withFormat("parquet").withFileSizeInBytes(file.fileSizeInBytes())
    bounds = (None, file.valueCounts(), file.nullValueCounts(), None, file.lowerBounds(), file.upperBounds())
    metrics = java.org.apache.iceberg.Metrics(file.recordCount(), *bounds)
    table.newAppend().appendFile(placed.withMetrics(metrics).withPartitionPath("v_day=1969-12-31").build()).commit()
    flow.spark.sql(f"REFRESH TABLE {flow.table}")
    with pytest.raises(InvalidSpecError, match="does not select all rows of partition v_day=1969-12-31"):
        load(flow, "TIMESTAMP", "1969-12-31T12:00:00", "v >= '1969-12-31' AND v < '1970-01-01'")


def test_the_least_number_is_in_a_partition_out_of_order_which_no_range_is_told_of(flow: Flow) -> None:
    filled(flow, "INT", "truncate(10, v)", [-5])
    with pytest.raises(BadInputError, match="1 rows of the batch are in partitions of which"):
        load(flow, "INT", -(2**31), "v < 0")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (1, {-(2**31)})")
    for where in ("v < 0", "v >= 0"):
        with pytest.raises(InvalidSpecError, match="v_trunc=2147483646, out of order"):
            load(flow, "INT", -5, where)
    assert load(flow, "INT", -5, "true").rows_replaced == 3


@pytest.mark.parametrize("allow_rows", [False, True])
def test_a_predicate_means_the_columns_that_have_its_names_when_rows_go(flow: Flow, allow_rows: bool) -> None:
    flow.catalog()
    columns = "id BIGINT, v DATE, w DATE"
    flow.spark.sql(f"CREATE TABLE {flow.table} ({columns}) USING iceberg PARTITIONED BY (days(v))")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (1, DATE '2026-11-01', NULL)")
    if allow_rows:
        flow.spark.sql(f"INSERT INTO {flow.table} VALUES (2, DATE '2026-10-01', DATE '2026-11-01')")

    def swap() -> None:
        for name, other in (("v", "x"), ("w", "v"), ("x", "w")):
            flow.spark.sql(f"ALTER TABLE {flow.table} RENAME COLUMN {name} TO {other}")

    flow.arrive("rows.jsonl", {"id": 3, "v": "2026-11-01", "w": None})
    source = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=columns)
    arguments: dict[str, Any] = {"source": source, "where": "v = '2026-11-01'", "allow_rows": allow_rows}
    progress = InterruptedProgress(at="commit", then=swap)
    if allow_rows:
        assert overwrite(flow, "run", "", progress, **arguments).attempts == 2
    else:
        with pytest.raises((InvalidSpecError, BadInputError), match="does not select all rows"):
            overwrite(flow, "run", "", progress, **arguments)
    # As if the columns had changed their names before the run.
    rows = flow.loaded().scan().to_arrow().to_pylist()
    assert sorted((row["id"], str(row["v"]), str(row["w"])) for row in rows) == [
        (1, "None", "2026-11-01"),
        *([(3, "2026-11-01", "None")] if allow_rows else []),
    ]

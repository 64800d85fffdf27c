"""A ``where`` that may come from people: what is more than comparisons is refused before any of it is run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from airflow_lake_provider.spark_jobs.sql.parsed_tree import parse_expression
from airflow_lake_provider.spark_jobs.sql.predicate import check_predicate
from tests.spark.maintained_table import MaintainedTable
from tests.spark.row_change_flow import delete, rows_outside, update
from tests.spark.spark_syntax import parses
from tests.spark.sql.predicate_attacks import ATTACKS
from tests.spark.sql.spark_traces import SparkTraces

_GEO = StructType().add("lat", "double")
_PLACE = StructType().add("zip-code", "string").add("geo", _GEO)
SCHEMA = StructType().add("id", "long").add("region", "string").add("amount", "long").add("place", _PLACE)

_VARIABLE = "DECLARE OR REPLACE VARIABLE lake_variable INT DEFAULT 1"


@pytest.fixture
def traces(spark: SparkSession, tmp_path: Path) -> SparkTraces:
    return SparkTraces(spark, tmp_path / "canary")


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> MaintainedTable:
    made = MaintainedTable(spark)
    made.append(0, 10)
    if parses(spark, _VARIABLE):
        spark.sql(_VARIABLE)
    return made


def _compaction(table: MaintainedTable, where: str) -> None:
    compact_table(table.spark, table.compaction(where=where), Progress())


TAKERS: dict[str, Callable[[MaintainedTable, str], object]] = {
    "deletion": lambda table, where: delete(table, where=where),
    "update": lambda table, where: update(table, assignments={"amount": "1"}, where=where),
    "compaction": _compaction,
    "changes": lambda table, where: read_changes(table.spark, table.name, None, None, where=where, mode="upserts"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_by_its_name_and_nothing_of_it_is_run(
    table: MaintainedTable, traces: SparkTraces, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    text, part = ATTACKS[name]
    where = text.replace("{canary}", str(traces.canary)).replace("{table}", table.name)
    for taker, take in TAKERS.items():
        with traces.none_left(), pytest.raises(InvalidSpecError) as refused:
            take(table, where)
        message = str(refused.value)
        assert re.search(part, message), (taker, message)
        assert "Allowed are columns of the table" in message
        assert len(message) < 2_500
        assert not [value for value in traces.values() if value in message]
        if taker == "deletion":
            printed = capfd.readouterr()
            told = message + printed.out + printed.err
            assert "withheld" in message
            assert not re.search(r"touch|canary|setProperty|PATH|FROM VALUES|lake_variable|UNICODE_CI", told)
    assert rows_outside(table) == table.rows


def test_there_are_enough_attacks() -> None:
    assert len(ATTACKS) >= 60


# What a person may write, and what Spark makes of it.
TAKEN = [
    "id = 1 AND NOT (region <> 'n' OR amount IS NULL)",
    "ID >= 1 AND Amount <= 2 AND id <=> NULL",
    "id IN (1, -2, 3.5, CAST('4' AS BIGINT), - (5)) OR id NOT IN (7)",
    "region LIKE 'n%' AND region NOT LIKE 'a!%' ESCAPE '!'",
    "id BETWEEN 1 AND 3 OR id NOT BETWEEN 5 AND 6",
    "region = 'a' 'b' OR region = r'\\' OR region = \"x\"",
    "DATE '2020-01-01' < CAST(region AS DATE) OR CAST(region AS TIMESTAMP) > TIMESTAMP '2020-01-01'",
    "region = '\\u0024{env:PATH}' OR region = '$ {x}' OR region = 'it''s' OR region = '/* -- '",
    "place.`zip-code` = '1' AND `place`.geo.lat < 3.5e0",
    "true",
    "id = amount",
    "region IS DISTINCT FROM 'x' AND (id = 1) IS TRUE -- why",
    "id = 1 /* of /* the */ order */",
    "region = X'1F' OR amount = 1BD",
    "((((((((((id = 1))))))))))",
]


@pytest.mark.parametrize("where", TAKEN)
def test_what_a_person_may_write_is_taken(spark: SparkSession, traces: SparkTraces, where: str) -> None:
    with traces.none_left():
        check_predicate(spark, where, SCHEMA, "shop.orders")


@pytest.mark.parametrize("fields", ["-1", "0", "1"])
def test_what_a_session_writes_of_its_plans_changes_no_name(spark: SparkSession, fields: str) -> None:
    # Spark asks the session that is active in the thread of the JVM.
    spark.conf.set("spark.sql.debug.maxToStringFields", fields)
    try:
        for where in TAKEN:
            check_predicate(spark, where, SCHEMA, "shop.orders")
    finally:
        spark.conf.unset("spark.sql.debug.maxToStringFields")


def test_a_column_under_the_name_of_a_function_is_the_column(spark: SparkSession) -> None:
    check_predicate(spark, "current_user = 'x'", StructType().add("current_user", "string"), "shop.orders")


def test_between_of_the_session_is_not_called(spark: SparkSession) -> None:
    # Its functions are its own.
    other = spark.newSession()
    if "between" not in str(parse_expression(other, "id BETWEEN 1 AND 2")):
        pytest.skip("this Spark makes two comparisons of BETWEEN")
    other.udf.register("between", lambda *_: True, "boolean")
    with pytest.raises(InvalidSpecError, match="a function"):
        check_predicate(other, "id BETWEEN 1 AND 2", SCHEMA, "shop.orders")
    check_predicate(spark, "id BETWEEN 1 AND 2", SCHEMA, "shop.orders")


def test_a_thousand_values_are_checked_in_less_than_a_second(spark: SparkSession) -> None:
    listed = "id IN (" + ", ".join(map(str, range(1_000))) + ")"
    either = " OR ".join(f"id = {number} AND place.geo.lat = {number}" for number in range(250))
    for where in ("id = 1", listed, either):
        start = time.monotonic()
        check_predicate(spark, where, SCHEMA, "shop.orders")
        taken = time.monotonic() - start
    assert taken < 5  # on a machine that does other work; 0.2 s on one that does not


_COLUMNS = st.sampled_from(["id", "REGION", "`amount`", "place.geo.lat", "`place`.`zip-code`"])
_CONSTANTS = st.sampled_from(["1", "-2", "'a''b'", "NULL", "true", "DATE '2020-01-01'", "1.5", "'-- /*'", "'('"])
_FORBIDDEN = st.sampled_from(
    [
        "abs(id)",
        "(SELECT 1)",
        "current_user",
        "nothing",
        "id + 1",
        "reflect('java.lang.System', 'setProperty', 'lake.canary', 'set')",
        "IDENTIFIER('id')",
        ":x",
        "x -> x",
        "*",
        "region[0]",
        "CASE WHEN true THEN 1 END",
        "id.x",
        "'${env:PATH}'",
        "CAST(id AS ARRAY<INT>)",
        "(FROM VALUES (5) AS v(x) MAP x USING 'touch /tmp/lake-canary' AS (k BIGINT))",
    ]
)
_FORMS = ["{0} = {1}", "{0} <> {1}", "{0} <=> {1}", "{0} LIKE {1}", "{0} BETWEEN {1} AND {0}", "NOT {1} < {0}"]
_UNARY = ["{0} IS NULL", "CAST({0} AS STRING) IS NOT NULL", "-{0} > 1", "{0} IN (1, 'a')"]
_JOINED = ["({0}) AND ({1})", "({0}) OR ({1})", "NOT ({0}) OR {1}", "({0}) /* ' */ AND -- '\n ({1})"]


def _filled(forms: list[str], operands: st.SearchStrategy[tuple[str, bool]]) -> st.SearchStrategy[tuple[str, bool]]:
    """A text of one of the forms, and whether all that it is made of is allowed."""
    return st.tuples(st.sampled_from(forms), operands, operands).map(
        lambda drawn: (
            drawn[0].format(drawn[1][0], drawn[2][0]),
            drawn[1][1] and (drawn[2][1] or "{1}" not in drawn[0]),
        )
    )


_OPERANDS = st.one_of(
    st.tuples(_COLUMNS, st.just(True)),
    st.tuples(_CONSTANTS, st.just(True)),
    st.tuples(_COLUMNS, st.just(True)),
    st.tuples(_FORBIDDEN, st.just(False)),
)
_PREDICATES = st.recursive(
    st.one_of(_filled(_FORMS, _OPERANDS), _filled(_UNARY, _OPERANDS)),
    lambda inner: _filled(_JOINED, inner),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=_PREDICATES)
def test_a_predicate_is_taken_exactly_if_all_its_parts_are_allowed(
    spark: SparkSession, traces: SparkTraces, drawn: tuple[str, bool]
) -> None:
    where, is_allowed = drawn
    with traces.none_left():
        expected = nullcontext() if is_allowed else pytest.raises(InvalidSpecError, match="Allowed are")
        with expected:
            check_predicate(spark, where, SCHEMA, "shop.orders")
    assert not Path("/tmp/lake-canary").exists()


def test_with_allow_sql_a_where_is_code_and_still_one_expression(table: MaintainedTable) -> None:
    report: Any = update(table, "sql", assignments={"amount": "amount + 0"}, where="abs(id) = 2", allow_sql=True)
    assert report.rows_updated == 1
    for where in ("id = 1; DROP TABLE x", "id = 1) OR (true"):
        with pytest.raises(InvalidSpecError, match="not one SQL expression"):
            update(table, "sql", assignments={"amount": "1"}, where=where, allow_sql=True)
    with pytest.raises(InvalidSpecError, match="its text is withheld") as refused:
        delete(table, "sql", where="id = 4711 4712 4713", allow_sql=True)
    assert "4711" not in str(refused.value)


_TIMES = StructType().add("d", "date").add("n", "timestamp_ntz").add("t", "timestamp").add("s", "string")
# Of each Spark would drop a part, and find rows that the text does not name.
_DROPPED = {
    "d = '2026-01-02T03:04:05'": "a time of day",
    "'2026-01-02 03:04' = d": "a time of day",
    "NOT (d >= '2026-01-02 garbage')": "a time of day",
    "d IN ('2026-01-02', '2026-01-02T00:00:01Z')": "a time of day",
    "d BETWEEN '2026-01-02' AND '2026-01-03 23:59:59'": "a time of day",
    "CAST(t AS DATE) = '2026-01-02 03:04:05'": "a time of day",
    "n = '2026-01-02T03:04:05+02:00'": "a time zone",
    "n < '2026-01-02 03:04:05 Europe/Berlin'": "a time zone",
    "n <=> '2026-01-02T03:04:05Z'": "a time zone",
    "t = '2026-01-02T03:04:05.123456789'": "nanoseconds",
}
_KEPT = (
    "d = '2026-01-02' OR d = '2026-1-2' OR d > ' 2026-01-02 ' OR d < '2026-01-02T00:00:00.000Z'",
    "d = DATE '2026-01-02' AND d > TIMESTAMP '2026-01-02 03:04:05' AND d = '2026-01-02 00:00'",
    "n = '2026-01-02T03:04:05.123456' AND n > '2026-01-02' AND n = '2026-01-02 03:04'",
    "t = '2026-01-02T03:04:05+02:00' AND t > '2026-01-02 03:04:05.123456000 Europe/Berlin'",
    "s = '2026-01-02T03:04:05' AND s LIKE '2026-01-02 03%'",
)


@pytest.mark.parametrize("where", _DROPPED)
def test_a_text_of_which_a_comparison_drops_a_part_is_refused(spark: SparkSession, where: str) -> None:
    with pytest.raises(
        InvalidSpecError, match=f"where was refused for a text with {_DROPPED[where]}, which Spark drops"
    ):
        check_predicate(spark, where, _TIMES, "shop.orders")


@pytest.mark.parametrize("where", _KEPT)
def test_a_text_that_is_compared_as_it_is_written_is_taken(spark: SparkSession, where: str) -> None:
    check_predicate(spark, where, _TIMES, "shop.orders")

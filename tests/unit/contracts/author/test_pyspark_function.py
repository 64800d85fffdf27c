"""Functions of an author's as sources: what they take, how they travel, and who may name one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.lake_tables import Changes, LakeTable
from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Debezium, Files, source
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.json_codec import from_json, to_json
from airflow_lake_provider.contracts.specs.append import AppendSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec

RUN = RunIdentity.of("dag", "run", "task", "-1")
ORDERS = PySparkFunction(
    "shop.loads:orders",
    over={"orders": Changes("shop.orders"), "days": Files("in/*.csv"), "names": LakeTable("shop.names")},
    params={"since": "{{ ds }}", "rates": [1, 2.5, None]},
    name="orders",
)


def spec(read: Any, **changes: Any) -> UpsertSpec:
    return UpsertSpec(catalog="lake", table="mart.orders", run=RUN, source=read, keys=("id",), **changes)


def test_a_function_travels_with_its_inputs_its_params_and_its_code() -> None:
    shipped = ORDERS.with_code(lambda function: f"# {function}")
    assert shipped.function_code == "# shop.loads:orders"
    made = spec(shipped)
    assert from_json(UpsertSpec, to_json(made)).checked() == made
    assert list(made.source.inputs) == ["orders", "days", "names"]
    assert {"read-changes", "consumer-tags", "lake-table-source"} <= set(made.needs)
    assert ORDERS.is_change_stream
    assert made.source.files is None


def test_a_batch_stays_the_same_one_when_the_code_has_changed() -> None:
    first = spec(ORDERS.with_code(lambda _: "1")).digest_text()
    assert first == spec(ORDERS.with_code(lambda _: "2")).digest_text()
    assert spec(PySparkFunction("shop.loads:others", over=ORDERS.over, name="orders")).digest_text() != first


def test_params_are_rendered_and_the_function_is_no_template() -> None:
    rendered = ORDERS.rendered(lambda value: {**value, "since": "2026-11-27"} if "since" in value else value)
    assert rendered.params == {"since": "2026-11-27", "rates": [1, 2.5, None]}
    with pytest.raises(InvalidSpecError, match=r"PySparkFunction\.function is not templated"):
        PySparkFunction("{{ params.function }}")


@pytest.mark.parametrize(
    "plain",
    [
        {"type": "pyspark-function", "function": "os:system"},
        ORDERS.to_mapping(),
    ],
)
def test_no_form_and_no_xcom_names_a_function(plain: dict[str, Any]) -> None:
    for given in (plain, {"type": "query", "sql": "SELECT 1", "over": {"a": plain}}):
        with pytest.raises(InvalidSpecError, match="runs code, which no mapping may name; make the object in the DAG"):
            source(given)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"function": "orders"}, r"function must be 'package\.module:function', got 'orders'"),
        ({"function": "a b:c"}, "function must be"),
        ({"function": "loads:__import__('os')"}, "function must be"),
        ({"over": Files("in/*.csv")}, "over must map names to sources"),
        ({"over": {"type": "files", "path": "a.csv"}}, "over must map names to sources"),
        (
            {"over": {"a": Debezium("in/*.json", table="t")}},
            "must be Files, a LakeTable, Changes, a JdbcTable or a KafkaTopic",
        ),
        (
            {"over": {"a": Query("SELECT 1", over="a.csv")}},
            "must be Files, a LakeTable, Changes, a JdbcTable or a KafkaTopic",
        ),
        ({"over": {"a": Files("a.csv", name="n")}}, "name and on_source_change belong to the PySparkFunction"),
        ({"params": {"at": datetime(2026, 1, 1)}}, "params travel to the driver as JSON, and cannot: "),  # noqa: DTZ001
        ({"params": {"rate": float("nan")}}, "params travel to the driver as JSON, and cannot: "),
        ({"params": [1]}, "params must map a name to a value"),
    ],
)
def test_what_no_function_can_be_is_refused_when_it_is_made(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        PySparkFunction(**{"function": "shop.loads:orders", **arguments})


def test_a_function_without_inputs_needs_a_batch_id_and_rows_to_delete_cannot_come_from_one() -> None:
    alone = PySparkFunction("shop.loads:orders", name="orders")
    with pytest.raises(
        InvalidSpecError, match=r"nothing tells the batches of shop\.loads:orders apart; declare in over"
    ):
        spec(alone)
    assert spec(alone, batch_id="2026-11-27").source.inputs == {}
    with pytest.raises(InvalidSpecError, match="keys are plain rows of Files or a LakeTable"):
        DeleteRowsSpec(catalog="lake", table="mart.orders", run=RUN, keys_from=alone, keys=("id",))


def test_changes_below_a_function_are_applied_and_not_appended() -> None:
    with pytest.raises(InvalidSpecError, match="an append takes rows"):
        AppendSpec(catalog="lake", table="mart.orders", run=RUN, source=ORDERS)


def test_inputs_that_spark_3_5_does_not_read_are_refused_below_a_function() -> None:
    xml = PySparkFunction("shop.loads:orders", over={"a": Files("in/*.xml", options={"rowTag": "order"})})
    with pytest.raises(UnsupportedError, match=r"Spark 3\.5"):
        xml.refuse_spark("3.5.9")

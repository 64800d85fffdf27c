"""A param of the type ``array``, which a template writes as the text of a list."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider import LakeTable, SchemaContract
from airflow_lake_provider.contracts.argument_validation import listed
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.contracts.table_name import TablePatterns
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.maintenance_plan import SUMMARY, LakeMaintenancePlanOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


def rendered(operator: type[Any], context: Context, value: object, *, native: bool, **arguments: Any) -> Any:
    with DAG("orders", schedule=None, render_template_as_native_obj=native):
        task = operator(task_id="t", **arguments)
    of_run: Any = {**context, "params": {"x": value}}
    task.render_template_fields(of_run)
    return task


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("template", ["{{ params.x }}", "{{ params.x | tojson }}", " {{ params.x }} "])
def test_a_form_may_name_several_tables_of_a_plan(
    context: Context, pushed: dict[str, Any], template: str, native: bool
) -> None:
    given = ["shop.*", "!shop.gone"]
    task = rendered(LakeMaintenancePlanOperator, context, given, native=native, tables=template)
    (job,) = task.execute(context)
    assert job["name"] == "maintenance of shop.orders"
    assert pushed[SUMMARY]["tables"] == 4
    assert task.tables == given


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("given", [[], [["shop.*"]], [None], [1], "[", "[shop.*]", "[" * 100_000, "['shop.*'" * 9])
def test_what_is_no_list_of_patterns_is_refused_as_before(context: Context, given: object) -> None:
    task = rendered(LakeMaintenancePlanOperator, context, given, native=False, tables="{{ params.x }}")
    with pytest.raises(AirflowFailException, match=r"no patterns of table names"):
        task.execute(context)


@pytest.mark.usefixtures("lake_connection", "spark_connection")
@pytest.mark.parametrize("native", [False, True])
def test_a_form_may_name_keys(context: Context, native: bool) -> None:
    arguments: dict[str, Any] = {"table": "shop.orders", "source": "in/*.parquet", "keys": "{{ params.x }}"}
    task = rendered(LakeUpsertOperator, context, ["id", "it's"], native=native, **arguments)
    spec = task.written()
    assert isinstance(spec, UpsertSpec)
    assert tuple(spec.keys) == ("id", "it's")


# Jinja itself reads the text of a native template, as Python.
@pytest.mark.usefixtures("lake_connection", "spark_connection")
@pytest.mark.parametrize("template", ["{{ params.x }}", "{{ params.x | tojson }}"])
def test_a_name_of_any_characters_comes_through_either_text(context: Context, template: str) -> None:
    given = ["id\U0001f600", "a/b", "a&b", "é", "it's", 'say "x"', "a\\b"]
    arguments: dict[str, Any] = {"table": "shop.orders", "source": "in/*.parquet", "keys": template}
    spec = rendered(LakeUpsertOperator, context, given, native=False, **arguments).written()
    assert list(spec.keys) == given


@pytest.mark.usefixtures("lake_connection", "spark_connection")
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("template", ["{{ params.x }}", "{{ params.x | tojson }}"])
def test_a_form_may_name_the_columns_of_an_object_beside_keys_that_their_author_wrote(
    context: Context, template: str, native: bool
) -> None:
    given: list[tuple[type[Any], str, dict[str, Any]]] = [
        (LakeUpsertOperator, "source.columns", {"source": LakeTable("raw.orders", columns=template, name="raw")}),
        (
            LakeUpsertOperator,
            "schema_contract.exclude_columns",
            {"source": "in/*.parquet", "schema_contract": SchemaContract(exclude_columns=template)},
        ),
        (
            LakeDeleteRowsOperator,
            "keys_from.columns",
            {"keys_from": LakeTable("raw.gone", columns=template)},
        ),
    ]
    for operator, place, arguments in given:
        key = "i" if place == "schema_contract.exclude_columns" else "id"
        task = rendered(operator, context, ["id", "v"], native=native, table="shop.orders", keys=[key], **arguments)
        assert tuple(attrgetter(place)(task.build_spec(context))) == ("id", "v"), place


def test_json_may_escape_a_slash() -> None:
    assert listed(r'["a\/b"]') == ["a/b"]


@pytest.mark.parametrize("text", ["a.b", "[a]", "a['b']"])
def test_a_text_that_is_no_list_stays_one(text: str) -> None:
    if text == "a.b":
        assert TablePatterns.parse(text).included == (text,)
        return
    with pytest.raises(InvalidSpecError):
        TablePatterns.parse(text)

"""A key of ``conf`` that no param has is told with the param that it may be meant for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pendulum
import pytest
from airflow.sdk import DAG, Param
from structlog.testing import capture_logs

from airflow_lake_provider.contracts.errors import LakeProviderError
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.rendered_arguments import unknown_conf

if TYPE_CHECKING:
    from airflow.sdk import Context

PARAMS = {"table": Param("shop.orders", type="string"), "older_than": Param("P5D", type="string")}


def job(params: dict[str, Any] | None = None, **arguments: Any) -> LakeCompactionOperator:
    with DAG("maintain", schedule=None, start_date=pendulum.datetime(2026, 1, 1), params=params):
        return LakeCompactionOperator(task_id="compact", table="shop.orders", **arguments)


def said(operator: LakeCompactionOperator, context: Context, conf: Any) -> str | None:
    context["dag_run"] = SimpleNamespace(conf=conf)
    return unknown_conf(operator, context)


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"tabel": "shop.products"}, ["'tabel' (did you mean 'table'?)"]),
        ({"older_thn": "P9D", "table": "x.y"}, ["'older_thn' (did you mean 'older_than'?)"]),
        ({"zzz": 1}, ["DAG maintain has: 'zzz'. They change nothing", "Params are older_than, table"]),
        ({"tabel": 1, "zzz": 1}, ["has: 'tabel' (did you mean 'table'?), 'zzz'. They change nothing"]),
        ({"z" * 9000: 1}, ["'z" + "z" * 59 + "' and 8940 characters more"]),
        ({"Table": "x.y", "olderThan": "P1D"}, ["'Table' (did you mean 'table'?)", "'olderThan' (did you mean"]),
        ({1: 2}, ["'1'"]),
    ],
)
def test_unknown_keys_are_named(context: Context, conf: Any, words: list[str]) -> None:
    found = said(job(PARAMS), context, conf)
    assert found is not None
    assert [word for word in words if word not in found] == []


def test_of_many_unknown_keys_ten_are_named(context: Context) -> None:
    found = said(job(PARAMS), context, {f"x{number}": 1 for number in range(10_000)})
    assert found is not None
    assert "and 9,990 more. They change nothing" in found
    assert len(found) < 500


@pytest.mark.parametrize("conf", [None, {}, {"table": "x.y"}, {"older_than": "P1D", "table": "x.y"}, []])
def test_known_keys_are_not(context: Context, conf: Any) -> None:
    assert said(job(PARAMS), context, conf) is None


def test_a_dag_without_params_and_a_param_of_the_task_say_nothing(context: Context) -> None:
    assert said(job(), context, {"anything": 1}) is None
    assert said(job(params={"level": Param("auto")}), context, {"level": "full"}) is None
    assert said(LakeCompactionOperator(task_id="t", table="shop.orders"), context, {"anything": 1}) is None


def test_the_task_says_it_whatever_becomes_of_it(context: Context) -> None:
    operator = job(PARAMS)
    context["dag_run"] = SimpleNamespace(conf={"tabel": "x.y"}, run_after=None, start_date=None, clear_number=0)
    with capture_logs() as logged, pytest.raises(LakeProviderError):
        operator.execute(context)
    assert "did you mean 'table'?" in str(logged)

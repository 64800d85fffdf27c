"""The text of a function's module travels with the job, and a form names no function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider.contracts.author.pyspark_function import PySparkFunction
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.append import LakeAppendOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

OURS = PySparkFunction("airflow_lake_provider.contracts.errors:f", over={"orders": Files("in/*.csv")})


def upsert(source: Any, **arguments: Any) -> LakeUpsertOperator:
    return LakeUpsertOperator(task_id="t", table="shop.orders", source=source, keys=["id"], **arguments)


@pytest.mark.usefixtures("lake_catalog")
def test_the_module_of_a_function_is_shipped_where_the_worker_has_it(context: Context) -> None:
    for job in (upsert(OURS), LakeAppendOperator(task_id="t", table="shop.orders", source=OURS)):
        source = job.build_spec(context).source
        assert isinstance(source, PySparkFunction)
        assert "class LakeProviderError" in str(source.function_code)
        assert source.name == "dag.task"
    for elsewhere in ("marts.revenue:rows", "nowhere:rows"):
        alone = upsert(PySparkFunction(elsewhere), batch_id="mon").build_spec(context).source
        assert isinstance(alone, PySparkFunction)
        assert alone.function_code is None


@pytest.mark.usefixtures("lake_catalog")
def test_a_rendered_source_names_no_function(context: Context) -> None:
    job = upsert("{{ params.source }}")
    job.source = {"type": "pyspark-function", "function": "os:system"}
    with pytest.raises(InvalidSpecError, match="runs code, which no mapping may name"):
        job.build_spec(context)

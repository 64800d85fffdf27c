"""An argument that comes from another task puts the operator behind that task, whether Airflow shows it or not."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_lake_provider.operators.dead_letter_replay import LakeDeadLetterReplayOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.row_expiry import LakeRowExpiryOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

TABLE = {"table": "shop.orders"}
BY_KEYS = {**TABLE, "keys_from": "in/*.parquet", "keys": ["id"]}
UPSERT = {**TABLE, "source": "in/*.parquet", "keys": ["id"]}


@task
def another() -> str:
    return "it"


# Some keep an argument under another name than its author gives.
OPERATORS: dict[type[LakeJobOperator[Any]], dict[str, Any]] = {
    LakeDeleteRowsOperator: BY_KEYS,
    LakeUpsertOperator: UPSERT,
    LakeRowExpiryOperator: {**TABLE, "column": "placed_at", "keep": "P30D"},
    LakePublishBranchOperator: {**TABLE, "branch": "stage"},
}
ARGUMENTS = [
    pytest.param(operator, given, argument.author_name, id=f"{operator.__name__}-{argument.author_name}")
    for operator, given in OPERATORS.items()
    for argument in operator.arguments.values()
    if argument.is_templated and argument.author_name != "where"
]
ARGUMENTS.append(pytest.param(LakeDeleteRowsOperator, TABLE, "where", id="LakeDeleteRowsOperator-where"))


@pytest.mark.parametrize(("operator", "given", "name"), ARGUMENTS)
def test_it_runs_behind_the_task(operator: type[LakeJobOperator[Any]], given: dict[str, Any], name: str) -> None:
    with DAG("d", schedule=None):
        assert operator(task_id="t", **{**given, name: another()}).upstream_task_ids == {"another"}


@pytest.mark.parametrize("name", ["target", "letters", "keys"])
def test_what_becomes_an_argument_of_a_task_is_followed_too(name: str) -> None:
    with DAG("d", schedule=None):
        given: dict[str, Any] = {"target": "shop.orders", name: another()}
        alone = LakeDeadLetterReplayOperator(task_id="alone", **given)
        mapped = LakeDeadLetterReplayOperator.partial(task_id="mapped", **given).expand(lake_conn_id=["a", "b"])
    assert alone.upstream_task_ids == mapped.upstream_task_ids == {"another"}


@pytest.mark.parametrize(("operator", "given", "name"), ARGUMENTS)
def test_mapped_it_runs_behind_the_task(operator: type[LakeJobOperator[Any]], given: dict[str, Any], name: str) -> None:
    of_expansion = "table" if name != "table" else "lake_conn_id"
    with DAG("d", schedule=None):
        fixed = {key: value for key, value in {**given, name: another()}.items() if key != of_expansion}
        mapped = operator.partial(task_id="t", **fixed).expand(**{of_expansion: ["shop.orders"]})
    assert mapped.upstream_task_ids == {"another"}

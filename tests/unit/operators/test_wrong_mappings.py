"""A mapping from XCom that makes no operator fails its instance for good: a retry would have the same one."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.lake_maintenance import LakeMaintenanceOperator
from airflow_lake_provider.operators.maintenance_plan import LakeMaintenancePlanOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from airflow_lake_provider.sensors.lake_snapshot import LakeSnapshotSensor
from tests.unit.operators.mapped import another, rendered

UPSERT = {"table": "shop.orders", "source": "in/*.parquet"}


def refusal(begun: Any, value: Any) -> str:
    """Return why an instance is refused that is mapped over a value from XCom, and not retried."""
    with DAG("mapped", schedule=None) as dag:
        mapped = begun.expand_kwargs(another())
    with pytest.raises(InvalidSpecError) as refused:
        rendered(mapped, dag, value)
    assert isinstance(refused.value, AirflowFailException)
    return str(refused.value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({**UPSERT, "tabel": "x"}, "tabel"),
        ({"source": "in/*.parquet"}, "missing keyword argument 'table'"),
        ({**UPSERT, "keys": ["sku"]}, "already specified argument: keys"),
        ({**UPSERT, "retries": 3}, "already specified argument: retries"),
        ({1: "x"}, "must all be str"),
        ("shop.orders", "not list[str]"),
        (None, "not list[None]"),
    ],
)
def test_a_mapping_from_xcom_that_makes_no_operator_is_refused_without_a_retry(value: Any, why: str) -> None:
    message = refusal(LakeUpsertOperator.partial(task_id="t", keys=["id"]), value)
    assert message.startswith("t: ")
    assert why in message


@pytest.mark.parametrize(
    ("operator", "value"),
    [
        (LakeMaintenanceOperator, {"tasks": [], "tabels": ["shop.*"]}),
        (LakeMaintenancePlanOperator, {"tabels": ["shop.*"]}),
        (LakeSnapshotSensor, {"tabel": "shop.orders"}),
        (LakeSnapshotSensor, {"table": "shop.orders", "timeout": "an hour"}),
    ],
)
def test_so_is_one_for_each_other_operator_and_for_a_sensor(operator: Any, value: Any) -> None:
    message = refusal(operator.partial(task_id="t"), value)
    assert message.startswith("t: what the task is mapped over makes no operator: ")


def test_a_refusal_of_the_operator_itself_keeps_its_words() -> None:
    message = refusal(LakeUpsertOperator.partial(task_id="t", keys=["id"]), {**UPSERT, "table": "orders"})
    assert message.startswith("table name 'orders' is not of the form")

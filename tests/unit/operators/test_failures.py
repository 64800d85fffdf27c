"""Errors that a retry cannot mend end a task for good."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.retry_delays import as_task_failure

ALL = LakeProviderError.__subclasses__()


@pytest.mark.parametrize("cls", ALL)
def test_an_error_keeps_its_class_name_and_words(cls: type[LakeProviderError]) -> None:
    failure = as_task_failure(cls("what happened"))
    assert isinstance(failure, cls)
    assert (type(failure).__name__, str(failure)) == (cls.__name__, "what happened")


@pytest.mark.parametrize("cls", ALL)
def test_exactly_where_a_retry_cannot_help_none_follows(cls: type[LakeProviderError]) -> None:
    error = cls("what happened")
    assert isinstance(as_task_failure(error), AirflowFailException) is not cls.retry_may_help
    assert (as_task_failure(error) is error) is cls.retry_may_help


def test_a_final_failure_stays_itself() -> None:
    final = as_task_failure(LakeProviderError("x"))
    assert as_task_failure(final) is final


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allowed_tables", 5),
        ("allowed_tables", ["{{ ds }}"]),
        ("report_location", "{{ ds }}"),
        ("report_location", 5),
        ("deferrable", "perhaps"),
        ("application", "mine.py"),
    ],
)
def test_a_mapped_task_fails_for_good_over_an_argument_of_every_application(name: str, value: Any) -> None:
    with DAG("d", schedule=None) as dag:
        LakeCompactionOperator.partial(task_id="mapped", retries=3, **{name: value}).expand(table=["shop.orders"])
    mapped: Any = dag.get_task("mapped")
    with pytest.raises(InvalidSpecError, match=name) as refused:
        mapped.unmap({"table": "shop.orders"})
    assert isinstance(refused.value, AirflowFailException)

"""Errors that a retry cannot mend end a task for good."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.errors import LakeProviderError
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

"""Retries wait by the type of error, unless the author has said how long."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.bases.operator import OPERATOR_DEFAULTS

from airflow_lake_provider.contracts.errors import (
    CatalogUnavailableError,
    CommitConflictError,
    JobFailedError,
    LakeProviderError,
    UnknownOutcomeError,
)
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.retry_delays import ErrorRetryPolicy, as_task_failure
from airflow_lake_provider.operators.tags import LakeDropTagOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

ALWAYS = ExceptionRetryPolicy([RetryRule(Exception, retry_delay=timedelta(seconds=1))])
AIRFLOWS: timedelta = OPERATOR_DEFAULTS["retry_delay"]


def plain(**arguments: Any) -> Any:
    return LakeCompactionOperator(task_id="compact", table="shop.orders", **arguments)


def mapped(**arguments: Any) -> Any:
    begun = LakeCompactionOperator.partial(task_id="compact", **arguments)
    return begun.expand(table=["shop.orders"]).unmap({"table": "shop.orders"})


def copied(**arguments: Any) -> Any:
    with DAG("copied", schedule=None) as dag:
        LakeCompactionOperator.partial(task_id="compact", **arguments).expand(table=["shop.orders"])
    found: Any = copy.deepcopy(dag).get_task("compact")
    return found.unmap({"table": "shop.orders"})


def by_default_args(**arguments: Any) -> Any:
    with DAG("defaults", schedule=None, default_args=arguments):
        return plain()


def mapped_by_default_args(**arguments: Any) -> Any:
    with DAG("defaults", schedule=None, default_args=arguments):
        return mapped()


WAYS = [plain, mapped, copied, by_default_args, mapped_by_default_args]


@pytest.mark.parametrize("make", WAYS)
def test_a_task_has_delays_by_error_where_its_author_says_nothing(make: Callable[..., Any]) -> None:
    task = make(retries=2)
    assert isinstance(task.retry_policy, ErrorRetryPolicy)
    assert task.retry_delay == AIRFLOWS


@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize(
    "said", [{"retry_delay": timedelta(seconds=7)}, {"retry_delay": AIRFLOWS}, {"retry_exponential_backoff": 2.0}]
)
def test_an_authors_delay_holds_for_every_error(make: Callable[..., Any], said: dict[str, Any]) -> None:
    task = make(**said)
    assert task.retry_policy is None
    assert task.retry_delay == said.get("retry_delay", AIRFLOWS)


@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize("policy", [ALWAYS, None])
def test_an_authors_policy_takes_the_place_of_ours(
    make: Callable[..., Any], policy: ExceptionRetryPolicy | None
) -> None:
    found = make(retry_policy=policy).retry_policy
    assert (found and found.serialize()) == (policy and policy.serialize())


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (LakeUpsertOperator, {"table": "shop.orders", "source": "/in/*.parquet", "keys": ["id"]}),
        (LakeDropTagOperator, {"table": "shop.orders", "tag": "t"}),
        (LakeApplicationOperator, {"tasks": [{"action": "compaction", "table": "shop.orders"}]}),
    ],
)
def test_every_kind_of_operator_has_them(kind: Any, arguments: dict[str, Any]) -> None:
    assert isinstance(kind(task_id="x", **arguments).retry_policy, ErrorRetryPolicy)


@pytest.mark.parametrize("cls", LakeProviderError.__subclasses__())
def test_a_policy_of_ours_says_how_long_and_never_whether(cls: type[LakeProviderError]) -> None:
    decision = ErrorRetryPolicy().evaluate(cls("x"), try_number=1, max_tries=3)
    has_delay = cls in (CommitConflictError, UnknownOutcomeError, CatalogUnavailableError)
    assert decision.action is (RetryAction.RETRY if has_delay else RetryAction.DEFAULT)
    assert (decision.retry_delay is not None) is has_delay
    # Airflow asks no policy about the others.
    assert cls.retry_may_help or type(as_task_failure(cls("x"))) is not cls


def test_a_conflict_is_retried_soon_and_an_outage_later() -> None:
    delays = [
        ErrorRetryPolicy().evaluate(error("x"), 1, 3).retry_delay
        for error in (CommitConflictError, UnknownOutcomeError, CatalogUnavailableError)
    ]
    assert delays == sorted(map(timedelta, (0, 0, 0), (60, 120, 600)))
    assert ErrorRetryPolicy().evaluate(JobFailedError("x"), 1, 3).retry_delay is None

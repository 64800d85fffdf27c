"""The verdict on the tasks of an application: when it is red, and where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.lake_application import LakeVerdictOperator, lake_application

if TYPE_CHECKING:
    from airflow.sdk import Context

COMPACT = {"action": "compaction", "table": "shop.orders"}
FAILED = {"action": "upsert", "table": "a.b", "outcome": "failed", "error": "BadInputError", "reason": "x"}
DONE = {"action": "upsert", "table": "a.c", "outcome": "applied"}


@pytest.mark.parametrize(
    ("rule", "reports", "is_red"),
    [
        ("any", [DONE, DONE], False),
        ("any", [DONE, FAILED], True),
        ("any", [[DONE], [FAILED]], True),
        ("all", [DONE, FAILED], False),
        ("all", [FAILED, FAILED], True),
        ("never", [FAILED], False),
    ],
)
def test_the_verdict_is_red_by_its_rule(context: Context, rule: str, reports: list[Any], is_red: bool) -> None:
    verdict = LakeVerdictOperator(task_id="v", reports=reports, fail_when=rule)
    if is_red:
        with pytest.raises(AirflowFailException, match=r"tasks failed: upsert of a\.b: BadInputError"):
            verdict.execute(context)
    else:
        verdict.execute(context)


@pytest.mark.parametrize("rule", ["any", "all", "never"])
def test_an_application_that_left_no_reports_is_red_and_said(
    context: Context, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = LakeVerdictOperator(task_id="v", reports=[], fail_when=rule, trigger_rule="all_done")
    verdict.reports = None  # type: ignore[assignment]  # as Airflow renders the output of a task that has failed
    why = "the application has left no reports; the log of its task says why"
    if rule == "never":
        verdict.execute(context)
        assert why in capsys.readouterr().out
    else:
        with pytest.raises(AirflowFailException, match=why):
            verdict.execute(context)


def test_a_group_has_the_application_and_its_verdict_behind_it() -> None:
    with DAG("d", schedule=None) as dag:
        lake_application("nightly", tasks=[COMPACT], fail_when="all", retries=2)
    verdict: Any = dag.get_task("nightly.verdict")
    assert verdict.upstream_task_ids == {"nightly.run"}
    assert (dag.get_task("nightly.run").retries, verdict.fail_when) == (2, "all")
    with pytest.raises(InvalidSpecError, match="fail_when must be one of"), DAG("e", schedule=None):
        lake_application("nightly", tasks=[COMPACT], fail_when="some")

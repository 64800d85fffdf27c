"""The verdict on the tasks of an application: when it is red, and where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.lake_application import (
    LakeApplicationOperator,
    LakeVerdictOperator,
    lake_application,
)
from airflow_lake_provider.operators.lake_maintenance import LakeMaintenanceVerdictOperator
from tests.unit.operators.mapped import another, rendered

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


def test_a_task_that_has_a_name_is_told_by_it(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = LakeVerdictOperator(task_id="v", reports=[{**FAILED, "name": "eu"}, {**FAILED, "name": "us"}])
    with pytest.raises(AirflowFailException, match=r"failed: upsert of a\.b \(eu\): .*; upsert of a\.b \(us\): Bad"):
        verdict.execute(context)
    assert "upsert of a.b (us): BadInputError: x" in capsys.readouterr().out


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


@pytest.mark.parametrize(
    ("rule", "reports", "words"),
    [
        ("any", [[DONE], None], "1 of 2 tasks failed: load_b left no report"),
        ("any", [[DONE, FAILED], None], "2 of 3 tasks failed: upsert of a.b: BadInputError; load_b left no report"),
        ("any", [None, None], "2 of 2 tasks failed: load_a left no report; load_b left no report"),
        ("any", (None, [DONE]), "1 of 2 tasks failed: load_a left no report"),
        ("all", [[FAILED], None], "2 of 2 tasks failed: upsert of a.b: BadInputError; load_b left no report"),
        ("all", [[DONE], None], None),
        ("never", [[DONE], None], None),
        ("any", [[DONE], []], None),
        ("any", [DONE, [DONE]], None),
    ],
)
def test_a_task_of_several_that_left_no_report_failed_and_is_named(
    context: Context, rule: str, reports: Any, words: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with DAG("d", schedule=None):
        outputs = [LakeApplicationOperator(task_id=name, tasks=[]).output for name in ("load_a", "load_b")]
        verdict = LakeVerdictOperator(task_id="v", reports=outputs, fail_when=rule, trigger_rule="all_done")
    assert verdict.upstream_task_ids == {"load_a", "load_b"}
    # As Airflow renders them.
    verdict.reports = reports
    if words is not None:
        with pytest.raises(AirflowFailException) as red:
            verdict.execute(context)
        assert str(red.value) == words
    else:
        verdict.execute(context)
        assert ("load_b left no report" in capsys.readouterr().out) is (None in reports)


def test_a_single_report_is_taken_whole(context: Context) -> None:
    LakeVerdictOperator(task_id="v", reports=DONE).execute(context)  # type: ignore[arg-type]  # as Airflow renders it
    with pytest.raises(AirflowFailException, match=r"1 of 1 tasks failed: upsert of a\.b: BadInputError"):
        LakeVerdictOperator(task_id="v", reports=FAILED).execute(context)  # type: ignore[arg-type]  # likewise


def test_a_report_that_is_missing_from_what_a_template_makes_is_named_by_its_place(context: Context) -> None:
    verdict = LakeVerdictOperator(task_id="v", reports="{{ params.reports }}")
    verdict.reports = [DONE, None]
    with pytest.raises(AirflowFailException, match=r"1 of 2 tasks failed: reports\[1\] left no report"):
        verdict.execute(context)


@pytest.mark.parametrize(
    ("reports", "got"), [("[]", "a str"), ([DONE, "x"], "a str"), (3, "a int"), ([{"rows": 1}], "no 'outcome'")]
)
def test_what_is_no_report_is_refused(context: Context, reports: Any, got: str) -> None:
    verdict = LakeVerdictOperator(task_id="v", reports=reports)
    with pytest.raises(AirflowFailException, match=f"reports must be .* got .*{got}"):
        verdict.execute(context)


def test_a_group_has_the_application_and_its_verdict_behind_it() -> None:
    with DAG("d", schedule=None) as dag:
        lake_application("nightly", tasks=[COMPACT], fail_when="all", retries=2)
    verdict: Any = dag.get_task("nightly.verdict")
    assert verdict.upstream_task_ids == {"nightly.run"}
    assert (dag.get_task("nightly.run").retries, verdict.fail_when) == (2, "all")
    with pytest.raises(InvalidSpecError, match="fail_when must be one of"), DAG("e", schedule=None):
        lake_application("nightly", tasks=[COMPACT], fail_when="some")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task_id": "mine"}, "leave out task_id: the tasks are 'nightly.run' and 'nightly.verdict'"),
        ({"do_xcom_push": False}, "do_xcom_push must be true: nightly.verdict judges the XCom of nightly.run"),
    ],
)
def test_an_argument_by_which_the_verdict_finds_no_task_is_refused_by_its_name(
    arguments: dict[str, Any], words: str
) -> None:
    with DAG("d", schedule=None), pytest.raises(InvalidSpecError, match=words):
        lake_application("nightly", tasks=[COMPACT], **arguments)


def test_who_is_told_of_failures_is_told_by_the_verdict_which_is_the_task_that_fails() -> None:
    def tell(context: Any) -> None:
        """Stand in for a notifier."""

    given: dict[str, Any] = {"on_failure_callback": tell, "owner": "shop", "queue": "spark"}
    with DAG("d", schedule=None) as dag:
        lake_application("nightly", tasks=[COMPACT], pool="spark", retries=2, **given)
        lake_application("weekly", tasks=[COMPACT], default_args=given)
    for group in ("nightly", "weekly"):
        for name in ("run", "verdict"):
            task: Any = dag.get_task(f"{group}.{name}")
            assert list(task.on_failure_callback) == [tell], (group, name)
            assert (task.owner, task.queue) == ("shop", "spark")
    # A place for Spark is not for a task without it.
    assert dag.get_task("nightly.verdict").pool != "spark"


def test_default_args_of_the_group_that_are_for_spark_are_not_the_verdicts() -> None:
    of_spark = {"pool": "spark", "retries": 3, "trigger_rule": "one_failed", "do_xcom_push": True}
    with DAG("d", schedule=None, default_args={"retries": 1}) as dag:
        lake_application("nightly", tasks=[COMPACT], default_args={**of_spark, "owner": "shop", "queue": "spark"})
        lake_application("own", tasks=[COMPACT], default_args={"owner": "shop"}, owner="sales")
    run: Any = dag.get_task("nightly.run")
    verdict: Any = dag.get_task("nightly.verdict")
    assert (run.pool, run.retries, run.trigger_rule) == ("spark", 3, "one_failed")
    assert (verdict.pool, verdict.retries, verdict.trigger_rule) == ("default_pool", 1, "all_success")
    assert (verdict.owner, verdict.queue) == ("shop", "spark")
    assert {dag.get_task(f"own.{name}").owner for name in ("run", "verdict")} == {"sales"}


def test_an_application_without_xcom_may_have_a_verdict_that_only_tells(
    context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    with DAG("d", schedule=None) as dag:
        lake_application("nightly", tasks=[COMPACT], do_xcom_push=False, fail_when="never")
    verdict: Any = dag.get_task("nightly.verdict")
    verdict.reports = None
    verdict.execute(context)
    assert "the application has left no reports" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("operator", "mapping", "words"),
    [
        (LakeVerdictOperator, {"reports": [DONE], "report": 1}, "(?s)makes no operator: .*'report': 1"),
        (LakeVerdictOperator, {}, "makes no operator: .*reports"),
        (LakeVerdictOperator, {"reports": [DONE], "fail_when": "some"}, "fail_when must be one of"),
        (LakeMaintenanceVerdictOperator, {"jobs": [], "reports": []}, "jobs must be the output of"),
    ],
)
def test_a_mapped_verdict_that_cannot_be_made_fails_for_good(
    operator: Any, mapping: dict[str, Any], words: str
) -> None:
    with DAG("mapped", schedule=None) as dag:
        verdict = operator.partial(task_id="t").expand_kwargs(another())
    with pytest.raises(AirflowFailException, match=words):
        rendered(verdict, dag, mapping)


def test_a_mapped_verdict_judges_the_reports_of_its_own_instance() -> None:
    with DAG("mapped", schedule=None) as dag:
        of_all: Any = LakeVerdictOperator.partial(task_id="t").expand(reports=another())
    verdict, context = rendered(of_all, dag, [DONE, FAILED])
    with pytest.raises(AirflowFailException, match=r"1 of 2 tasks failed: upsert of a\.b: BadInputError"):
        verdict.execute(context)

"""The verdict behind the jobs of a plan: what is red, remembered and told to owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.hooks.maintenance_leases import MaintenanceLeases
from airflow_lake_provider.maintenance.trend import TRENDS
from airflow_lake_provider.operators.lake_maintenance import (
    LakeMaintenanceVerdictOperator,
)
from airflow_lake_provider.operators.maintenance_plan import NOT_RUN, SUMMARY, LakeMaintenancePlanOperator, asking_run
from tests.unit.operators.test_lake_maintenance import COMPACT, DONE, JOB, group, named

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory", "lake_connection")

BROKEN = {"action": "plan", "table": "shop.gone", "outcome": "failed", "error": "BrokenMetadataError", "reason": "gone"}
NOGC = {"action": "snapshot-expiry", "table": "shop.a", "outcome": "unsupported", "error": "UnsupportedError"}
LOST = {**DONE, "outcome": "conflict", "reason": "a writer came first"}


class Instance:
    """Stand-in of a task instance: its XCom, and the state of the plan."""

    dag_id, run_id, task_id = "d", "r", "nightly.verdict"
    map_index, try_number, max_tries = -1, 1, 0

    def __init__(
        self, not_run: list[Mapping[str, str]] | None, state: str, summary: Mapping[str, int] | None = None
    ) -> None:
        self.not_run = not_run
        self.summary = summary
        self.state = state
        self.shown: dict[str, Any] = {}

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return {("nightly.plan", NOT_RUN): self.not_run, ("nightly.plan", SUMMARY): self.summary}[task_ids, key]

    def xcom_push(self, key: str, value: Any) -> None:
        self.shown[key] = value

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
        assert (dag_id, task_ids, run_ids) == ("d", ["nightly.plan"], ["r"])
        return {"r": {"nightly.plan": self.state}}


def verdict_of(
    jobs: Any,
    reports: Any,
    not_run: list[Any] | None,
    context: Context,
    state: str = "success",
    summary: Mapping[str, int] | None = None,
    **arguments: Any,
) -> Instance:
    verdict = group(**arguments)[2]
    verdict.jobs, verdict.reports = jobs, reports
    ti = context["ti"] = Instance(not_run, state, summary)  # type: ignore[typeddict-item]  # a stand-in
    verdict.execute(context)
    return ti


GREEN: list[tuple[str, list[Any], list[Any], list[Any], str]] = [
    ("done", [JOB], [[DONE]], [], "1 done"),
    ("conflict", [JOB], [[LOST]], [], "1 conflict"),
    ("unsupported", [JOB], [[DONE]], [NOGC], "1 done, 1 unsupported"),
    ("nothing due", [], [], [], "nothing was due"),
]
RED: list[tuple[str, list[Any], list[Any], list[Any], str]] = [
    ("a broken table beside others", [JOB], [[DONE]], [BROKEN], r"1 done, 1 failed: plan of shop\.gone: Broken"),
    ("a broken table and nothing due", [], [], [BROKEN], r"1 failed: plan of shop\.gone: BrokenMetadataError"),
    ("an application that was lost", [JOB], [], [], r"1 failed: compaction of shop\.orders: JobFailedError"),
    ("one of two applications lost", [JOB, JOB], [[DONE]], [], "1 done, 1 failed"),
]


@pytest.mark.parametrize(
    ("jobs", "reports", "not_run", "words"), [case[1:] for case in GREEN], ids=[c[0] for c in GREEN]
)
def test_the_verdict_is_green(jobs: Any, reports: Any, not_run: Any, words: str, context: Context) -> None:
    assert verdict_of(jobs, reports, not_run, context).shown["outcome"] == words


@pytest.mark.parametrize(
    ("jobs", "reports", "summary", "words"),
    [
        ([], [], {"tables": 5, "due": 0, "deferred": 0, "waiting": 0}, "nothing was due"),
        ([], [], {"tables": 5, "due": 2, "deferred": 2, "waiting": 0}, "nothing was run, 2 deferred"),
        ([], [], {"tables": 5, "due": 0, "deferred": 0, "waiting": 1}, "nothing was run, 1 waiting"),
        ([JOB], [[DONE]], {"due": 3, "deferred": 2, "waiting": 1}, "1 done, 2 deferred, 1 waiting"),
    ],
)
def test_the_verdict_counts_what_the_plan_left_to_a_later_run(
    jobs: Any, reports: Any, summary: Any, words: str, context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verdict_of(jobs, reports, [], context, summary=summary).shown["outcome"] == words
    is_left = "deferred" in words or "waiting" in words
    assert ("the log of nightly.plan says what waits, and why" in capsys.readouterr().out) is is_left


def test_a_table_of_another_pool_is_no_night_without_anything_due(
    context: Context, orders: Table, append: Callable[..., int], pushed: dict[str, Any]
) -> None:
    for number in range(8):
        append(orders, number)
    plan = LakeMaintenancePlanOperator(
        task_id="plan", tables="shop.*", policy={"pool": "lake_large"}, run_pool="default_pool", history="off"
    )
    jobs = plan.execute(context)
    shown = verdict_of(jobs, [], pushed[NOT_RUN], context, summary=pushed[SUMMARY]).shown
    assert (jobs, shown["outcome"]) == ([], "nothing was run, 1 deferred")


@pytest.mark.parametrize("case", RED, ids=lambda case: case[0])
def test_the_verdict_is_red(case: tuple[str, Any, Any, Any, str], context: Context) -> None:
    _, jobs, reports, not_run, words = case
    with pytest.raises(AirflowFailException, match=words):
        verdict_of(jobs, reports, not_run, context)


def test_a_red_verdict_has_left_its_outcomes_for_the_lake_page(context: Context) -> None:
    with pytest.raises(AirflowFailException):
        verdict_of([JOB], [[DONE]], [BROKEN], context)
    ti: Any = context["ti"]
    entry = ti.shown["lake_outcomes"]
    assert (entry["conn_id"], entry["authority"]) == ("lake_default", "lake_default")
    assert entry["outcomes"] == {"failed": 1, "done": 1}
    assert [(task["table"], task["outcome"]) for task in entry["tasks"]] == [
        ("shop.gone", "failed"),
        ("shop.orders", "done"),
    ]


def test_a_verdict_on_nothing_leaves_its_entry_under_a_key_of_its_own(context: Context) -> None:
    shown = verdict_of([], [], [], context).shown
    assert (shown["lake_outcomes_none"]["tasks"], "lake_outcomes" in shown) == ([], False)


def test_an_author_says_what_else_is_red(context: Context) -> None:
    with pytest.raises(AirflowFailException, match="1 unsupported"):
        verdict_of([JOB], [[DONE]], [NOGC], context, fail_on=["failed", "unsupported"])
    assert verdict_of([], [], [BROKEN], context, fail_on=[]).shown["outcome"] == "1 failed"
    with pytest.raises(InvalidSpecError, match=r"fail_on takes 'done', .*, got 'broken'"):
        group(fail_on=["broken"])


def test_a_history_that_is_no_name_of_a_table_is_refused_while_the_dag_is_parsed() -> None:
    jobs = LakeMaintenancePlanOperator(task_id="plan").output
    with pytest.raises(InvalidSpecError, match="table name True is not of the form"):
        LakeMaintenanceVerdictOperator(task_id="v", jobs=jobs, reports=jobs, history=True)  # type: ignore[arg-type]  # what authors write


def test_a_plan_that_failed_makes_the_verdict_red_and_one_that_was_skipped_skips_it(context: Context) -> None:
    with pytest.raises(AirflowFailException, match=r"nightly\.plan made no plan, its state is failed"):
        verdict_of(None, [], [], context, "failed")
    with pytest.raises(AirflowSkipException):
        verdict_of(None, [], [], context, "skipped")


def test_a_verdict_takes_the_output_of_a_plan_alone() -> None:
    with pytest.raises(InvalidSpecError, match="jobs must be the output"):
        LakeMaintenanceVerdictOperator(task_id="v", jobs=[], reports=[])  # type: ignore[arg-type]  # what is refused


@pytest.fixture
def history(lake_catalog: SqlCatalog) -> MaintenanceHistory:
    """History of the catalog, whose table is not there yet."""
    return MaintenanceHistory(LakeCatalogHook())


def remembered(history: MaintenanceHistory) -> list[tuple[str, str, str, str | None]]:
    """Return what the history has of all tables."""
    rows = history.entries("*", datetime.now(UTC) - timedelta(days=1))
    return sorted((row["table_name"], row["action"], row["outcome"], row["error"]) for row in rows)


def test_a_run_is_remembered_once_with_what_was_red(context: Context, history: MaintenanceHistory) -> None:
    job = {"tasks": [COMPACT, named("shop.lost")], "expected": [{"core_seconds": 2.0, "score": 40}, {}]}
    before, after = {"data_files": 8}, {"data_files": 1, "data_bytes": 90, "delete_files": 0}
    done = {**DONE, "before": before, "after": after}
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="1 done, 2 failed"):
            verdict_of([job], [[done]], [BROKEN], context)
    assert remembered(history) == [
        ("shop.gone", "plan", "failed", "BrokenMetadataError"),
        ("shop.lost", "compaction", "failed", "JobFailedError"),
        ("shop.orders", "compaction", "done", None),
    ]
    trends = {each["table"]: each for each in context["ti"].shown[TRENDS]}  # type: ignore[attr-defined]  # a stand-in
    assert (trends["shop.orders"]["score"], trends["shop.orders"]["most"]) == ("40", [1, 90, 0])


def test_a_run_that_is_cleared_and_runs_again_is_remembered_again(
    context: Context, history: MaintenanceHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict_of([JOB], [[LOST]], [], context)
    monkeypatch.setattr(Instance, "try_number", 2)
    monkeypatch.setattr(Instance, "max_tries", 1)
    verdict_of([JOB], [[DONE]], [], context)
    assert [row[2] for row in remembered(history)] == ["conflict", "done"]


@pytest.mark.parametrize(
    ("anew", "rows"),
    [
        ({}, 3),
        ({"reports": [[{**DONE, "outcome": "failed", "error": "JobFailedError", "ended_at": "2026-11-26T05:00"}]]}, 6),
        ({"not_run": [{**BROKEN, "ended_at": "2026-11-26T05:00"}]}, 6),
        ({"jobs": [{"tasks": [COMPACT, named("shop.lost")], "expected": [{}, {"planned_at": "2026-11-26T05:00"}]}]}, 6),
    ],
    ids=["the verdict alone", "a job, too", "the plan, too", "plan and a job that was lost again"],
)
def test_a_red_verdict_that_is_cleared_is_remembered_again_where_something_was_run_anew(
    context: Context, history: MaintenanceHistory, monkeypatch: pytest.MonkeyPatch, anew: dict[str, Any], rows: int
) -> None:
    failed = {**DONE, "outcome": "failed", "error": "JobFailedError", "ended_at": "2026-11-26T04:00"}
    job = {"tasks": [COMPACT, named("shop.lost")], "expected": [{}, {"planned_at": "2026-11-26T03:00"}]}
    first: dict[str, Any] = {
        "jobs": [job],
        "reports": [[failed]],
        "not_run": [{**BROKEN, "ended_at": "2026-11-26T03:00"}],
    }
    for number, given in enumerate((first, {**first, **anew}), 1):
        monkeypatch.setattr(Instance, "try_number", number)
        monkeypatch.setattr(Instance, "max_tries", number - 1)
        with pytest.raises(AirflowFailException, match="3 failed"):
            verdict_of(given["jobs"], given["reports"], given["not_run"], context)
    since = datetime(2026, 11, 26, tzinfo=UTC)
    assert len(history.entries("*", since)) == rows


def test_a_dry_run_is_not_judged_and_writes_nothing(context: Context, lake_catalog: SqlCatalog) -> None:
    with pytest.raises(AirflowSkipException, match="dry run"):
        verdict_of([], [], None, context)
    assert ("lake_ops",) not in lake_catalog.list_namespaces()


def test_a_group_that_keeps_no_history_makes_no_table(context: Context, lake_catalog: SqlCatalog) -> None:
    verdict_of([JOB], [[DONE]], [], context, history="off")
    assert ("lake_ops",) not in lake_catalog.list_namespaces()


class Told(BaseNotifier):
    """Notifier of Airflow's kind, which keeps what it has sent."""

    template_fields = ("to", "text")

    def __init__(self, sent: list[tuple[str, str]], *, fails: bool = False) -> None:
        super().__init__()
        self.to, self.text, self.sent, self.fails = "{{ lake_owner }}@x.org", "{{ lake_message }}", sent, fails

    def notify(self, context: Context) -> None:
        if self.fails:
            raise OSError("login refused for password s3cret")
        assert context["ti"].task_id == "nightly.verdict"
        self.sent.append((self.to, self.text))


def of_owner(owner: str | None, report: Mapping[str, Any] = BROKEN) -> dict[str, Any]:
    return {**report, "table": f"shop.{owner}", **({"owner": owner} if owner else {})}


@pytest.mark.usefixtures("lake_catalog")
def test_each_owner_of_red_tables_is_told_once_of_those(context: Context) -> None:
    job = {"tasks": [named("shop.lost"), COMPACT], "expected": [{"owner": "team-a"}, {"owner": "team-b"}]}
    sent: list[tuple[str, str]] = []
    broken = [
        of_owner("team-a"),
        of_owner("team-c", NOGC),
        of_owner(None),
        of_owner("team-x", {**BROKEN, "reason": "{{ 7*7 }}"}),
    ]
    with pytest.raises(AirflowFailException, match="4 failed"):
        verdict_of([job], [[DONE]], broken, context, notifier=Told(sent))
    assert [to for to, _ in sent] == ["airflow@x.org", "team-a@x.org", "team-x@x.org"]
    assert sent[0][1] == "connection lake_default:\nplan of shop.None: BrokenMetadataError: gone"
    assert [line.partition(":")[0] for line in sent[1][1].splitlines()] == [
        "connection lake_default",
        "compaction of shop.lost",
        "plan of shop.team-a",
    ]
    # Texts of strangers are no templates.
    assert "{{ 7*7 }}" in sent[2][1]
    verdict_of([JOB], [[DONE]], [], context, notifier=Told(sent))
    assert len(sent) == 3


@pytest.mark.usefixtures("lake_catalog")
def test_a_notifier_that_fails_changes_nothing_and_is_a_warning_without_its_words(
    context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AirflowFailException, match=r"1 failed: plan of shop\.team-a"):
        verdict_of([], [], [of_owner("team-a")], context, notifier=Told([], fails=True))
    warned = next(each.getMessage() for each in caplog.records if "could not be told" in each.getMessage())
    assert warned == "team-a could not be told of 1 outcomes: OSError"
    assert verdict_of([JOB], [[DONE]], [], context, notifier=Told([], fails=True)).shown["outcome"] == "1 done"


@pytest.mark.usefixtures("lake_catalog")
def test_a_message_stays_short_however_many_tables_failed_and_a_function_is_a_notifier(context: Context) -> None:
    told: list[Any] = []
    many = [{**BROKEN, "table": f"shop.t{number}", "reason": "x" * 10_000} for number in range(1000)]
    with pytest.raises(AirflowFailException, match="1000 failed"):
        verdict_of([], [], many, context, notifier=told.append)
    (values,) = told
    assert (len(values["lake_outcomes"]), values["lake_conn_id"]) == (1000, "lake_default")
    assert len(values["lake_message"]) < 20_000
    assert values["lake_message"].endswith("and 950 more")
    with pytest.raises(InvalidSpecError, match="notifier must be callable"):
        group(notifier="team@x.org")


def test_leases_are_given_back_whatever_became_of_the_run(context: Context, lake_catalog: SqlCatalog) -> None:
    leases = MaintenanceLeases(LakeCatalogHook())
    context["ti"] = Instance([], "success")  # type: ignore[typeddict-item]  # a stand-in
    asking = asking_run(context, "nightly.plan", datetime.now(UTC))
    leases.take(["shop.orders"], asking)
    leases.take(["shop.items"], replace(asking, run_key="another"))
    with pytest.raises(AirflowFailException):
        verdict_of(None, [], [], context, "failed")
    rows = lake_catalog.load_table("lake_ops.maintenance_leases").scan().to_arrow().to_pylist()
    assert [row["table_name"] for row in rows] == ["shop.items"]

"""Several tasks in one application: how they are given, planned and refused."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
from airflow.sdk import task as task_of_airflow
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError, JobFailedError
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.lake_maintenance import LakeMaintenanceOperator
from airflow_lake_provider.operators.maintenance_plan import LakeMaintenancePlanOperator
from tests.unit.operators.mapped import RENDERED, rendered
from tests.unit.operators.submitted import COMPACT, NOWHERE, UPSERT, application

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory", "lake_connection")

WRONG: list[tuple[Any, str]] = [
    ({"table": "shop.orders"}, r"tasks\[0\] needs an action, one of 'upsert', .*, got None"),
    ({"action": "upsrt", "table": "shop.orders"}, "got 'upsrt'"),
    ({**UPSERT, "key": ["id"]}, r"tasks\[0\] has no \['key'\]; it takes name, table, source, create"),
    ({"action": "upsert", "table": "shop.orders"}, r"tasks\[0\] needs source, keys"),
    ({"action": "upsert", "complete": True}, r"tasks\[0\] needs table, source, keys, got complete$"),
    ({"action": "incremental", "source": "a.b"}, r"tasks\[0\] needs target, consumer, keys, got source$"),
    ({"action": "compute-statistics", "columns": ["id"]}, r"tasks\[0\] needs table, got columns$"),
    ({**UPSERT, "strategy": "fast"}, r"tasks\[0\]: strategy must be one of"),
    ({**UPSERT, "delete_when": "op = '{{ params.op }}'"}, "delete_when is not templated"),
    ({**UPSERT, "table": "orders"}, "orders"),
    ({"action": "snapshot-expiry", "table": "shop.orders", "older_than": "PT1H"}, "less than minimum_age=1 day"),
    ("shop.orders", r"tasks\[0\] must map the arguments of an operator"),
]


@pytest.mark.parametrize(("task", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_task_that_cannot_be_is_refused_while_the_dag_is_parsed(task: Any, words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        application(task)


@pytest.mark.parametrize("default_args", [{"multiple_outputs": True}, {}])
def test_a_list_is_one_output_which_airflow_would_fail_over_after_the_commits(default_args: dict[str, Any]) -> None:
    given: dict[str, Any] = {} if default_args else {"multiple_outputs": True}
    with DAG("d", schedule=None, default_args=default_args):
        run = application(COMPACT, **given)
        plan = LakeMaintenancePlanOperator(task_id="plan", **given)
        mapped = LakeApplicationOperator.partial(task_id="mapped", **given).expand(tasks=[[COMPACT]])
    one_of_mapped = mapped.unmap({"tasks": [COMPACT]})
    assert [task.multiple_outputs for task in (run, plan, one_of_mapped)] == [False, False, False]


def test_what_is_still_a_template_is_refused_when_it_was_rendered(context: Context) -> None:
    job = application({**UPSERT, "strategy": "{{ params.how }}"}, COMPACT)
    context["params"] = {"how": "fast"}
    job.render_template_fields(context)
    wrong, right = job.table_tasks(context)
    assert "strategy must be one of" in str(wrong.error)
    assert right.error is None


FAIR = {"spark.scheduler.mode": "FAIR"}


@pytest.mark.parametrize(("tasks", "modes"), [([COMPACT], {}), ([COMPACT, UPSERT], FAIR)])
def test_stages_of_several_tasks_take_turns_and_yarn_repeats_no_job(
    tasks: list[Any], modes: dict[str, str], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, str] = {}

    def execute(operator: LakeApplicationOperator, _: Context) -> None:
        assert operator._attempt is not None
        lines = operator._attempt.files.settings.read_text().replace("=", " ").splitlines()
        settings.update(dict(line.split(maxsplit=1) for line in lines if line.startswith("spark.")))
        raise RuntimeError("Error code is: -9")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    job = application(*tasks)
    job._tasks = job.table_tasks(context)
    with suppress(JobFailedError):
        job._run_in_spark(job._tasks, context)
    named = ("spark.scheduler.mode", "spark.yarn.maxAppAttempts")
    assert {name: settings[name] for name in named if name in settings} == {**modes, "spark.yarn.maxAppAttempts": "1"}


def test_the_rows_of_a_deletion_are_rendered_and_shown_to_nobody(context: Context) -> None:
    job = application({"action": "delete-rows", "table": "shop.orders", "where": "id = {{ params.id }}"})
    context["params"] = {"id": 4711}
    job.render_template_fields(context)
    (task,) = job.table_tasks(context)
    assert isinstance(task.spec, DeleteRowsSpec)
    assert task.spec.where == "id = 4711"
    shown = [given.serialize() for given in job.tasks]
    assert shown == [{"action": "delete-rows", "table": "shop.orders", "where": "***"}]


def test_two_sources_of_a_table_need_names(context: Context) -> None:
    job = application(UPSERT, {**UPSERT, "source": "in/b.csv"})
    from_xcom = application(UPSERT)
    from_xcom.tasks = [UPSERT, {**UPSERT, "source": "in/b.csv"}]
    for each in (job, from_xcom):
        found = [str(task.error) for task in each.table_tasks(context)]
        assert all("shop.orders: 2 loads have a source without a name" in error for error in found)


def test_two_overwrites_of_a_table_need_no_names_as_it_keeps_no_position_of_theirs(context: Context) -> None:
    def overwrite(source: Any, **arguments: Any) -> dict[str, Any]:
        return {"action": "overwrite-partitions", "table": "shop.orders", "source": source, **arguments}

    def errors(*tasks: Any) -> list[str]:
        return [str(task.error or "") for task in application(*tasks).table_tasks(context)]

    assert errors(overwrite("in/a.csv"), overwrite("in/b.csv"), UPSERT) == ["", "", ""]
    first, second = errors(*[overwrite(Files("in/a.csv", name="a"), batch_id="today")] * 2)
    assert first == second
    assert "two loads of the table have batch_id 'today'" in first


def test_two_upserts_that_are_one_batch_are_refused(context: Context) -> None:
    one = {**UPSERT, "batch_id": "today", "source": Files("in/a.csv", name="a")}
    first, second, other = application(one, one, {**UPSERT, "table": "shop.others"}).table_tasks(context)
    assert "two loads of the table have batch_id 'today'" in str(first.error)
    assert "two loads of the table" in str(second.error)
    assert other.error is None


@pytest.mark.parametrize(
    "late",
    [
        {"action": "create-tag", "table": "shop.orders", "tag": "after_load"},
        {"action": "publish-branch", "table": "shop.orders", "branch": "b"},
        {**COMPACT, "dry_run": True},
    ],
    ids=lambda task: task["action"],
)
def test_what_is_planned_on_the_worker_cannot_stand_behind_a_task_of_its_table(
    context: Context, late: dict[str, Any]
) -> None:
    first, second = application(UPSERT, late).table_tasks(context)
    assert first.error is None
    assert "cannot stand behind another task of its table" in str(second.error)
    assert [task.error for task in application(late, UPSERT).table_tasks(context)] == [None, None]


def test_nothing_to_do_is_no_failure(context: Context) -> None:
    job = application(UPSERT)
    job.tasks = []
    assert job.execute(context) == []


def test_what_a_task_may_not_show_is_shown_nowhere(context: Context) -> None:
    secret = "email = 'bob@example.com'"
    with pytest.raises(InvalidSpecError) as refused:
        application({"action": "delete-rows", "where": secret})
    job = application(UPSERT)
    job.tasks = [{"action": "delete-rows", "where": secret}, {"action": "delete-rows", "table": "a.b", "where": secret}]
    job.render_template_fields(context)
    shown = [task.serialize() if isinstance(task, DeleteRowsSpec) else task for task in job.tasks]
    errors = [str(task.error) for task in job.table_tasks(context)]
    assert "bob" not in f"{refused.value} {shown} {errors}"


def test_an_action_is_no_template(context: Context) -> None:
    with pytest.raises(InvalidSpecError, match="needs an action"):
        application({"action": "{{ params.action }}", "table": "shop.orders", "allow_sql": "{{ params.s }}"})


def test_tasks_come_from_xcom_and_by_mapping(context: Context) -> None:
    with DAG("d", schedule=None) as dag:

        @task_of_airflow
        def due() -> list[dict[str, Any]]:
            return [COMPACT]

        LakeApplicationOperator(task_id="from_xcom", tasks=due())
        LakeApplicationOperator.partial(task_id="mapped").expand(tasks=[[COMPACT], [NOWHERE]])
    assert dag.get_task("from_xcom").upstream_task_ids == {"due"}
    mapped: Any = dag.get_task("mapped")
    (task,) = mapped.unmap({"tasks": [NOWHERE]}).table_tasks(context)
    assert task.key == "compaction shop.nowhere"
    job = application(UPSERT)
    job.tasks = [{**UPSERT, "source": "in/{{ x }}.csv"}, {**UPSERT, "table": "{{ x }}"}, {"action": "fly"}]
    literal, table, unknown = job.table_tasks(context)
    # What comes from XCom is no template.
    assert literal.known_spec.source.path == "in/{{ x }}.csv"  # type: ignore[attr-defined]  # of an upsert
    assert "{{ x }}" in str(table.error)
    assert "needs an action" in str(unknown.error)


BAD = {"action": "delete-rows", "table": "shop.orders", "where": "n = '{{ params.given }}'", "nope": 1}


def mapped(operator: type[LakeApplicationOperator], *tasks: Any) -> LakeApplicationOperator:
    """The only instance of a task that is mapped over a list of tasks which its author wrote, rendered."""
    with DAG("d", schedule=None, params={"given": RENDERED}) as dag:
        of_all = operator.partial(task_id="t").expand(tasks=[list(tasks)])
    job, _ = rendered(of_all, dag)
    made: LakeApplicationOperator = job
    return made


@pytest.mark.parametrize("operator", [LakeApplicationOperator, LakeMaintenanceOperator])
@pytest.mark.parametrize("bad", [BAD, {"action": "fly"}, "compaction", 3])
def test_a_task_that_cannot_be_stops_no_other_of_a_mapped_application(
    operator: type[LakeApplicationOperator], bad: Any, context: Context
) -> None:
    tasks = mapped(operator, NOWHERE, bad, COMPACT).table_tasks(context)
    (refused,) = [task.error for task in tasks if task.error is not None]
    assert isinstance(refused, InvalidSpecError)
    assert "tasks[1]" in str(refused)
    assert {task.table for task in tasks if task.error is None} == {"shop.nowhere", "shop.orders"}


def test_a_task_that_cannot_be_is_shown_as_it_is_and_not_rendered() -> None:
    (shown,) = mapped(LakeApplicationOperator, BAD).tasks
    assert shown == {**BAD, "where": "***"}
    bad = {**BAD, "table": "shop.{{ params.given }}"}
    (shown,) = mapped(LakeApplicationOperator, bad).tasks
    assert shown["table"] == "shop.{{ params.given }}"


def test_a_mapped_application_whose_tasks_are_no_list_fails_for_good() -> None:
    with DAG("d", schedule=None):
        of_all: Any = LakeApplicationOperator.partial(task_id="t").expand(tasks=[3])
    with pytest.raises(AirflowFailException, match="tasks must be a list of tasks, got a int"):
        of_all.unmap({"tasks": 3})


@pytest.mark.parametrize("tasks", [None, 3, "compaction", COMPACT, {}])
def test_tasks_that_are_no_list_are_refused_while_the_dag_is_parsed(tasks: Any) -> None:
    with pytest.raises(InvalidSpecError, match="tasks must be a list of tasks, got a"):
        LakeApplicationOperator(task_id="t", tasks=tasks)


@pytest.mark.parametrize("native", [True, False])
def test_a_form_gives_tasks_to_a_dag_that_renders_objects_and_another_is_told_to(
    context: Context, native: bool
) -> None:
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        job = LakeApplicationOperator(task_id="t", tasks="{{ params.tasks }}")  # type: ignore[arg-type]  # a template
    context["params"] = {"tasks": [COMPACT]}
    job.render_template_fields(context)
    if native:
        (task,) = job.table_tasks(context)
        assert task.key == "compaction shop.orders"
        return
    with pytest.raises(InvalidSpecError, match=r"got a str; .* needs a DAG with render_template_as_native_obj=True"):
        job.table_tasks(context)

"""Names of the tasks of an application, by which a later try knows each of them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_lake_provider import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.spec_codec import spec_from_plain, spec_to_plain, written_task
from tests.unit.operators.submitted import COMPACT, UPSERT, application

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("spark_connection", "job_directory", "lake_connection")


def test_each_task_has_a_name_and_a_run_of_its_own_whatever_their_order(context: Context) -> None:
    again = {**UPSERT, "source": Files("in/b.csv", name="b")}
    other = {**UPSERT, "table": "shop.others"}

    def runs(*tasks: Any) -> dict[str, str]:
        return {task.key: task.known_spec.run.who for task in application(*tasks).table_tasks(context)}

    found = runs(UPSERT, again, other, COMPACT)
    assert list(found) == [
        "upsert shop.orders",
        "upsert shop.orders b",
        "upsert shop.others",
        "compaction shop.orders",
    ]
    assert len(set(found.values())) == 4
    assert runs(COMPACT, other, UPSERT, again) == found


def append_of(name: str) -> dict[str, Any]:
    """A load of the only table, by the name of its source."""
    return {"action": "append", "table": "shop.orders", "source": Files(f"in/{name}.csv", name=name)}


def update_of(column: str, where: str = "id = 1") -> dict[str, Any]:
    """An update that does harm where it is carried out twice."""
    return {
        "action": "update-rows",
        "table": "shop.orders",
        "assignments": {column: f"{column} + 1"},
        "where": where,
    }


def to_spec(given: dict[str, Any]) -> Any:
    """A task as an operator keeps it."""
    return written_task(given, "task")


DELETION: dict[str, Any] = {"action": "delete-rows", "table": "shop.orders", "where": "id = 1"}
OVERWRITE: dict[str, Any] = {"action": "overwrite-partitions", "table": "shop.orders", "source": "in/a.csv"}


def deletion_of(name: str) -> dict[str, Any]:
    """A deletion that a name tells from others: its predicate may be nowhere, so it tells none."""
    return {**DELETION, "where": f"user = '{name}'", "name": name}


@pytest.mark.parametrize(
    ("one", "other", "new"),
    [
        (append_of("eu"), append_of("us"), append_of("asia")),
        ({**append_of("eu"), "on_repeat": "apply"}, append_of("us"), append_of("asia")),
        (update_of("n"), update_of("m"), update_of("k")),
        (update_of("n"), update_of("n", "id = 2"), update_of("n", "id = 3")),
        (deletion_of("a"), deletion_of("b"), deletion_of("c")),
        tuple(
            {"action": "delete-rows", "table": "shop.orders", "keys_from": Files(f"{n}.csv", name=n), "keys": ["id"]}
            for n in "abc"
        ),
        tuple({"action": "expire-rows", "table": "shop.orders", "column": n, "keep": "P5D"} for n in "abc"),
        tuple({**OVERWRITE, "source": f"in/{n}.csv", "name": n} for n in "abc"),
        tuple({**update_of("n"), "name": n} for n in "abc"),
        tuple({**append_of(n), "name": f"load-{n}"} for n in "abc"),
        ({**append_of("eu"), "name": "us"}, append_of("us"), append_of("asia")),
        (append_of("eu"), {**append_of("eu"), "branch": "b"}, {**append_of("eu"), "branch": "c"}),
        (OVERWRITE, {**OVERWRITE, "branch": "b"}, {**OVERWRITE, "branch": "#2"}),
    ],
)
def test_a_task_of_a_table_is_known_again_at_another_place_and_is_not_taken_for_its_neighbour(
    context: Context, one: Any, other: Any, new: Any
) -> None:
    def runs(*tasks: Any) -> list[str]:
        return [task.known_spec.run.who for task in application(*tasks).table_tasks(context)]

    first, second = runs(one, other)
    assert runs(other, one) == [second, first]
    assert runs(other) == [second]
    assert runs(new, one, other)[1:] == [first, second]
    assert len({first, second, *runs(new)}) == 3


def test_a_task_that_is_refused_in_one_try_keeps_the_name_by_which_its_neighbours_are_known(context: Context) -> None:
    broken = [{**deletion_of("a"), "where": ""}, {**deletion_of("a"), "name": "{{ ds }}"}]

    def names(first: dict[str, Any]) -> list[str | None]:
        job = application(DELETION)
        # As a mapped task has it, or one from XCom.
        job.tasks = [first, DELETION]
        tasks = job.table_tasks(context)
        assert tasks[1].error is None
        return [tasks[0].name, tasks[1].key]

    assert names(deletion_of("a")) == names(broken[0]) == ["a", "delete-rows shop.orders"]
    assert names(broken[1])[0] is None


def test_an_update_whose_template_gives_another_value_at_a_later_try_is_known_again(context: Context) -> None:
    def runs(day: str) -> list[str]:
        context["params"] = {"day": day}
        job = application(update_of("n", "day < '{{ params.day }}'"), update_of("n", "day > '{{ params.day }}'"))
        job.render_template_fields(context)
        return [task.known_spec.run.who for task in job.table_tasks(context)]

    first, second = runs("2026-01-01")
    assert first != second
    assert runs("2026-01-02") == [first, second]


@pytest.mark.parametrize("given", [dict, to_spec], ids=["mapping", "spec"])
def test_a_named_update_whose_text_python_makes_anew_is_carried_out_once(context: Context, given: Any) -> None:
    def run_key(at: str) -> str:
        named = given({**update_of("n", f"day < '{at}'"), "name": "close"})
        (task,) = application(named).table_tasks(context)
        # As the driver makes it.
        spec = spec_from_plain(spec_to_plain(task.known_spec))
        return spec.run.run_key(spec.digest_text(), ())

    assert run_key("2026-01-01") == run_key("2026-01-02")


def test_a_task_shows_its_name_and_leaves_it_in_its_report(context: Context) -> None:
    job = application({**DELETION, "name": "carts"}, DELETION)
    job.render_template_fields(context)
    assert [task.serialize().get("name") for task in job.tasks] == ["carts", None]
    named, other = tasks = job.table_tasks(context)
    assert (named.key, other.key) == ("delete-rows shop.orders 'carts'", "delete-rows shop.orders")
    for task in tasks:
        task.take(InvalidSpecError("no"))
    assert [report.get("name") for report in job.result(tasks, context)] == ["carts", None]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{{ ds }}", r"tasks\[0\]: name must have 1 to 64 letters"),
        ("#2", "name must have 1 to 64 letters"),
        ("", "name must not be empty"),
        (3, "name must be a text"),
        ("a" * 65, "name must have 1 to 64 letters"),
    ],
)
def test_a_name_of_a_task_that_cannot_be_is_refused(name: Any, words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        application({**DELETION, "name": name})


def test_two_tasks_of_one_name_are_refused_where_they_do_the_same_to_one_table(context: Context) -> None:
    one = {**DELETION, "name": "carts"}
    other = {**DELETION, "table": "shop.others", "name": "carts"}
    first, second, third, update = application(one, one, other, {**update_of("n"), "name": "carts"}).table_tasks(
        context
    )
    assert "shop.orders: 2 tasks 'delete-rows' have the name 'carts'" in str(first.error)
    assert "have the name 'carts'" in str(second.error)
    assert (third.error, update.error) == (None, None)


@pytest.mark.parametrize(
    ("tasks", "is_told"),
    [
        ([DELETION, {**DELETION, "where": "id = 2"}], True),
        ([DELETION, {**DELETION, "name": "other"}], False),
        ([OVERWRITE, OVERWRITE], True),
        ([COMPACT, COMPACT], False),
        ([DELETION], False),
    ],
)
def test_tasks_that_their_order_alone_tells_apart_are_told_to_take_names(
    context: Context, tasks: list[Any], is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    application(*tasks).table_tasks(context)
    assert ("their order alone tells them apart" in capsys.readouterr().out) is is_told


def test_an_update_that_no_driver_can_be_sent_stops_no_other(context: Context) -> None:
    lone = {**update_of("n"), "assignments": {"n": "'\ud800'"}, "allow_sql": True}
    broken, whole = application(lone, update_of("n")).table_tasks(context)
    assert "half of a pair of surrogates" in str(broken.error)
    assert whole.error is None


def test_an_update_that_is_given_twice_is_carried_out_twice(context: Context) -> None:
    given = [update_of("n"), update_of("n")]
    first, second = (task.known_spec.run.who for task in application(*given).table_tasks(context))
    assert first != second

"""The sensor on real tables: where it starts, how it defers, and how it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import InvalidConnectionError, InvalidSpecError
from airflow_lake_provider.sensors.lake_snapshot import LakeSnapshotSensor
from airflow_lake_provider.tables.watermark import Since
from airflow_lake_provider.triggers.lake_snapshot import LakeSnapshotTrigger

Append = Callable[..., int]
AN_HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)


def sensor(**arguments: Any) -> LakeSnapshotSensor:
    given = {"task_id": "wait", "table": "shop.orders", "poke_interval": 0.05, "timeout": 0.3, **arguments}
    return LakeSnapshotSensor(**given)


def run(task: LakeSnapshotSensor, **context: Any) -> Any:
    return task.execute(context)  # type: ignore[arg-type]  # only what the sensor reads of a context


@pytest.mark.parametrize("since", ["snapshot:latest", "snapshot:007", "snapshot:{{ ds }}"])
def test_an_id_that_no_snapshot_of_the_format_can_have_is_no_expired_one(
    orders: Table, append: Append, since: str
) -> None:
    append(orders, 1)
    with pytest.raises(InvalidSpecError, match="can be no snapshot of this table, whose ids are whole numbers"):
        run(sensor(since=since))


def test_it_returns_the_payload(orders: Table, append: Append) -> None:
    first, second = append(orders, 1), append(orders, 2, 3)
    found = run(sensor(since=str(first)))
    assert (found["snapshot_id"], found["previous_snapshot_id"]) == (str(second), str(first))
    assert found["counts"]["added-records"] == 2


def test_it_times_out_when_only_a_compaction_came(
    orders: Table, append: Append, compact: Callable[[Table], int]
) -> None:
    first = append(orders, 1)
    compact(orders)
    with pytest.raises(AirflowSensorTimeout):
        run(sensor(since=first))


def test_a_missing_table_is_waited_for(lake_connection: str) -> None:
    with pytest.raises(AirflowSensorTimeout):
        run(sensor(since="1"))


def test_by_default_it_starts_at_the_runs_data_interval(orders: Table, append: Append) -> None:
    append(orders, 1)
    assert run(sensor(), data_interval_start=AN_HOUR_AGO)["commits"] == 1
    with pytest.raises(AirflowSensorTimeout):
        run(sensor(), data_interval_start=datetime.now(UTC) + timedelta(hours=1))


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_interval_of_a_run_and_a_since_are_of_pendulum_where_airflow_and_authors_make_them(
    deferrable: bool, orders: Table, append: Append
) -> None:
    append(orders, 1)
    ago, ahead = (pendulum.now("Europe/Berlin").add(hours=hours) for hours in (-1, 1))
    assert run(sensor(deferrable=deferrable), data_interval_start=ago)["commits"] == 1
    assert run(sensor(deferrable=deferrable, since=ago))["commits"] == 1
    with pytest.raises(TaskDeferred if deferrable else AirflowSensorTimeout):
        run(sensor(deferrable=deferrable), data_interval_start=ahead)


@pytest.mark.parametrize("context", [{}, {"data_interval_start": None}], ids=["absent", "none"])
def test_a_run_without_a_data_interval_fails_for_good_and_says_what_to_give(
    context: dict[str, Any], orders: Table
) -> None:
    with pytest.raises(InvalidSpecError, match="give since=") as raised:
        run(sensor(), **context)
    assert isinstance(raised.value, AirflowFailException)


def test_it_starts_at_a_consumers_cursor(orders: Table, append: Append) -> None:
    first, second = append(orders, 1), append(orders, 2)
    orders.manage_snapshots().create_tag(first, "lake.consumer.revenue").create_tag(second, "lake.consumer.x").commit()
    assert run(sensor(consumer="revenue"))["previous_snapshot_id"] == str(first)
    with pytest.raises(AirflowSensorTimeout):
        run(sensor(consumer="x"))


def test_since_and_consumer_together_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="either since or consumer"):
        sensor(since="1", consumer="revenue")


def test_it_waits_until_enough_rows_were_added(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    append(orders, 2, 3)
    with pytest.raises(AirflowSensorTimeout):
        run(sensor(since=first, min_added_rows=3))
    append(orders, 4)
    assert run(sensor(since=first, min_added_rows=3))["commits"] == 2


def test_deferred_it_carries_everything_in_the_trigger_and_the_event(orders: Table, append: Append) -> None:
    first = append(orders, 1)
    task = sensor(since=str(first), deferrable=True, min_added_rows=1, timeout=120)
    with pytest.raises(TaskDeferred) as deferred:
        run(task)
    assert deferred.value.kwargs is None or deferred.value.kwargs == {}
    assert deferred.value.timeout == timedelta(seconds=120)
    path, arguments = deferred.value.trigger.serialize()
    assert path.endswith(".LakeSnapshotTrigger")
    second = append(orders, 2)

    async def first_event() -> Any:
        return await anext(aiter(LakeSnapshotTrigger(**arguments).run()))

    event = asyncio.run(first_event()).payload
    found = task.execute_complete({}, event)
    assert (found["snapshot_id"], found["previous_snapshot_id"]) == (str(second), str(first))


@pytest.mark.parametrize("name", ["branch", "consumer"])
@pytest.mark.parametrize("text", ["20261129", "2026_1_12"])
@pytest.mark.parametrize("native", [False, True])
def test_deferred_it_looks_at_the_branch_and_the_consumer_that_its_templates_name(
    name: str, text: str, native: bool, orders: Table, append: Append
) -> None:
    head = append(orders, 1)
    given = {"since": "2040-01-01T00:00:00Z"} if name == "branch" else {}
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        task = sensor(deferrable=True, **{**given, name: f"{{{{ '{text}' }}}}"})
    if name == "consumer":
        # It has read all that there is.
        orders.manage_snapshots().create_tag(head, f"lake.consumer.{text}").commit()
    task.render_template_fields({})
    with pytest.raises(TaskDeferred) as deferred:
        run(task)
    assert getattr(deferred.value.trigger, name) == text


def test_the_payload_has_the_branch_as_a_text(orders: Table, append: Append) -> None:
    orders.manage_snapshots().create_branch(append(orders, 1), "20261129").commit()
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        task = sensor(since=AN_HOUR_AGO, branch="{{ 20261129 }}")
    task.render_template_fields({})
    assert run(task)["branch"] == "20261129"


@pytest.mark.parametrize("soft_fail", [False, True])
def test_deferred_it_ends_in_time_where_nobody_else_looks_at_the_clock(
    soft_fail: bool, orders: Table, append: Append
) -> None:
    task = sensor(since=append(orders, 1), deferrable=True, timeout=0.3, soft_fail=soft_fail)
    with pytest.raises(TaskDeferred) as deferred:
        run(task)

    async def first_event() -> Any:
        async with asyncio.timeout(20):
            # As ``dag.test()`` does.
            return await anext(aiter(deferred.value.trigger.run()))

    event = asyncio.run(first_event()).payload
    with pytest.raises(AirflowSkipException if soft_fail else AirflowSensorTimeout):
        task.resume_execution("execute_complete", {"event": event}, {})


@pytest.mark.parametrize("soft_fail", [False, True])
def test_deferred_it_ends_with_its_execution_timeout_as_one_that_pokes_does(
    soft_fail: bool, orders: Table, append: Append
) -> None:
    given: dict[str, Any] = {"since": append(orders, 1), "execution_timeout": timedelta(seconds=0.3), "timeout": 120}
    task = sensor(**given, deferrable=True, soft_fail=soft_fail)
    with pytest.raises(TaskDeferred) as deferred:
        run(task)
    # Airflow's own limit is that of a sensor, which no retry follows.
    assert deferred.value.timeout == timedelta(seconds=120)

    async def first_event() -> Any:
        async with asyncio.timeout(20):
            return await anext(aiter(deferred.value.trigger.run()))

    event = asyncio.run(first_event()).payload
    with pytest.raises(AirflowTaskTimeout, match=r"shop.orders: no new snapshot within .* of execution_timeout"):
        task.resume_execution("execute_complete", {"event": event}, {})


def test_deferrable_does_not_defer_when_there_is_a_new_snapshot_already(orders: Table, append: Append) -> None:
    first, second = append(orders, 1), append(orders, 2)
    assert run(sensor(since=first, deferrable=True))["snapshot_id"] == str(second)


def test_not_deferrable_never_defers(orders: Table, append: Append) -> None:
    with pytest.raises(AirflowSensorTimeout):
        run(sensor(since=append(orders, 1), deferrable=False))


def test_an_error_of_the_trigger_fails_the_task_for_good(lake_connection: str) -> None:
    event = {"status": "error", "error": "InvalidConnectionError", "message": "connection 'lake_default' is gone"}
    with pytest.raises(InvalidConnectionError, match="is gone") as raised:
        sensor().execute_complete({}, event)
    assert isinstance(raised.value, AirflowFailException)


def test_an_unknown_error_of_the_trigger_may_be_retried() -> None:
    with pytest.raises(AirflowException, match="KeyError: 'x'") as raised:
        sensor().execute_complete({}, {"status": "error", "error": "KeyError", "message": "'x'"})
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize("deferrable", [False, True], ids=["poke", "deferrable"])
def test_with_soft_fail_a_failure_skips(deferrable: bool) -> None:
    with pytest.raises(AirflowSkipException):
        run(sensor(since="1", lake_conn_id="nowhere", soft_fail=True, deferrable=deferrable))


def test_with_soft_fail_a_timeout_skips(orders: Table, append: Append) -> None:
    with pytest.raises(AirflowSkipException):
        run(sensor(since=append(orders, 1), soft_fail=True))


def test_with_soft_fail_an_error_of_the_trigger_skips() -> None:
    event = {"status": "error", "error": "InvalidConnectionError", "message": "gone"}
    with pytest.raises(AirflowSkipException):
        sensor(soft_fail=True).resume_execution("execute_complete", {"event": event}, {})


@pytest.mark.parametrize("by", ["soft_fail", "never_fail"])
@pytest.mark.parametrize("deferrable", [False, True], ids=["poke", "deferrable"])
def test_the_log_says_why_a_failure_skipped_the_task(
    by: str, deferrable: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AirflowSkipException):
        run(sensor(since="1", lake_conn_id="nowhere", deferrable=deferrable, **{by: True}))
    assert "InvalidConnectionError: connection 'nowhere' does not exist" in capsys.readouterr().out


@pytest.mark.parametrize("by", ["soft_fail", "never_fail"])
@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"status": "timeout"}, "AirflowSensorTimeout: shop.orders: no new snapshot within 0.3 s"),
        ({"status": "error", "error": "InvalidConnectionError", "message": "gone"}, "InvalidConnectionError: gone"),
        ({"status": "error", "error": "KeyError", "message": "'x'"}, "waiting for a snapshot failed: KeyError: 'x'"),
    ],
    ids=["timeout", "ours", "unknown"],
)
def test_the_log_says_why_what_the_trigger_met_skipped_the_task(
    by: str, event: dict[str, str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AirflowSkipException):
        sensor(**{by: True}).resume_execution("execute_complete", {"event": event}, {})
    assert why in capsys.readouterr().out


def test_since_is_a_template(orders: Table, append: Append) -> None:
    first, second = append(orders, 1), append(orders, 2)
    with DAG("d", schedule=None):
        task = sensor(since="{{ params.start }}")
    task.render_template_fields({"params": {"start": first}})
    assert run(task)["snapshot_id"] == str(second)


def test_the_poke_interval_is_the_packages_setting_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LAKE__SNAPSHOT_POLL_INTERVAL", "7.5")
    assert LakeSnapshotSensor(task_id="a", table="shop.orders").poke_interval == 7.5
    with DAG("d", schedule=None, default_args={"poke_interval": 9.0}):
        assert LakeSnapshotSensor(task_id="b", table="shop.orders").poke_interval == 9.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("table", value) for value in (None, "orders", "shop.or ders", 3)),
        *(("since", value) for value in ("yesterday", "", 1.5, b"3", AN_HOUR_AGO.date())),
        ("since", {}),
        ("since", AN_HOUR_AGO.replace(tzinfo=None)),
        *(("consumer", value) for value in ("", 3, "revenue ", "rev.enue", "r" * 28)),
        *(("branch", value) for value in ("main ", "\taudit", "audit\n")),
        *((name, value) for name in ("branch", "lake_conn_id") for value in (None, " ", 3)),
        *(("deferrable", value) for value in ("perhaps", None, 1)),
        *(("min_added_rows", value) for value in (None, "5", float("nan"), -1)),
    ],
)
def test_an_argument_that_no_look_can_use_is_refused_as_the_dag_is_parsed(name: str, value: Any) -> None:
    # A mapped sensor is made when it runs, where no retry makes it better.
    with pytest.raises(InvalidSpecError, match=name) as refused:
        sensor(**{name: value})
    assert isinstance(refused.value, AirflowFailException)


@pytest.mark.parametrize("value", [True, -1])
def test_a_since_that_cannot_be_is_shown_as_it_was_given(value: Any) -> None:
    with pytest.raises(InvalidSpecError, match=f"since='{value}' is neither a snapshot id"):
        sensor(since=value)


def test_templates_and_xcom_are_looked_at_when_they_are_rendered() -> None:
    texts = dict.fromkeys(("table", "since", "branch", "lake_conn_id"), "{{ params.x }}")
    with DAG("d", schedule=None):
        of_xcom: Any = sensor(**texts).output
        assert sensor(task_id="next", since=of_xcom["snapshot_id"], table=of_xcom["table"]).since


def test_a_template_that_renders_to_nothing_leaves_the_argument_out(orders: Table, append: Append) -> None:
    append(orders, 1)
    with DAG("d", schedule=None):
        task = sensor(since="{{ params.since or '' }}", consumer="{{ params.consumer or '' }}", branch="{{ params.b }}")

    def rendered(**params: str) -> LakeSnapshotSensor:
        copied = copy(task)
        copied.render_template_fields({"params": {"since": None, "consumer": None, "b": "", **params}})
        return copied

    assert run(rendered(since=AN_HOUR_AGO.isoformat()))["branch"] == "main"
    assert rendered(consumer="etl")._start({}) == Since(consumer="etl")
    begin = pendulum.instance(AN_HOUR_AGO)
    assert rendered()._start({"data_interval_start": begin}) == Since.parse(AN_HOUR_AGO)
    with pytest.raises(InvalidSpecError, match="either since or consumer"):
        rendered(consumer="etl", since=AN_HOUR_AGO.isoformat())._start({})


@pytest.mark.parametrize("name", ["branch", "consumer"])
def test_a_param_that_a_form_left_empty_is_no_branch_and_no_consumer_of_the_name_none(
    orders: Table, append: Append, name: str
) -> None:
    append(orders, 1)
    with DAG("d", schedule=None):
        task = sensor(**{"since": None, "consumer": "etl", name: "{{ params.x }}"})
    task.render_template_fields({"params": {"x": None}})
    with pytest.raises(InvalidSpecError, match=f"{name} must not be 'None'"):
        run(task)


@pytest.mark.parametrize("name", ["branch", "consumer"])
def test_a_line_break_that_a_template_leaves_is_refused_and_not_waited_for_or_taken_for_unread(
    orders: Table, append: Append, name: str
) -> None:
    append(orders, 1)
    with DAG("d", schedule=None):
        task = sensor(**{"since": None, "consumer": "etl", name: "{{ params.x }}"})
    task.render_template_fields({"params": {"x": "audit\n"}})
    with pytest.raises(InvalidSpecError, match=f"{name} .*audit") as refused:
        run(task)
    assert isinstance(refused.value, AirflowFailException)


def test_a_consumer_and_a_branch_may_be_digits_of_a_native_template(orders: Table, append: Append) -> None:
    append(orders, 1)
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        task = sensor(since=None, consumer="{{ ds_nodash }}", branch="{{ ds_nodash }}")
    task.render_template_fields({"ds_nodash": "20261129"})
    assert task._start({}) == Since(consumer="20261129")
    assert task._poller.branch == "20261129"


def test_a_text_may_say_whether_a_sensor_defers() -> None:
    assert [sensor(deferrable=text).deferrable for text in ("False", "true")] == [False, True]

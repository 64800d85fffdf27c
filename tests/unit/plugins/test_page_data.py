"""The data of the lake page, from a real database: the newest entry wins, and no state of an entry breaks the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from airflow.models.dag import DagModel
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.maintenance.health import DeleteDebt
from airflow_lake_provider.maintenance.plan import PlannedAction
from airflow_lake_provider.maintenance.trend import TrendPoint, trend_entry
from airflow_lake_provider.plugins.lake_page.entries import Fields, Header, Night, Row, Trend, UnreadableEntryError
from airflow_lake_provider.plugins.lake_page.page_data import read_fleet, read_table
from tests.stored_xcom import break_value, store_instance, store_xcom
from tests.unit.plugins.fleet_of_entries import look_of, night_of
from tests.unit.plugins.left_entries import DAYS, NIGHT, NOW, fleet, leave, scores


def test_a_database_without_an_entry_has_no_table(session: Session) -> None:
    assert (fleet(session).tables, fleet(session).notes) == ((), ())


def test_the_worst_tables_come_first_and_those_that_cannot_be_read_before_them(session: Session) -> None:
    leave(session, look_of({"a.well": 100, "a.gone": None, "a.ill": 40}, NIGHT))
    assert list(scores(fleet(session)).items()) == [("a.gone", None), ("a.ill", 40), ("a.well", 100)]
    leave(session, night_of({"a.well": "failed"}, NIGHT), task="verdict")
    assert list(scores(fleet(session))) == ["a.gone", "a.well", "a.ill"]


def test_the_newest_look_wins_whichever_dag_has_left_it(session: Session) -> None:
    leave(session, look_of({"a.b": 10, "a.c": 10}, NIGHT - DAYS), NIGHT - DAYS)
    leave(session, look_of({"a.b": 20, "a.c": 20}, NIGHT))
    later = NIGHT + timedelta(hours=1)
    leave(session, look_of({"a.b": 30}, later, of_changed=True), later, dag_id="by_commits")
    assert scores(fleet(session)) == {"a.b": 30, "a.c": 20}


def test_a_table_that_the_newest_look_of_the_same_tables_lacks_is_gone(session: Session) -> None:
    leave(session, look_of({"a.b": 10, "a.c": 10}, NIGHT - DAYS), NIGHT - DAYS)
    leave(session, look_of({"a.b": 20}, NIGHT))
    # A look at other tables says nothing of it.
    leave(session, look_of({"x.y": 5}, NIGHT + DAYS / 9, tables=["x.*"]), NIGHT + DAYS / 9)
    assert {each.row.table: each.is_gone for each in fleet(session).tables} == {
        "a.b": False,
        "a.c": True,
        "x.y": False,
    }


def test_tables_of_the_same_name_in_two_catalogs_are_two(session: Session) -> None:
    leave(session, look_of({"a.b": 10}, NIGHT))
    leave(session, look_of({"a.b": 90}, NIGHT, conn_id="other"), dag_id="other")
    assert {(each.conn_id, each.row.score) for each in fleet(session).tables} == {("lake", 10), ("other", 90)}
    page = read_table(session, {"nightly", "other"}, NOW, "other", "a.b")
    assert page is not None
    assert page.state.row.score == 90


def test_a_user_sees_nothing_of_dags_that_he_may_not_read(session: Session) -> None:
    leave(session, look_of({"a.mine": 10}, NIGHT), dag_id="mine")
    leave(session, look_of({"a.mine": 99, "a.secret": 10}, NIGHT + DAYS / 9), NIGHT + DAYS / 9, dag_id="theirs")
    leave(session, night_of({"a.mine": "failed"}, NIGHT + DAYS / 9), NIGHT + DAYS / 9, dag_id="theirs", task="verdict")
    read = fleet(session, "mine")
    assert (scores(read), read.nights, read.tables[0].outcomes) == ({"a.mine": 10}, (), ())
    assert read_table(session, {"mine"}, NOW, "lake", "a.secret") is None
    assert fleet(session, "other").tables == ()


def test_a_table_whose_asset_a_user_may_read_is_seen_and_nothing_else_of_that_dag(session: Session) -> None:
    leave(session, look_of({"a.mine": 10, "a.secret": 10}, NIGHT, authority="shop", actions={}), dag_id="theirs")
    trends = [trend_entry(name, [TrendPoint(at=NIGHT, score=50)]) for name in ("a.mine", "a.secret")]
    night = night_of({"a.mine": "failed", "a.secret": "failed"}, NIGHT, authority="shop")
    leave(session, {**night, "trends": trends}, dag_id="theirs", task="verdict")
    store_instance(session, "theirs", "last", "plan", NOW, "failed")
    store_xcom(session, "theirs", "run", "old", [("lake_fleet", {"version": 99})], NIGHT)
    read = read_fleet(session, set(), NOW, {("shop", "a.mine"), ("other", "a.secret")})
    assert scores(read) == {"a.mine": 10}
    assert [each.outcome for each in read.tables[0].outcomes] == ["failed"]
    assert (read.nights, read.failed, read.notes, read.left_out) == ((), (), (), 0)
    page = read_table(session, set(), NOW, "lake", "a.mine", {("shop", "a.mine")})
    assert page is not None
    assert ([each.outcome for _, each in page.history], page.state.trend is not None) == (["failed"], True)
    assert page.details.each("snapshots") != []
    assert read_table(session, set(), NOW, "lake", "a.secret", {("shop", "a.mine")}) is None


def test_what_a_dag_says_that_a_user_may_not_read_changes_nothing_of_his_tables(session: Session) -> None:
    leave(session, look_of({"a.mine": 10, "a.b": 10}, NIGHT), dag_id="mine")
    later = NIGHT + timedelta(hours=1)
    leave(session, look_of({"a.mine": 99, "a.b": 99}, later), later, dag_id="theirs")
    trends = [trend_entry(name, [TrendPoint(at=later, score=50)]) for name in ("a.mine", "a.b")]
    leave(session, {**night_of({"a.b": "failed"}, later), "trends": trends}, later, dag_id="theirs", task="verdict")
    read = read_fleet(session, {"mine"}, NOW, {("lake", "a.mine")})
    assert scores(read) == {"a.b": 10, "a.mine": 99}
    tables = {each.row.table: each for each in read.tables}
    assert (tables["a.b"].outcomes, tables["a.b"].trend) == ((), None)
    assert tables["a.mine"].trend is not None


def test_an_asset_has_the_authority_of_its_connection_or_the_connections_id(session: Session) -> None:
    look = look_of({"a.b": 10}, NIGHT, authority="shop")
    leave(session, look, dag_id="theirs")
    for authority in ("lake", "shop"):
        assert scores(read_fleet(session, set(), NOW, {(authority, "a.b")})) == {"a.b": 10}
    del look["lake_fleet"]["authority"]
    leave(session, look, NIGHT + DAYS / 9, dag_id="older_version")
    assert fleet(session, "older_version").tables != ()
    assert read_fleet(session, set(), NOW, {("", "a.b")}).tables == ()


def test_a_busy_dag_hides_no_other(session: Session) -> None:
    leave(session, look_of({"a.weekly": 10}, NIGHT - 6 * DAYS, tables=["a.weekly"]), NIGHT - 6 * DAYS, dag_id="weekly")
    leave(session, night_of({"a.weekly": "done"}, NIGHT - 6 * DAYS), NIGHT - 6 * DAYS, dag_id="weekly", task="verdict")
    for run in range(310):
        at = NIGHT - timedelta(minutes=5 * run)
        store_xcom(session, "busy", f"run {run}", "plan", look_of({"a.b": 20}, at, tables=["a.b"]).items(), at)
        if run < 70:
            store_xcom(session, "busy", f"run {run}", "verdict", night_of({"a.b": "done"}, at).items(), at)
    read = fleet(session)
    assert scores(read) == {"a.weekly": 10, "a.b": 20}
    assert {place.dag_id for place, _ in read.nights} == {"weekly", "busy"}


def test_the_last_run_of_each_of_many_dags_is_shown(session: Session) -> None:
    names = [f"group_{number:02d}" for number in range(30)]
    for number, name in enumerate(names):
        at = NIGHT + timedelta(minutes=number)
        leave(session, look_of({f"{name}.t": 10}, at, tables=[f"{name}.*"]), at, dag_id=name)
        leave(session, night_of({f"{name}.t": "done"}, at), at, dag_id=name, task="verdict")
    read = fleet(session)
    assert sorted(place.dag_id for place, _ in read.nights) == names
    assert all(table.outcomes for table in read.tables)


def test_a_dag_that_was_renamed_goes_on_under_its_new_name(session: Session) -> None:
    mine: dict[str, Any] = {"tables": ["a.*"]}
    leave(session, look_of({"a.b": 10, "a.dropped": 10}, NIGHT - DAYS, **mine), NIGHT - DAYS, dag_id="old_name")
    leave(session, look_of({"x.y": 10}, NIGHT - DAYS, tables=["x.*"]), NIGHT - DAYS, dag_id="old_name", task="other")
    store_instance(session, "old_name", "last", "other", NIGHT, "failed")
    dag = DagModel(dag_id="old_name", bundle_name="dags", fileloc="/dags/x.py", is_stale=False)  # type: ignore[no-untyped-call]
    session.add(dag)
    session.commit()
    leave(session, look_of({"a.b": 20}, NIGHT, **mine), dag_id="new_name")
    gone = {each.row.table: each.is_gone for each in fleet(session).tables}
    assert (gone, len(fleet(session).failed)) == ({"a.b": False, "a.dropped": True, "x.y": False}, 1)
    session.query(DagModel).update({"is_stale": True})
    session.commit()
    # Until another DAG looks at the same tables, each of its plans holds.
    leave(session, look_of({"x.z": 10}, NIGHT - DAYS, tables=["x.*"]), NIGHT - DAYS, dag_id="old_name", task="third")
    gone = {each.row.table: each.is_gone for each in fleet(session).tables}
    assert (gone, fleet(session).failed) == ({"a.b": False, "a.dropped": True, "x.y": False, "x.z": False}, ())


@pytest.mark.parametrize("key", ["lake_fleet", "lake_fleet_rows_0", "lake_outcomes", "trends"])
@pytest.mark.parametrize(
    "written", ["{", "[]", "null", '"s3://elsewhere"', '{"version": 2}', '{"version": 1}', "[[{}]]"]
)
def test_a_broken_entry_is_left_out_and_the_others_are_shown(session: Session, key: str, written: str) -> None:
    pushed = {**night_of({"a.b": "done"}, NIGHT), "trends": [trend_entry("a.b", [TrendPoint(at=NIGHT, score=50)])]}
    leave(session, look_of({"a.b": 10}, NIGHT))
    leave(session, pushed, task="verdict")
    break_value(session, key, written)
    leave(session, look_of({"x.y": 5}, NIGHT), dag_id="sound")
    read = fleet(session)
    assert "x.y" in scores(read)
    assert read_table(session, {"nightly", "sound"}, NOW, "lake", "x.y") is not None
    # An entry that is only empty is one.
    if key in ("lake_fleet", "lake_outcomes"):
        assert [place.dag_id for place, _ in read.notes] == ["nightly"]


def test_an_entry_whose_parts_are_gone_says_so(session: Session) -> None:
    entries = look_of({"a.b": 10}, NIGHT)
    leave(session, {key: value for key, value in entries.items() if not key.startswith("lake_fleet_rows")})
    read = fleet(session)
    assert (read.tables, [note for _, note in read.notes]) == ((), ["is not readable"])


def test_last_nights_outcomes_and_what_they_gained_are_shown_with_their_run(session: Session) -> None:
    leave(session, look_of({"a.b": 10, "a.c": 10}, NIGHT))
    leave(session, night_of({"a.b": "failed"}, NIGHT - DAYS), NIGHT - DAYS, task="verdict")
    leave(session, night_of({"a.b": "done", "a.d": "failed"}, NIGHT, reason="x"), task="verdict")
    read = fleet(session)
    ((place, night),) = read.nights
    assert (place.task_id, night.counts) == ("verdict", {"done": 1, "failed": 1})
    assert night.gained == {"data_files": 14, "bytes": 200, "delete_files": 0, "snapshots": 0}
    outcomes = {each.row.table: [one.outcome for one in each.outcomes] for each in read.tables}
    assert outcomes == {"a.b": ["done"], "a.c": []}
    page = read_table(session, {"nightly"}, NOW, "lake", "a.b")
    assert page is not None
    assert [each.outcome for _, each in page.history] == ["done", "failed"]


def test_runs_in_which_nothing_was_due_hide_no_failure_and_the_newest_of_them_is_shown(session: Session) -> None:
    leave(session, look_of({"a.b": 10}, NIGHT - DAYS), NIGHT - DAYS)
    trends = [trend_entry("a.b", [TrendPoint(at=NIGHT, score=50)])]
    left = {**night_of({"a.b": "failed"}, NIGHT), "trends": trends}
    leave(session, left, dag_id="by_commits", task="verdict")
    for number in range(65):
        at = NIGHT + timedelta(minutes=number + 1)
        leave(session, {**night_of({}, at), "trends": []}, at, dag_id="by_commits", task="verdict")
    read = fleet(session)
    (table,) = read.tables
    assert (table.has_failed, table.trend is not None) == (True, True)
    assert [(place.run_id, night.counts) for place, night in read.nights] == [(f"run {at.isoformat()}", {})]
    page = read_table(session, {"nightly", "by_commits"}, NOW, "lake", "a.b")
    assert page is not None
    assert ([each.outcome for _, each in page.history], page.state.has_failed) == (["failed"], True)
    # A user of the asset alone sees the same of the table.
    assert read_fleet(session, set(), NOW, {("lake", "a.b")}).tables[0].has_failed


def test_runs_that_did_something_to_other_tables_hide_no_failure_of_a_table(session: Session) -> None:
    leave(session, look_of({"a.b": 10, "a.c": 20}, NIGHT - DAYS), NIGHT - DAYS)
    leave(session, night_of({"a.b": "failed"}, NIGHT - DAYS), NIGHT - DAYS, task="verdict")
    for number in range(30):
        at = NIGHT - DAYS / 2 + timedelta(minutes=15 * number)
        leave(session, night_of({"a.c": "done"}, at), at, task="verdict")
    assert {each.row.table: each.has_failed for each in fleet(session).tables} == {"a.b": True, "a.c": False}


def test_an_entry_of_a_run_without_tasks_that_an_earlier_version_has_left_is_shown(session: Session) -> None:
    leave(session, look_of({"a.b": 10}, NIGHT))
    (entry,) = night_of({}, NIGHT).values()
    leave(session, {"lake_outcomes": entry}, task="verdict")
    assert [night.counts for _, night in fleet(session).nights] == [{}]


def test_a_score_and_a_count_of_zero_are_numbers(session: Session) -> None:
    leave(session, look_of({"a.b": 0}, NIGHT, deletes=DeleteDebt(delete_files=0, equality_deletes=0)))
    row = fleet(session).tables[0].row
    assert (row.score, row.delete_files, row.equality_deletes, row.deleted_share) == (0, 0, 0, None)


@pytest.mark.parametrize(
    ("outcome", "minutes", "is_due"),
    [
        ("done", 9, False),
        ("nothing-due", 9, False),
        ("failed", 9, True),
        ("conflict", 9, True),
        ("unsupported", 9, True),
        ("done", -9, True),
    ],
)
def test_what_was_done_since_the_look_is_not_due_any_more(
    session: Session, outcome: str, minutes: int, is_due: bool
) -> None:
    action = PlannedAction(action="compaction", level="minor")
    leave(session, look_of({"a.b": 10, "a.worse": 5}, NIGHT, actions={"a.b": (action,)}))
    at = NIGHT + timedelta(minutes=minutes)
    leave(session, night_of({"a.b": outcome, "a.worse": outcome}, at), at, task="verdict")
    leave(session, look_of({"a.idle": 90}, NIGHT, tables=["a.idle"]), dag_id="other")
    tables = {each.row.table: each for each in fleet(session).tables}
    assert bool(tables["a.b"].due) == is_due
    assert ("due" in tables["a.b"].states) == is_due
    # A score of before the run says less than one that holds.
    assert (next(iter(tables)) == "a.idle") == (not is_due)


@pytest.mark.parametrize(
    ("actions", "outcomes", "due"),
    [
        (("compaction", "expire-rows"), "done unsupported", ["expire-rows"]),
        # What the table rules out was never due.
        (("compaction", "remove-orphans"), "done unsupported", []),
        (("compaction", "expire-rows"), "nothing-due failed", ["expire-rows"]),
        (("create-tag", "create-tag"), "done failed", ["create-tag", "create-tag"]),
    ],
)
def test_what_became_of_one_action_makes_no_other_due(
    session: Session, actions: Sequence[str], outcomes: str, due: list[str]
) -> None:
    planned = tuple(PlannedAction(action=each) for each in actions if each != "remove-orphans")
    leave(session, look_of({"a.b": 10, "a.idle": 90}, NIGHT, actions={"a.b": planned}))
    at = NIGHT + timedelta(minutes=9)
    leave(session, night_of({"a.b": outcomes}, at, actions=actions), at, task="verdict")
    tables = {each.row.table: each for each in fleet(session).tables}
    assert [each.action for each in tables["a.b"].due] == due
    assert (next(iter(tables)) == "a.idle") == (not due)


def test_a_plan_or_a_verdict_that_failed_last_is_named(session: Session) -> None:
    leave(session, look_of({"a.b": 10}, NIGHT - DAYS), NIGHT - DAYS)
    store_instance(session, "nightly", "run of last night", "plan", NIGHT, "failed")
    session.commit()
    assert [(place.task_id, place.run_id) for place in fleet(session).failed] == [("plan", "run of last night")]
    store_instance(session, "nightly", "run of now", "plan", NOW)
    assert fleet(session).failed == ()


def test_a_plan_that_failed_is_named_however_often_other_tasks_have_run_since(session: Session) -> None:
    leave(session, look_of({"a.b": 10}, NIGHT - DAYS), NIGHT - DAYS)
    leave(session, look_of({"x.y": 10}, NIGHT - DAYS, tables=["x.*"]), NIGHT - DAYS, dag_id="busy")
    store_instance(session, "nightly", "run of last night", "plan", NIGHT, "failed")
    for number in range(310):
        store_instance(session, "busy", f"run {number}", "plan", NIGHT + timedelta(seconds=number + 1))
    session.commit()
    assert [(place.dag_id, place.task_id) for place in fleet(session).failed] == [("nightly", "plan")]


def test_a_table_has_the_details_of_its_look_and_the_trend_of_its_runs(session: Session) -> None:
    leave(session, look_of({f"a.t{number:02d}": number for number in range(60)}, NIGHT))
    points = [TrendPoint(at=NIGHT - DAYS * (4 - n), score=n, files=100 * n, bytes=0, deletes=None) for n in range(5)]
    pushed = {**night_of({"a.t51": "done"}, NIGHT), "trends": [trend_entry("a.t51", points)]}
    leave(session, pushed, task="verdict")
    page = read_table(session, {"nightly"}, NOW, "lake", "a.t51")
    assert page is not None
    assert [each.text("id") for each in page.details.each("snapshots")] == ["8412069653806524497"]
    assert page.details.within("files").list("by_size") == [1, 2, 0, 0, 4, 0]
    assert page.state.trend is not None
    assert (page.state.trend.score, page.state.trend.files) == ((0, 1, 2, 3, 4), (0, 100, 200, 300, 400))
    assert set(page.state.trend.deletes) == {-1}


@pytest.mark.parametrize("table", [f"a.{'x' * 200}", f"a.{'ж' * 40}"], ids=["long", "long as JSON has it"])
def test_a_table_with_a_long_name_has_a_trend_for_each_who_may_see_it(session: Session, table: str) -> None:
    leave(session, look_of({table: 10}, NIGHT), dag_id="theirs")
    other = f"{table}y"
    trends = [trend_entry(name, [TrendPoint(at=NIGHT, score=50)]) for name in (table, other)]
    leave(session, {**night_of({table: "done", other: "done"}, NIGHT), "trends": trends}, dag_id="theirs", task="v")
    seen: list[tuple[set[str], set[tuple[str, str]]]] = [({"theirs"}, set()), (set(), {("lake", table)})]
    for dag_ids, assets in seen:
        (state,) = read_fleet(session, dag_ids, NOW, assets).tables
        assert state.trend is not None


@pytest.mark.parametrize(("age", "is_stale"), [(1, False), (3, True)])
def test_a_table_is_stale_by_the_limit_of_its_policy_as_of_now(session: Session, age: int, is_stale: bool) -> None:
    policy = MaintenancePolicy(fresh_within=timedelta(hours=2))
    leave(session, look_of({"a.b": 9}, NIGHT, policy=policy, last_data_commit=NOW - timedelta(hours=age)))
    assert ("stale" in fleet(session).tables[0].states) == is_stale


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "at", "rows", "table", "why", "due", "tasks", "gained", "score", "most"])
            | st.text(max_size=3),
            inner,
            max_size=6,
        )
    ),
    max_leaves=15,
)


@given(JSON)
def test_no_json_breaks_what_reads_entries(given_json: Any) -> None:
    text = json.dumps(given_json)
    for read in (Header.of, Night.of):
        for written in (text, json.dumps({**(given_json if isinstance(given_json, dict) else {}), "version": 1})):
            try:
                read(written)
            except UnreadableEntryError:
                continue
    Row.of(Fields(given_json))
    Trend.of(Fields({**(given_json if isinstance(given_json, dict) else {}), "version": 1}))


@pytest.mark.parametrize(
    "number", [float("inf"), float("nan"), 1e300, 10**30, pytest.param(10**400, id="400 digits"), True, "7", None]
)
def test_a_number_that_no_page_can_show_counts_as_missing(number: Any) -> None:
    row = Row.of(Fields({"table": "a.b", "score": number, "fresh_within": number}))
    assert row is not None
    assert (row.score, row.fresh_within) == (None, None)

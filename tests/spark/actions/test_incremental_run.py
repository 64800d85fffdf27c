"""An incremental run as the driver runs it: from a source table into a target, exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import (
    BadInputError,
    BrokenMetadataError,
    ForgottenRunError,
    InvalidSpecError,
    RangeUnavailableError,
    RolledBackError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.metadata_changes import RollbackSpec
from airflow_lake_provider.planning.nothing_new import nothing_new
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name
from tests.spark.cached_rdds import cached_rdds
from tests.spark.consumer import QUERY, Consumer
from tests.spark.forgotten_runs import forget_runs, old_run
from tests.spark.metadata_change_flow import carry_out
from tests.spark.upsert_flow import Flow, InterruptedProgress, Killed, kill, row
from tests.table_facts import facts

VERSION_3 = "TBLPROPERTIES ('format-version' = '3')"


@pytest.fixture
def consumer(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Consumer:
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    source = Flow(spark, f"source.{name}", tmp_path / "inbox")
    made = Consumer(source, Flow(spark, f"mart.{name}", tmp_path / "unused"))
    made.commit("1", row(1, "a", 1), row(2, "b", 2), row(3, "c", 3))
    return made


@pytest.fixture(scope="module")
def one_run_behind(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Consumer:
    folder = tmp_path_factory.mktemp("behind")
    made = Consumer(Flow(spark, "source.behind", folder / "inbox"), Flow(spark, "mart.behind", folder / "unused"))
    made.commit("1", row(1, "a", 1), row(2, "b", 2), row(3, "c", 3))
    made.run("1")
    made.commit("2", row(1, "a2", 7), row(2, "", op="d"))
    return made


@pytest.mark.parametrize("phase", ["read", "resolve", "stage", "commit", "guard"])
def test_a_driver_killed_at_any_phase_is_made_good_by_the_retry(one_run_behind: Consumer, phase: str) -> None:
    consumer = one_run_behind.copy(f"killed_at_{phase}")
    with pytest.raises(Killed):
        consumer.run("2", progress=InterruptedProgress(at=phase, then=kill))
    retried = consumer.run("2")
    assert retried.outcome is (Outcome.ALREADY_APPLIED if phase == "guard" else Outcome.APPLIED)
    assert (retried.upserts_read, retried.deletes_read) == (1, 1)
    assert (retried.rows_inserted, retried.rows_updated, retried.rows_deleted) == (0, 1, 1)
    assert retried.committed == (str(consumer.target.loaded().metadata.current_snapshot_id),)
    assert consumer.target.rows() == consumer.expected()
    head = consumer.source.loaded().metadata.current_snapshot_id
    assert consumer.source.loaded().metadata.refs["lake.consumer.revenue"].snapshot_id == head


def test_a_late_run_of_an_older_range_does_not_take_the_target_back(consumer: Consumer) -> None:
    consumer.run("1")
    consumer.commit("2", row(1, "a2", 7))
    older = str(consumer.source.loaded().metadata.current_snapshot_id)
    consumer.commit("3", row(1, "a3", 8))
    consumer.run("3")
    late = consumer.run("2", to_snapshot=older)
    assert late.outcome is Outcome.NOTHING_NEW
    assert consumer.target.rows() == consumer.expected()


def test_a_source_that_was_rolled_back_takes_the_target_back(consumer: Consumer) -> None:
    base = consumer.source.loaded().metadata.current_snapshot_id
    consumer.commit("2", row(1, "wrong", 9), row(9, "wrong", 9), row(3, "", op="d"))
    consumer.run("1")
    consumer.source.spark.sql(f"CALL system.rollback_to_snapshot('{consumer.source.table}', {base})")
    consumer.run("2")
    assert consumer.target.rows() == consumer.expected()


def test_a_target_that_was_rolled_back_is_refused_until_it_is_refreshed(consumer: Consumer) -> None:
    first = consumer.run("1")
    consumer.commit("2", row(1, "a2", 7))
    consumer.run("2")
    target = consumer.target.table
    consumer.source.spark.sql(f"CALL system.rollback_to_snapshot('{target}', {first.committed[-1]})")
    assert not nothing_new(consumer.source.on_worker(), facts(consumer.target.loaded()), "revenue").nothing_new
    for run in ("2", "3"):
        with pytest.raises(RolledBackError, match="full_refresh"):
            consumer.run(run)
    assert consumer.run("4", full_refresh=True).outcome is Outcome.APPLIED
    assert consumer.target.rows() == consumer.expected()
    assert nothing_new(consumer.source.on_worker(), facts(consumer.target.loaded()), "revenue").nothing_new


def test_another_transform_is_refused_until_told_what_to_do(consumer: Consumer) -> None:
    consumer.run("1")
    consumer.commit("2", row(1, "a2", 7))
    other = QUERY.replace("* 10", "* 100")
    with pytest.raises(BadInputError, match="on_transform_change"):
        consumer.run("2", query=other)
    consumer.run("2", query=other, on_transform_change="full")
    assert consumer.target.rows() == {k: (name, n * 100) for k, (name, n) in consumer.source.rows().items()}


def test_a_transform_changed_at_the_head_of_the_source_rebuilds_or_is_refused(consumer: Consumer) -> None:
    consumer.run("1")
    other = QUERY.replace("* 10", "* 100")
    assert consumer.run("2", query=other, on_transform_change="continue").outcome is Outcome.NOTHING_NEW
    with pytest.raises(BadInputError, match="on_transform_change"):
        consumer.run("3", query=other)
    assert consumer.run("4", query=other, on_transform_change="full").outcome is Outcome.APPLIED
    assert consumer.target.rows() == {k: (name, n * 100) for k, (name, n) in consumer.source.rows().items()}
    assert consumer.run("5", query=other).outcome is Outcome.NOTHING_NEW


def test_an_expired_start_is_refused_or_read_in_full_as_asked(consumer: Consumer) -> None:
    consumer.run("1", protect_source=False)
    consumer.commit("2", row(2, "", op="d"), row(4, "d", 4))
    consumer.source.spark.sql(
        f"CALL system.expire_snapshots(table => '{consumer.source.table}', older_than => now(), retain_last => 1)"
    )
    with pytest.raises(RangeUnavailableError, match="on_gap"):
        consumer.run("2", protect_source=False)
    report = consumer.run("2", protect_source=False, on_gap="full")
    assert report.from_snapshot is None
    assert consumer.target.rows() == consumer.expected()


def test_a_head_that_was_expired_before_the_driver_began_gives_way_to_the_present_one(consumer: Consumer) -> None:
    consumer.run("1")
    consumer.commit("2", row(2, "", op="d"), row(4, "d", 4))
    seen = consumer.source.head()
    consumer.commit("3", row(4, "d2", 5))
    consumer.source.spark.sql(
        f"CALL system.expire_snapshots(table => '{consumer.source.table}', older_than => now(), retain_last => 1)"
    )
    report = consumer.run("2", to_snapshot=seen)
    assert report.to_snapshot == consumer.source.head() != seen
    assert (report.upserts_read, report.deletes_read) == (1, 1)
    assert consumer.target.rows() == consumer.expected()
    guard = consumer.source.loaded().metadata.refs["lake.consumer.revenue"]
    assert str(guard.snapshot_id) == consumer.source.head()
    assert consumer.run("2", to_snapshot=seen).outcome is Outcome.ALREADY_APPLIED
    assert consumer.target.rows() == consumer.expected()


def test_a_source_that_was_dropped_and_created_again_is_named_with_what_becomes_of_its_rows(consumer: Consumer) -> None:
    first = consumer.run("1")
    assert (first.reason.endswith("the target has consumed nothing yet"), first.warnings) == (True, ())
    before = consumer.source.loaded().metadata.table_uuid
    consumer.source.spark.sql(f"DROP TABLE {consumer.source.table} PURGE")
    consumer.commit("2", row(7, "g", 7))
    report = consumer.run("2")
    assert consumer.target.rows() == consumer.expected()
    assert "dropped and created again" in report.reason
    (warning,) = report.warnings
    assert str(before) in warning
    assert "were deleted" in warning


def test_a_source_that_gives_its_place_back_to_the_one_before_leaves_no_row_in_the_target(
    consumer: Consumer, tmp_path: Path
) -> None:
    consumer.run("1")
    green = Flow(consumer.source.spark, f"{consumer.source.table}_green", tmp_path / "green")
    other = Consumer(green, consumer.target)
    other.commit("2", row(1, "green", 9), row(7, "green", 7))
    other.run("2")
    assert consumer.target.rows() == other.expected()
    # Nothing was committed to it, so that its position alone would say that nothing is new.
    assert not nothing_new(consumer.source.on_worker(), facts(consumer.target.loaded()), "revenue").nothing_new
    assert "another table than the target has consumed" in consumer.run("3").reason
    assert consumer.target.rows() == consumer.expected()
    assert consumer.run("4").outcome is Outcome.NOTHING_NEW


def test_a_consumer_that_takes_its_former_name_again_leaves_no_row_in_the_target(consumer: Consumer) -> None:
    consumer.run("1")
    consumer.commit("2", row(9, "short-lived", 9))
    consumer.run("2", consumer="other")
    consumer.commit("3", row(9, "", op="d"))
    # Between the two positions of its name, the row has come and gone.
    report = consumer.run("3")
    assert "another consumer, other, has rebuilt the target since" in report.reason
    assert ["give each of the two a table of its own" in warning for warning in report.warnings] == [True]
    assert consumer.target.rows() == consumer.expected()
    assert consumer.run("4").outcome is Outcome.NOTHING_NEW


def test_a_range_that_another_tool_gave_back_to_the_target_is_read_anew(consumer: Consumer) -> None:
    first = consumer.run("1")
    consumer.commit("2", row(9, "short-lived", 9))
    second = consumer.run("2")
    carry_out(consumer.target, RollbackSpec, snapshot_id=first.committed[-1])
    call = f"CALL system.set_current_snapshot('{consumer.target.table}', {second.committed[-1]})"
    consumer.target.spark.sql(call)
    consumer.commit("3", row(9, "", op="d"))
    assert "main has a later range than the position tells" in consumer.run("3").reason
    assert consumer.target.rows() == consumer.expected()
    consumer.commit("4", row(1, "a4", 4))
    assert consumer.run("4").upserts_read == 1


def test_a_full_refresh_of_a_target_that_has_rows_without_a_key_is_refused(consumer: Consumer) -> None:
    table = consumer.target.table
    consumer.target.catalog()
    consumer.source.spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING, revenue INT) {VERSION_3}")
    consumer.source.spark.sql(f"INSERT INTO {table} VALUES (NULL, 'stray', 0), (99, 'stray', 0)")
    with pytest.raises(BadInputError, match=r"1 rows of the table have NULL in a key column of \['id'\]"):
        consumer.run("1", full_refresh=True)
    assert len(consumer.target.records()) == 2
    consumer.source.spark.sql(f"DELETE FROM {table} WHERE id IS NULL")
    consumer.run("1", full_refresh=True)
    assert consumer.target.rows() == consumer.expected()


def test_a_first_run_tells_how_many_rows_of_others_it_has_deleted(consumer: Consumer) -> None:
    consumer.run("1")
    consumer.target.spark.sql(f"INSERT INTO {consumer.target.table} VALUES (98, 'stray', 0), (99, 'stray', 0)")
    report = consumer.run("2", consumer="second")
    assert consumer.target.rows() == consumer.expected()
    (warning,) = report.warnings
    assert "had rows before consumer second read" in warning
    assert "2 of them, whose keys the result does not have, were deleted" in warning


def test_positions_that_strangers_wrote_do_not_stop_the_first_run_of_a_consumer(consumer: Consumer) -> None:
    consumer.run("1")
    strange = "'lake.position.büro' = '1', 'lake.position.inbox' = '[', 'lake.position.a b' = '{}'"
    consumer.target.spark.sql(f"ALTER TABLE {consumer.target.table} SET TBLPROPERTIES ({strange})")
    assert consumer.run("2", consumer="second").reason.endswith("the target has consumed nothing yet")
    assert consumer.target.rows() == consumer.expected()


def test_a_position_that_names_no_snapshot_of_the_sources_format_is_refused_and_read_anew_when_asked(
    consumer: Consumer,
) -> None:
    consumer.run("1")
    consumer.commit("2", row(4, "d", 4))
    ((name, position),) = (
        (name, json.loads(value))
        for name, value in consumer.target.loaded().properties.items()
        if name.startswith("lake.position.")
    )
    position["positions"]["snapshot"] = "v7"
    setting = f"'{name}' = '{json.dumps(position)}'"
    consumer.target.spark.sql(f"ALTER TABLE {consumer.target.table} SET TBLPROPERTIES ({setting})")
    with pytest.raises(BrokenMetadataError, match=name.removeprefix("lake.position.")) as refused:
        consumer.run("2")
    assert "names snapshot 'v7', expected a snapshot id; run it with full_refresh=True" in str(refused.value)
    # Of a table that the consumer has read before it, a broken one is no concern of the way out.
    of_another = name.replace(str(consumer.source.loaded().metadata.table_uuid), str(uuid4()))
    assert of_another != name
    consumer.target.spark.sql(f"ALTER TABLE {consumer.target.table} SET TBLPROPERTIES ('{of_another}' = '[')")
    assert consumer.run("3", full_refresh=True).outcome is Outcome.APPLIED
    assert consumer.target.rows() == consumer.expected()


def test_a_full_refresh_also_removes_what_the_source_no_longer_has(consumer: Consumer) -> None:
    consumer.run("1")
    consumer.target.spark.sql(f"INSERT INTO {consumer.target.table} VALUES (99, 'stray', 0)")
    consumer.run("2", full_refresh=True)
    assert consumer.target.rows() == consumer.expected()


@pytest.mark.parametrize("key", ["shop.id", "shop `id`"])
def test_a_full_refresh_removes_rows_by_a_key_of_any_name(consumer: Consumer, key: str) -> None:
    name = quoted_name(key)
    query = f"SELECT id AS {name}, name AS shop, _change_type FROM changes"
    consumer.run("1", keys=(key,), query=query)
    consumer.target.spark.sql(f"INSERT INTO {consumer.target.table} VALUES (99, 'stray')")
    consumer.run("2", keys=(key,), query=query, full_refresh=True)
    rows = consumer.target.loaded().scan().to_arrow().to_pylist()
    assert {each[key]: each["shop"] for each in rows} == {1: "a", 2: "b", 3: "c"}


def test_a_transform_that_is_refused_leaves_nothing_cached(consumer: Consumer) -> None:
    cached = cached_rdds(consumer.source.spark)
    with pytest.raises(BadInputError, match="NULL in the key"):
        consumer.run("1", query="SELECT CAST(NULL AS BIGINT) AS id, name FROM changes")
    assert cached_rdds(consumer.source.spark) <= cached


def test_a_consumer_goes_back_with_a_source_that_was_rolled_back(consumer: Consumer) -> None:
    first = str(consumer.source.loaded().metadata.current_snapshot_id)
    consumer.commit("2", row(1, "wrong", 0), row(2, "", op="d"), row(4, "d", 4))
    consumer.run("1")
    wrong = consumer.target.rows()
    carry_out(consumer.source, RollbackSpec, snapshot_id=first)
    # Its tag still keeps the snapshot that was rolled back, and the changes from there back to main are read.
    assert consumer.run("2").outcome is Outcome.APPLIED
    assert consumer.target.rows() == consumer.expected() != wrong
    # The batch comes again, corrected.
    consumer.commit("3", row(1, "right", 5))
    consumer.run("3")
    assert consumer.target.rows() == consumer.expected()


def test_a_range_that_an_author_names_is_read_again_though_the_target_has_consumed_it(consumer: Consumer) -> None:
    consumer.run("1")
    before = consumer.source.head()
    consumer.commit("2", row(1, "a2", 7), row(4, "d", 4))
    consumer.run("2")
    consumer.target.spark.sql(f"DELETE FROM {consumer.target.table} WHERE id IN (1, 4)")
    report = consumer.run("3", from_snapshot=before)
    assert (report.outcome, report.from_snapshot, report.upserts_read) == (Outcome.APPLIED, before, 2)
    assert consumer.target.rows() == consumer.expected()
    assert consumer.run("3", from_snapshot=before).outcome is Outcome.ALREADY_APPLIED
    assert consumer.run("4").outcome is Outcome.NOTHING_NEW


def test_a_target_that_was_rolled_back_takes_the_changes_again(consumer: Consumer) -> None:
    consumer.run("1")
    before = str(consumer.target.loaded().metadata.current_snapshot_id)
    first = consumer.target.rows()
    consumer.commit("2", row(1, "a2", 7), row(2, "", op="d"))
    consumer.run("2")
    carry_out(consumer.target, RollbackSpec, snapshot_id=before)
    assert consumer.target.rows() == first
    assert consumer.run("2").outcome is Outcome.APPLIED
    assert consumer.target.rows() == consumer.expected() != first


def test_of_two_first_runs_of_a_consumer_at_once_the_target_that_is_filled_first_keeps_it(
    consumer: Consumer, tmp_path: Path
) -> None:
    first = Consumer(consumer.source, Flow(consumer.source.spark, f"{consumer.target.table}_first", tmp_path / "none"))
    while_committing = InterruptedProgress(at="commit", then=lambda: first.run("first"))
    (warning,) = consumer.run("second", progress=while_committing).warnings
    assert f"consumer 'revenue' of {consumer.source.table} fills {first.target.table} already" in warning
    assert first.target.rows() == consumer.target.rows() == consumer.expected()
    consumer.commit("2", row(1, "a2", 7))
    head, refs = consumer.source.loaded().metadata.current_snapshot_id, consumer.source.loaded().metadata.refs
    # A driver that has waited since before the first one was filled sees it, too.
    with pytest.raises(InvalidSpecError, match="fills"):
        consumer.run("third")
    assert consumer.source.loaded().metadata.refs == refs
    assert first.run("third").outcome is Outcome.APPLIED
    assert first.target.rows() == consumer.expected() != consumer.target.rows()
    assert consumer.source.loaded().metadata.refs["lake.consumer.revenue"].snapshot_id == head


def test_a_forgotten_retry_goes_on_from_the_position_and_is_refused_where_that_tells_nothing(
    consumer: Consumer,
) -> None:
    consumer.run("1")
    before = str(consumer.source.loaded().metadata.current_snapshot_id)
    consumer.commit("2", row(1, "a2", 7))
    forget_runs(consumer.source.spark, consumer.target.table)
    head = consumer.target.loaded().metadata.current_snapshot_id
    for changes in ({"full_refresh": True}, {"from_snapshot": before}):
        with pytest.raises(
            ForgottenRunError, match="Check the rows, then clear the task again, or start a new DAG run"
        ):
            consumer.run(old_run(2), **changes)
    assert consumer.target.loaded().metadata.current_snapshot_id == head
    assert consumer.run(old_run(2)).outcome is Outcome.APPLIED
    assert consumer.target.rows() == consumer.expected()
    assert consumer.run(old_run(1), full_refresh=True).outcome is Outcome.APPLIED
    assert consumer.run(old_run(2), full_refresh=True).outcome is Outcome.ALREADY_APPLIED

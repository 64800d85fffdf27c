"""Write, audit, publish: what main gets, when, and what is left where an assertion does not hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import (
    AuditFailedError,
    CommitConflictError,
    InvalidSpecError,
    UnknownOutcomeError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table, expire_snapshots
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import audit_before_publish, metadata_swap
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow, InterruptedProgress, NewFlow, row

V2 = TableLayout(properties={"format-version": "2"})
TABLE = Audits(queries={"no negative n": "SELECT * FROM audited WHERE n < 0", "few": "SELECT 1 FROM batch LIMIT 0;"})
LOCAL = Audits(queries={"no negative n": "SELECT * FROM batch WHERE n < 0 -- of a row"}, local=True)
WEEK = 7 * 24 * 3600 * 1000


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    return new_flow(strategy=UpsertStrategy.POSITIONS, audits=TABLE)


def job(flow: Flow) -> dict[str, Any]:
    return {"catalog": "lake_default", "table": flow.table, "run": RunIdentity.of("maintenance")}


def compact(flow: Flow) -> None:
    compact_table(flow.spark, CompactionSpec(**job(flow), level=CompactionLevel.FULL), Progress())


def expire(flow: Flow, stage_branches_too: bool) -> None:
    now = datetime.now(UTC) + timedelta(seconds=1)
    stage = now if stage_branches_too else now - timedelta(days=1)
    expire_snapshots(
        flow.spark, SnapshotExpirySpec(**job(flow), expire_before=now, expire_stage_branches_before=stage), Progress()
    )


def branches(flow: Flow) -> set[str]:
    return set(flow.loaded().metadata.refs) - {"main"}


def every_snapshot_can_be_read(flow: Flow) -> bool:
    table = flow.loaded()
    return all(table.scan(snapshot_id=s.snapshot_id).to_arrow().num_rows for s in table.metadata.snapshots)


def sql(statement: str) -> Callable[[Flow], Any]:
    return lambda flow: flow.spark.sql(statement.format(table=flow.table))


def test_a_failed_audit_leaves_main_alone_and_the_batch_on_a_branch(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    before = flow.loaded().metadata
    flow.arrive("2.jsonl", row(1, "secret", -7), row(2, "b", 2))
    with pytest.raises(AuditFailedError) as failed:
        flow.apply("run 2")
    (branch,) = branches(flow)
    said = str(failed.value)
    assert "1 of 2 audits failed: 'no negative n' (1 rows)" in said
    assert f"SELECT * FROM {flow.table} VERSION AS OF '{branch}'" in said
    assert "-7" not in said
    assert "secret" not in said
    after = flow.loaded().metadata
    assert (after.current_snapshot_id, after.properties) == (before.current_snapshot_id, before.properties)
    assert flow.rows() == {1: ("a", 1)}
    assert flow.rows(branch) == {1: ("secret", -7), 2: ("b", 2)}
    assert (branch[:11], after.refs[branch].max_ref_age_ms) == ("lake_audit_", WEEK)
    expire(flow, stage_branches_too=True)
    assert flow.rows(branch) == {1: ("secret", -7), 2: ("b", 2)}
    with pytest.raises(AuditFailedError, match=branch):
        flow.apply("run 2")
    flow.arrive("2.jsonl", row(1, "b", 7), row(2, "b", -2))
    with pytest.raises(AuditFailedError):
        flow.apply("run 2")
    (other,) = branches(flow)
    assert (other == branch, flow.rows(other)) == (False, {1: ("b", 7), 2: ("b", -2)})
    flow.arrive("2.jsonl", row(1, "b", 7), row(2, "b", 20))
    report = flow.apply("run 2")
    assert (report.outcome, report.audit_runs) == (Outcome.APPLIED, 1)
    assert flow.rows() == {1: ("b", 7), 2: ("b", 20)}
    assert branches(flow) == set()


MOVES: dict[str, tuple[Callable[[Flow], Any], dict[int, tuple[Any, ...]]]] = {
    "append of another key": (sql("INSERT INTO {table} VALUES (9, 'z', 9)"), {9: ("z", 9)}),
    "update of a key of the batch": (sql("UPDATE {table} SET name = 'z' WHERE id = 1"), {}),
    "compaction": (compact, {}),
}


@pytest.mark.parametrize("move", MOVES)
def test_what_is_committed_before_the_publication_is_resolved_and_audited_again(flow: Flow, move: str) -> None:
    act, theirs = MOVES[move]
    flow.arrive("1.jsonl", row(1, "a", 1), row(2, "a", 2))
    flow.apply("run 1", create=V2 if "update" in move else TableLayout())
    flow.arrive("2.jsonl", row(1, "c", 3), row(3, "c", 3))
    report = flow.apply("run 2", progress=InterruptedProgress(at="publish", then=lambda: act(flow)))
    assert (report.audit_runs, report.attempts) == (2, 1)
    expected = {1: ("c", 3), 2: ("a", 2), 3: ("c", 3)} | theirs
    assert flow.rows() == expected
    assert (flow.commits_of(report.run_key), branches(flow)) == (1, set())
    assert every_snapshot_can_be_read(flow)
    expire(flow, stage_branches_too=True)
    assert flow.rows() == expected


def test_the_second_audit_may_fail_and_leaves_what_the_other_writer_did(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(2, "b", 2))
    act = sql("INSERT INTO {table} VALUES (9, 'z', -9)")
    with pytest.raises(AuditFailedError):
        flow.apply("run 2", progress=InterruptedProgress(at="publish", then=lambda: act(flow)))
    assert flow.rows() == {1: ("a", 1), 9: ("z", -9)}
    (branch,) = branches(flow)
    assert flow.rows(branch) == {1: ("a", 1), 2: ("b", 2), 9: ("z", -9)}


@pytest.mark.parametrize("kept", [False, True], ids=["the same files", "files made again"])
def test_local_audits_are_not_run_again(flow: Flow, kept: bool) -> None:
    flow.arrive("1.jsonl", row(1, "a", -1))
    flow.apply("run 1", audits=None)
    flow.arrive("2.jsonl", row(1, "b", 2), row(2, "b", 2))
    act = sql("UPDATE {table} SET n = -5 WHERE id = 1")
    columns: dict[str, Any] = {"exclude_columns": ("op", "n"), "missing_columns": MissingColumns.KEEP} if kept else {}
    named = Audits(queries={"named": "SELECT * FROM batch WHERE name IS NULL"}, local=True)
    report = flow.apply(
        "run 2",
        audits=named if kept else LOCAL,
        progress=InterruptedProgress(at="publish", then=lambda: act(flow)),
        **columns,
    )
    assert (report.audit_runs, report.attempts) == (1, 1)
    assert flow.rows() == ({1: ("b", -5), 2: ("b", None)} if kept else {1: ("b", 2), 2: ("b", 2)})
    assert every_snapshot_can_be_read(flow)
    flow.arrive("3.jsonl", row(3, "c", -3))
    with pytest.raises(AuditFailedError):
        flow.apply("run 3", audits=LOCAL)


@pytest.mark.parametrize("lost", [CommitConflictError, UnknownOutcomeError])
def test_a_local_audit_that_failed_is_final_when_its_branch_cannot_be_kept(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, lost: type[Exception]
) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1", audits=None)
    flow.arrive("2.jsonl", row(2, "b", -2))

    def refused(*_: Any) -> str:
        raise lost("the metadata changed 20 times.")

    monkeypatch.setattr(audit_before_publish, "retain_for_inspection", refused)
    with pytest.raises(AuditFailedError, match=r"'no negative n' \(1 rows\).*not be kept .*: the metadata changed 20 "):
        flow.apply("run 2", audits=LOCAL)
    assert flow.rows() == {1: ("a", 1)}


def test_a_merge_is_run_and_audited_again_on_a_later_head(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 2))
    writer = InterruptedProgress(at="audit", then=lambda: flow.spark.sql(f"INSERT INTO {flow.table} VALUES (9,'z',9)"))
    report = flow.apply("run 2", strategy=UpsertStrategy.MERGE, progress=writer)
    assert (report.attempts, flow.rows()) == (2, {1: ("b", 2), 9: ("z", 9)})
    assert (flow.commits_of(report.run_key), branches(flow)) == (1, set())
    flow.arrive("3.jsonl", row(1, "c", -3))
    with pytest.raises(AuditFailedError):
        flow.apply("run 3", strategy=UpsertStrategy.MERGE)
    (branch,) = branches(flow)
    assert (flow.rows()[1], flow.rows(branch)[1]) == (("b", 2), ("c", -3))


@pytest.mark.parametrize("strategy", [UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.EQUALITY])
def test_what_is_committed_before_the_branch_is_made_is_audited_with_the_batch(
    flow: Flow, strategy: UpsertStrategy
) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1), row(2, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 2))
    act = sql("INSERT INTO {table} VALUES (9, 'z', 9)")
    report = flow.apply("run 2", strategy=strategy, progress=InterruptedProgress(at="commit", then=lambda: act(flow)))
    assert (report.attempts, report.audit_runs, branches(flow)) == (1, 1, set())
    found = {r["id"]: (r["name"], r["n"]) for r in flow.spark.table(flow.table).collect()}
    assert found == {1: ("b", 2), 2: ("a", 1), 9: ("z", 9)}
    assert [entry.snapshot_id for entry in flow.loaded().history()][-1] == int(report.committed[0])
    assert len(flow.loaded().history()) == 3


def test_what_another_run_has_published_before_the_branch_is_made_is_not_applied_again(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 2))
    other = InterruptedProgress(at="commit", then=lambda: flow.apply("run 3"))
    assert flow.apply("run 2", strategy=UpsertStrategy.EQUALITY, progress=other).outcome is Outcome.NOTHING_NEW
    assert (flow.rows(), len(flow.loaded().history())) == ({1: ("b", 2)}, 2)


def test_files_that_an_expiry_may_have_deleted_are_never_published(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 2), row(2, "b", 2))
    writer = InterruptedProgress(at="publish", then=lambda: expire(flow, stage_branches_too=True))
    report = flow.apply("run 2", progress=writer)
    assert (report.attempts, branches(flow)) == (2, set())
    assert flow.rows() == {1: ("b", 2), 2: ("b", 2)}


def test_an_expiry_leaves_the_branch_of_a_running_audit(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 2), row(2, "b", 2))
    writer = InterruptedProgress(at="publish", then=lambda: expire(flow, stage_branches_too=False))
    report = flow.apply("run 2", progress=writer)
    assert (report.attempts, report.audit_runs) == (1, 1)
    assert flow.rows() == {1: ("b", 2), 2: ("b", 2)}


def test_only_queries_are_run_and_before_anything_is_written(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1", audits=None)
    before = flow.loaded().metadata
    flow.arrive("2.jsonl", row(2, "b", 2))
    seen = flow.table.replace(".", " . ")
    no_query, reads_no_view = "is no query that can be run", "reads neither the view audited"
    for query, local, said in (
        (f"WITH x AS (SELECT * FROM batch) INSERT INTO {flow.table} SELECT 7, 'x', 7 FROM x", False, no_query),
        (f"SELECT 1 FROM batch); DELETE FROM {flow.table} WHERE (true", False, no_query),
        ("SELECT * FROM audited WHERE total < 0", False, no_query),
        (f"SELECT n AS batch FROM {flow.table} audited", False, reads_no_view),
        ("SELECT * FROM (VALUES ('batch')) AS batch", True, reads_no_view),
        (f"SELECT * FROM batch WHERE id NOT IN (SELECT id FROM {seen})", True, "local to the batch but reads"),
        (f"SELECT id FROM batch -- it's\nJOIN {seen} USING (id) -- isn't", True, "local to the batch but reads"),
        ("SELECT * FROM batch, LATERAL (SELECT max(n) FROM audited)", True, "local to the batch but reads audited"),
    ):
        with pytest.raises(InvalidSpecError, match=f"audit 'x' .*{said}"):
            flow.apply("run 2", audits=Audits(queries={"x": query}, local=local))
    assert flow.loaded().metadata == before
    constants = "n < (SELECT 0) OR id IN (SELECT * FROM VALUES (-1))"
    with_them = f"WITH b AS (SELECT * FROM Batch) SELECT * FROM b -- don't\nWHERE {constants}"
    flow.apply("run 2", audits=Audits(queries={"x": with_them}, local=True))
    assert flow.rows() == {1: ("a", 1), 2: ("b", 2)}


def test_a_lost_answer_to_the_publication_deletes_nothing_and_is_resolved_by_the_run_key(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.arrive("1.jsonl", row(1, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 2))
    send, answers = metadata_swap._send, iter([True, False])

    def lost(*commit: Any) -> None:
        # The first is that of the branch; the second, of main, lands later than anybody asks.
        if next(answers):
            send(*commit)
        else:
            late.append(commit)
            raise RuntimeError("no answer")

    late: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(metadata_swap, "_send", lost)
        with pytest.raises(UnknownOutcomeError):
            flow.apply("run 2")
    assert flow.rows() == {1: ("a", 1)}
    assert len(branches(flow)) == 1
    send(*late[0])
    assert (flow.rows(), branches(flow)) == ({1: ("b", 2)}, set())
    assert flow.apply("run 2").outcome is Outcome.ALREADY_APPLIED


def test_a_table_that_requires_fields_inside_its_columns_is_audited(flow: Flow) -> None:
    flow.catalog()
    columns = "id BIGINT, n INT, s STRUCT<x: INT NOT NULL>"
    flow.spark.sql(f"CREATE TABLE {flow.table} ({columns}) USING iceberg")
    flow.changes["source"] = Files(f"{flow.inbox}/*.jsonl", "json", "id BIGINT, n INT, s STRUCT<x: INT>")
    flow.arrive("1.jsonl", {"id": 1, "n": 1, "s": {"x": 7}})
    flow.apply(delete_when=None)
    assert [record["s"] for record in flow.records()] == [{"x": 7}]

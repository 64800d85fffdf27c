"""An expiry leaves a restored Flink job its last commit, found as Flink looks for it, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.durations import epoch_millis
from airflow_lake_provider.contracts.specs.maintenance import FLINK_JOB_AGE, SnapshotExpirySpec
from airflow_lake_provider.contracts.table_facts import Reference, Snapshot
from airflow_lake_provider.iceberg.snapshot_retention import (
    Retention,
    RetentionRequest,
    expiry_sentence,
    request_for,
    work_out,
)
from airflow_lake_provider.iceberg.streaming_writers import FlinkCommit, age_of

HOUR = 3_600_000
NOW = 1_000 * HOUR
A, B, OLD = ("job a", "sink"), ("job b", "sink"), ("job a", None)


def commit(writer: tuple[str, str | None], checkpoint: int) -> dict[str, str]:
    """Return the summary of a commit of Flink's."""
    summary = {"flink.job-id": writer[0], "flink.max-committed-checkpoint-id": str(checkpoint)}
    return summary | ({"flink.operator-id": writer[1]} if writer[1] is not None else {})


def found(head: str, snapshots: Sequence[Snapshot], writer: tuple[str, str | None], gone: Sequence[str] = ()) -> int:
    """Return the checkpoint that a restored job finds, as ``SinkUtil.getMaxCommittedCheckpointId`` does."""
    known = {fact.id: fact for fact in snapshots if fact.id not in gone}
    current = known.get(head)
    while current is not None:
        said = FlinkCommit.of(current.summary)
        if said is not None and said.job == writer[0] and said.operator in (None, writer[1]):
            return said.checkpoint
        current = known.get(current.parent) if current.parent is not None else None
    return -1


def line(
    *commits: dict[str, str] | None, hours: Sequence[int] = (), first: int = 1, parent: int | None = None
) -> list[Snapshot]:
    """Snapshots first, first + 1, ... each the parent of the next."""
    at = hours or range(1, len(commits) + 1)
    ids = [str(number) for number in range(first, first + len(commits))]
    parents = [None if parent is None else str(parent), *ids]
    return [
        Snapshot(id=ids[place], parent=parents[place], at=hour * HOUR, summary=said or {})
        for place, (said, hour) in enumerate(zip(commits, at, strict=True))
    ]


def branch(name: str, snapshot: int | str) -> Reference:
    return Reference(name=name, snapshot=str(snapshot), is_branch=True)


def expire(snapshots: list[Snapshot], *refs: Reference, since: int = 0) -> Retention:
    request = RetentionRequest(
        expire_before=NOW, retain_last=1, expire_stages_before=0, now=NOW, expire_flink_before=since * HOUR
    )
    return work_out(snapshots, refs, request)


MAIN = (branch("main", 4),)
HISTORIES: dict[str, tuple[list[Snapshot], tuple[Reference, ...], tuple[int, ...], dict[int, str]]] = {
    "one job": (line(commit(A, 1), commit(A, 2), None, None), MAIN, (1,), {2: "job a", 3: "job a"}),
    "a job that committed last": (line(None, None, commit(A, 1), commit(A, 2)), MAIN, (1, 2, 3), {}),
    "two jobs": (line(None, commit(A, 2), commit(B, 7), None), MAIN, (1,), {2: "job a", 3: "job a, job b"}),
    "two sinks of a job": (
        line(commit(("job a", "other"), 1), commit(A, 1), None, None),
        MAIN,
        (),
        {1: "job a", 2: "job a", 3: "job a"},
    ),
    "commits without an operator": (line(None, commit(OLD, 1), None, None), MAIN, (1,), {2: "job a", 3: "job a"}),
    "a job of another branch": (
        [*line(None, None, None, None), *line(commit(A, 1), None, first=11, parent=1)],
        (*MAIN, branch("audit", 12)),
        (1, 2, 3),
        {11: "job a"},
    ),
    "a branch that main has left behind": (
        [*line(commit(A, 1), commit(A, 2), None, None), *line(None, None, first=11, parent=1)],
        (*MAIN, branch("audit", 12)),
        (1, 11),
        {2: "job a", 3: "job a"},
    ),
    "no job": (line(None, None, None, None), MAIN, (1, 2, 3), {}),
}


@pytest.mark.parametrize(("snapshots", "refs", "expired", "kept"), HISTORIES.values(), ids=HISTORIES)
def test_the_way_from_a_branchs_head_to_the_last_commit_of_each_job_stays(
    snapshots: list[Snapshot], refs: tuple[Reference, ...], expired: tuple[int, ...], kept: dict[int, str]
) -> None:
    answer = expire(snapshots, *refs)

    assert tuple(map(int, answer.expired)) == expired
    assert {int(snapshot): jobs for snapshot, jobs in answer.kept_for_flink.items()} == kept


def test_a_job_whose_last_commit_is_past_the_age_counts_as_gone() -> None:
    snapshots = line(commit(A, 1), commit(B, 1), None, hours=(1, 10, 20))

    assert expire(snapshots, branch("main", 3), since=10).expired == ("1",)
    assert expire(snapshots, branch("main", 3), since=11).expired == ("1", "2")


def test_the_sentence_counts_what_stays_and_names_the_jobs() -> None:
    jobs = [commit((f"job {name}", "sink"), 1) for name in "abcde"]
    request = RetentionRequest(expire_before=NOW, retain_last=1, expire_stages_before=0, now=NOW)
    answer = work_out(line(*jobs, None), [branch("main", 6)], request)

    assert "5 are kept so that Flink can restore jobs job a, job b, job c and 2 others" in expiry_sentence(
        answer, request
    )


WRITERS = st.sampled_from([A, B, ("job a", "other"), OLD])
TREES = st.lists(
    st.tuples(st.integers(0, 30), st.none() | st.tuples(WRITERS, st.integers(1, 9))), min_size=1, max_size=15
).map(
    lambda rows: [
        Snapshot(
            id=str(i + 1),
            parent=str((parent % i) + 1) if i else None,
            at=i * HOUR,
            summary=commit(*said) if said else {},
        )
        for i, (parent, said) in enumerate(rows)
    ]
)


@given(TREES, st.data())
def test_a_restored_job_finds_after_an_expiry_what_it_found_before(
    snapshots: list[Snapshot], data: st.DataObject
) -> None:
    ids = st.sampled_from([fact.id for fact in snapshots])
    refs = [branch("main", data.draw(ids)), branch("audit", data.draw(ids))]
    gone = expire(snapshots, *refs).expired

    by_id = {fact.id: fact for fact in snapshots}
    lines = {ref.name: ancestry(by_id, ref.snapshot) for ref in refs}
    for writer in {commit.writer for fact in snapshots if (commit := FlinkCommit.of(fact.summary)) is not None}:
        last = {name: max((int(i) for i in ids if of(by_id[i], writer)), default=0) for name, ids in lines.items()}
        for ref in refs:
            # A branch on which the job has not committed last is not the one that it writes to.
            if last[ref.name] == max(last.values()) > 0:
                assert found(ref.snapshot, snapshots, writer, gone) == found(ref.snapshot, snapshots, writer)


def ancestry(by_id: Mapping[str, Snapshot], head: str) -> list[str]:
    ids, current = [], by_id.get(head)
    while current is not None:
        ids.append(current.id)
        current = by_id.get(current.parent) if current.parent is not None else None
    return ids


def of(fact: Snapshot, writer: tuple[str, str | None]) -> bool:
    commit = FlinkCommit.of(fact.summary)
    return commit is not None and commit.writer == writer


SUMMARIES: list[tuple[dict[str, str], FlinkCommit | None]] = [
    ({}, None),
    ({"flink.job-id": "a"}, None),
    ({"flink.max-committed-checkpoint-id": "1"}, None),
    ({"flink.job-id": "a", "flink.max-committed-checkpoint-id": "x"}, None),
    (
        {"flink.job-id": "a", "flink.max-committed-checkpoint-id": "3"},
        FlinkCommit(job="a", operator=None, checkpoint=3),
    ),
    (
        {
            "flink.job-id": "a",
            "flink.operator-id": "b",
            "flink.max-committed-checkpoint-id": "9223372036854775807",
            "added-delete-files": "2",
        },
        FlinkCommit(job="a", operator="b", checkpoint=2**63 - 1, has_deletes=True),
    ),
]


@pytest.mark.parametrize(("summary", "commit"), SUMMARIES)
def test_a_commit_of_flink_is_told_by_its_summary(summary: dict[str, str], commit: FlinkCommit | None) -> None:
    assert FlinkCommit.of(summary) == commit


def test_jobs_of_the_last_seven_days_count_where_nobody_says_otherwise() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    frame = {"catalog": "lake", "table": "shop.orders", "run": RunIdentity.of("d", "r", "t", "-1"), "asked_at": now}
    spec = SnapshotExpirySpec(**frame, expire_stage_branches_before=now)  # type: ignore[arg-type]  # as kwargs
    asked = SnapshotExpirySpec(**frame, expire_stage_branches_before=now, expire_flink_jobs_before=now)  # type: ignore[arg-type]  # as kwargs

    assert timedelta(days=7) == FLINK_JOB_AGE
    assert request_for(spec, {}, now).expire_flink_before == epoch_millis(now - FLINK_JOB_AGE)
    assert request_for(asked, {}, now).expire_flink_before == epoch_millis(now)


@pytest.mark.parametrize(
    ("hours", "said"), [(0.5, "less than an hour ago"), (1, "an hour ago"), (47, "47 hours ago"), (48, "2 days ago")]
)
def test_an_age_is_told_in_hours_or_days(hours: float, said: str) -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    assert age_of(epoch_millis(now - timedelta(hours=hours)), now) == said


SINK = "kafka.connect.offsets.control.connect-orders"


def test_the_way_to_the_last_commit_of_a_kafka_sink_stays_as_jobs_do() -> None:
    """Its coordinator walks from the head to its offsets (Coordinator.lastCommittedOffsetsForTable of Iceberg)."""
    offsets = {SINK: '{"0":7}'}
    histories = [
        *line(None, offsets, offsets, None, None, hours=(1, 2, 3, 4, 5)),
        *line({**offsets, **commit(A, 1)}, None, first=11, parent=1),
    ]
    refs = (branch("main", 5), branch("audit", 12))

    answer = expire(histories, *refs)

    kept = dict.fromkeys((3, 4), "'control.connect-orders'")
    assert ({int(id_): sinks for id_, sinks in answer.kept_for_sinks.items()}, answer.expired) == (kept, ("1", "2"))
    request = RetentionRequest(expire_before=NOW, retain_last=1, expire_stages_before=0, now=NOW)
    assert "so that Kafka Connect finds what sinks 'control.connect-orders' have committed" in expiry_sentence(
        answer, request
    )
    assert expire(histories, *refs, since=4).kept_for_sinks == {}

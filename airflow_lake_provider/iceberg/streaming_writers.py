"""Flink jobs and sinks of Kafka Connect that write to a table: their commits, what a restored one needs and rules out.

A job that is restored from a checkpoint goes from the head of its branch to parent after parent. It stops at the first
snapshot of its own job and operator, and commits what is newer in its checkpoint (``SinkUtil`` and ``DynamicCommitter``
of Iceberg 1.11). An expired parent ends the walk: the job then commits its last checkpoint again, whose manifests it
has deleted, and fails.

Workers of a sink write files and name them in a control topic, and their rows are not read from Kafka again. The
coordinator commits the files later: after a failure, as late as the topic keeps records, which is 7 days by default.
It goes from the head of its branch to parent after parent, up to the newest snapshot with its offsets
(``Coordinator.lastCommittedOffsetsForTable`` of Iceberg 1.12). Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow_lake_provider.contracts.durations import epoch_millis
from airflow_lake_provider.contracts.property_values import shown, whole_number
from airflow_lake_provider.contracts.table_facts import Snapshot

JOB = "flink.job-id"
OPERATOR = "flink.operator-id"
CHECKPOINT = "flink.max-committed-checkpoint-id"
# Of a summary; control topic and consumer group follow, and the value has the offsets of the topic.
_OFFSETS_OF_SINK = "kafka.connect.offsets."


@dataclass(frozen=True, kw_only=True)
class FlinkCommit:
    """One commit of a sink.

    :param job: Flink's id of the job; a job that is started anew from a savepoint has another one.
    :param operator: of the sink in the job; None in commits of old versions, which stand for any.
    :param checkpoint: the newest that the commit holds.
    :param has_deletes: whether it added delete files, as an upsert does.
    """

    job: str
    operator: str | None
    checkpoint: int
    has_deletes: bool = False

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> FlinkCommit | None:
        """Return what a snapshot's summary says; None where it is not Flink's."""
        job, checkpoint = summary.get(JOB), whole_number(summary.get(CHECKPOINT))
        if job is None or checkpoint is None:
            return None
        added = whole_number(summary.get("added-delete-files")) or 0
        return cls(job=job, operator=summary.get(OPERATOR), checkpoint=checkpoint, has_deletes=added > 0)

    @property
    def writer(self) -> tuple[str, str | None]:
        """Job and operator: each looks for its own commits."""
        return self.job, self.operator


def age_of(at: int, now: datetime) -> str:
    """Return how long ago a commit was, for a sentence.

    :param at: epoch milliseconds.
    """
    hours = (now - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(hours=1) - at / 3_600_000
    if hours < 1:
        return "less than an hour ago"
    if hours < 2:
        return "an hour ago"
    return f"{hours:.0f} hours ago" if hours < 48 else f"{hours / 24:.0f} days ago"


# What an author says who knows that the job is gone, or bears it.
REMEDY = "allow_other_writers=True"


_NAMED = 3


def kept_for_flink(histories: Iterable[Sequence[Snapshot]], since: int) -> dict[str, set[str]]:
    """Return the snapshots by which restored Flink jobs find their last commit, with the ids of these jobs.

    A job goes from its branch's head to the commit, so each snapshot between the two is needed.

    :param histories: as of :func:`histories_of`.
    :param since: epoch milliseconds; a job whose last commit is older counts as gone.
    """
    histories = list(histories)
    return kept_from([(job, last) for (job, _), last in newest_of_jobs(histories, since).items()], histories)


def kept_from(
    last_commits: Iterable[tuple[str, Snapshot]], histories: Iterable[Sequence[Snapshot]]
) -> dict[str, set[str]]:
    """Return the snapshots between the heads of branches and the last commits of writers, with the writers' names.

    :param last_commits: name of a writer, and its last commit.
    :param histories: as of :func:`histories_of`.
    """
    last_commits, kept = list(last_commits), dict[str, set[str]]()
    for history in histories:
        depth = {fact.id: place for place, fact in enumerate(history)}
        for writer, last in last_commits:
            for needed in history[: depth.get(last.id, -1) + 1]:
                kept.setdefault(needed.id, set()).add(writer)
    return kept


def newest_of_jobs(histories: Iterable[Sequence[Snapshot]], since: int) -> dict[tuple[str, str | None], Snapshot]:
    """Return the last commit of each job and operator of Flink on some branches.

    :param histories: as of :func:`histories_of`.
    :param since: epoch milliseconds; older ones are left out.
    """
    newest: dict[tuple[str, str | None], Snapshot] = {}
    for history in histories:
        of_history: dict[tuple[str, str | None], Snapshot] = {}
        for fact in history:
            commit = FlinkCommit.of(fact.summary)
            if commit is not None and fact.at >= since:
                of_history.setdefault(commit.writer, fact)
        for writer, fact in of_history.items():
            if writer not in newest or newest[writer].at < fact.at:
                newest[writer] = fact
    return newest


def upserting_jobs(histories: Sequence[Sequence[Snapshot]], since: int) -> list[Snapshot]:
    """Return the last commits of the Flink jobs that commit deletes on a branch whose whole history is there.

    :param histories: as of ``histories_of``.
    :param since: epoch milliseconds; jobs whose last commit is older are left out.
    """
    whole = [history for history in histories if history and history[-1].parent is None]
    commits = (FlinkCommit.of(fact.summary) for history in whole for fact in history)
    upserts = {commit.writer for commit in commits if commit is not None and commit.has_deletes}
    return [fact for writer, fact in newest_of_jobs(whole, since).items() if writer in upserts]


def without_expiry_of_version_3(
    format_version: int, histories: Sequence[Sequence[Snapshot]], expired: Collection[str], since: int
) -> str | None:
    """Return which Flink jobs could not commit after an expiry; None where none is harmed.

    A row delta of Flink names no snapshot to start from, so Iceberg looks for vectors in all of the history; it refuses
    the commit once the first snapshot of the table is gone.

    :param histories: as of ``histories_of``.
    :param expired: snapshot ids that would go.
    :param since: epoch milliseconds; jobs whose last commit is older count as gone.
    """
    if format_version < 3:
        return None
    cut = [history for history in histories if any(fact.id in expired for fact in history)]
    jobs = upserting_jobs(cut, since)
    if not jobs:
        return None
    return (
        f"{named(jobs)} commits upserts to it. In format version 3 they fail for good once a snapshot is expired "
        "('Cannot determine history between starting snapshot null and the last known ancestor'). Let the job append, "
        f"or write to a table of version 2; {REMEDY} expires all the same"
    )


def without_upgrade_to_version_3(histories: Sequence[Sequence[Snapshot]], since: int) -> str | None:
    """Return which Flink jobs an upgrade could strand; None where none is seen.

    :param histories: as of ``histories_of``.
    :param since: epoch milliseconds; jobs whose last commit is older count as gone.
    """
    jobs = list(newest_of_jobs(histories, since).values())
    if not jobs:
        return None
    return (
        f"{named(jobs)} writes to it. A job whose writers or checkpoint hold position deletes of version 2 fails after "
        "the upgrade, at each restart ('Must use DVs for position deletes in V3'). So do upserts, once a snapshot of "
        f"the table has been expired. A job that appends can be stopped with a savepoint: then upgrade with {REMEDY}"
    )


def jobs_that_lose_commits(lost: Sequence[Snapshot], left: Sequence[Snapshot], since: int) -> list[str]:
    """Return a warning for each Flink job whose last commit a branch loses.

    :param lost: snapshots that the branch loses, newest first.
    :param left: those that it still has, newest first.
    :param since: epoch milliseconds; jobs whose last commit is older count as gone.
    """
    still = newest_of_jobs([left], 0)
    warnings = []
    for writer, fact in newest_of_jobs([lost], since).items():
        before = FlinkCommit.of(still[writer].summary) if writer in still else None
        start = f"from checkpoint {before.checkpoint} or an earlier one" if before is not None else "without its state"
        warnings.append(
            f"main loses the last commit of {named([fact])}. Restored from its last checkpoint, the job would commit "
            f"that again and fail; start it {start}"
        )
    return warnings


def jobs_of_dropped_branch(gained: Sequence[Snapshot], branch: str, since: int) -> list[str]:
    """Return a warning for the Flink jobs that write to a branch which is to be dropped.

    :param gained: snapshots that only the branch had, newest first.
    :param since: epoch milliseconds; jobs whose last commit is older count as gone.
    """
    jobs = list(newest_of_jobs([gained], since).values())
    if not jobs:
        return []
    return [
        f"{named(jobs)} writes to branch {branch!r}, which was dropped: restored from its last checkpoint, it fails"
    ]


def named(jobs: Sequence[Snapshot]) -> str:
    """Return the jobs of some commits with their ages, the youngest first."""
    now = datetime.now(UTC)
    ages: dict[str, str] = {}
    for fact in sorted(jobs, key=lambda fact: -fact.at):
        commit = FlinkCommit.of(fact.summary)
        if commit is not None:
            ages.setdefault(commit.job, age_of(fact.at, now))
    shown = [f"Flink job {job} (last commit {age})" for job, age in list(ages.items())[:_NAMED]]
    return ", ".join(shown) + (f" and {len(ages) - _NAMED} others" if len(ages) > _NAMED else "")


def recent(age: timedelta) -> int:
    """Return the epoch milliseconds of an age before now."""
    return max(0, epoch_millis(datetime.now(UTC) - age))


def newest_of_sinks(histories: Iterable[Sequence[Snapshot]], since: int) -> dict[str, Snapshot]:
    """Return the last commit of each sink on some branches, by its control topic and consumer group.

    :param histories: as of ``histories_of``.
    :param since: epoch milliseconds; older ones are left out.
    """
    commits = [
        (key.removeprefix(_OFFSETS_OF_SINK), fact)
        for history in histories
        for fact in history
        if fact.at >= since
        for key in fact.summary
        if key.startswith(_OFFSETS_OF_SINK)
    ]
    return dict(sorted(commits, key=lambda commit: commit[1].at))


def kept_for_sinks(histories: Iterable[Sequence[Snapshot]], since: int) -> dict[str, set[str]]:
    """Return the snapshots by which sinks find what they have committed, with the names of these sinks.

    A sink that does not find it commits once more what its control topic still has: rows come twice.

    :param histories: as of ``histories_of``.
    :param since: epoch milliseconds; a sink whose last commit is older counts as gone.
    """
    histories = list(histories)
    return kept_from([(shown(sink), last) for sink, last in newest_of_sinks(histories, since).items()], histories)


def sink_text(sink: str, last: Snapshot) -> str:
    """Return a sink with the age of its last commit, for a sentence."""
    return f"Kafka Connect sink {shown(sink)} (last commit {age_of(last.at, datetime.now(UTC))})"

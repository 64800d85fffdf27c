"""Commits of Flink's sinks by the summaries of their snapshots, of which a restored job looks for its own.

A job that is restored from a checkpoint goes from the head of its branch to parent after parent. It stops at the first
snapshot of its own job and operator, and commits what is newer in its checkpoint (``SinkUtil`` and ``DynamicCommitter``
of Iceberg 1.11). An expired parent ends the walk: the job then commits its last checkpoint again, whose manifests it
has deleted, and fails. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow_lake_provider.contracts.property_values import whole_number

JOB = "flink.job-id"
OPERATOR = "flink.operator-id"
CHECKPOINT = "flink.max-committed-checkpoint-id"


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

"""Sinks of Kafka Connect that write to a table: the last commit of each.

Workers write files and name them in a control topic, and their rows are not read from Kafka again. The coordinator
commits the files later: after a failure, as late as the topic keeps records, which is 7 days by default. It goes
from the head of its branch to parent after parent, up to the newest snapshot with its offsets
(``Coordinator.lastCommittedOffsetsForTable`` of Iceberg 1.12). Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from airflow_lake_provider.contracts.property_values import shown
from airflow_lake_provider.contracts.table_facts import Snapshot
from airflow_lake_provider.iceberg.flink_jobs import age_of, kept_from

# Of a summary; control topic and consumer group follow, and the value has the offsets of the topic.
_OFFSETS = "kafka.connect.offsets."


def newest_of_sinks(histories: Iterable[Sequence[Snapshot]], since: int) -> dict[str, Snapshot]:
    """Return the last commit of each sink on some branches, by its control topic and consumer group.

    :param histories: as of ``histories_of``.
    :param since: epoch milliseconds; older ones are left out.
    """
    commits = [
        (key.removeprefix(_OFFSETS), fact)
        for history in histories
        for fact in history
        if fact.at >= since
        for key in fact.summary
        if key.startswith(_OFFSETS)
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

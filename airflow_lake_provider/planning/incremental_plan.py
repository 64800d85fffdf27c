"""Tell from metadata whether a consumer has anything new to read: where it has not, no Spark is started."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_lake_provider.contracts.applied.applied_history import applied_of_source
from airflow_lake_provider.contracts.applied.source_position import consumer_source_name
from airflow_lake_provider.contracts.table_facts import TableFacts
from airflow_lake_provider.contracts.table_properties import reading_tag_of
from airflow_lake_provider.tables.base import LoadedTable
from airflow_lake_provider.tables.detect_new_snapshot import NoNewSnapshot, SkipReason, TableHead, decide
from airflow_lake_provider.tables.watermark import Since

_REASONS = {
    SkipReason.NO_SNAPSHOTS: "the source has no snapshot yet",
    SkipReason.NOTHING_COMMITTED: "the consumer stands at the head of the source",
    SkipReason.ONLY_MAINTENANCE: "only commits that change no rows were made since the consumer's position",
}


@dataclass(frozen=True, kw_only=True)
class IncrementalRange:
    """Range that a consumer has not read yet.

    :param from_snapshot: snapshot id as text that the target has consumed; None where all of the source is read.
    :param to_snapshot: head of the source's main as text; None for a source without snapshots.
    :param nothing_new: no Spark is needed.
    :param reason: one sentence that says why, or why not.
    """

    from_snapshot: str | None
    to_snapshot: str | None
    nothing_new: bool
    reason: str


def position_id(source: TableFacts, consumer: str) -> str:
    """Return the source name under which the target keeps this consumer's position.

    :param consumer: name of the cursor.
    """
    return consumer_source_name(source.uuid, consumer)


def is_guard_left(source: TableFacts, consumer: str, position: str | None) -> bool:
    """Tell whether a run was cut off after its commit, before it moved the consumer's tag to what it had read.

    :param consumer: name of the cursor.
    :param position: snapshot id that the target has consumed.
    """
    reading = source.head(reading_tag_of(consumer))
    return reading is not None and reading == position


def nothing_new(source: LoadedTable, target: TableFacts | None, consumer: str) -> IncrementalRange:
    """Compare the consumer's position with the head of the source; reads loaded metadata only.

    The position is the target's property, never the tag on the source. A target without a position has a first load
    before it, so it is new whatever the source's commits did. What cannot be known, because the history between was
    expired, counts as new: the driver compares the contents.

    :param source: just loaded.
    :param target: likewise; None when it does not exist yet.
    :param consumer: name of the cursor.
    """
    head = TableHead.of_table(source)
    source_name = position_id(source.facts, consumer)
    applied = applied_of_source(target, source_name)
    start = applied.position.range_start
    if start is not None:
        source.capabilities.refuse_broken_start(target.name if target is not None else "", source_name, start)
    decision = decide(head, Since(snapshot_id=start))
    if applied.position.is_rolled_back(applied.newest):
        reason, nothing_new = "the target was rolled back behind its position", False
    elif head.head is None and applied.position.snapshot is not None:
        reason, nothing_new = "the source was replaced, and has no snapshot since", False
    elif start != applied.position.snapshot:
        reason, nothing_new = "main of the target has a later range than its position tells, so that all is read", False
    elif isinstance(decision, NoNewSnapshot) and (start is not None or head.head is None):
        reason, nothing_new = _REASONS[decision.reason], True
    elif start is None:
        reason, nothing_new = "the target has not consumed this source yet", False
    else:
        reason, nothing_new = f"rows changed, or may have, between snapshots {start} and {head.head}", False
    return IncrementalRange(from_snapshot=start, to_snapshot=head.head, nothing_new=nothing_new, reason=reason)

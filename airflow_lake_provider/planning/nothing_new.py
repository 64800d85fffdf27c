"""Tell from metadata whether a load or a consumer has anything new to read: where not, no Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name

from airflow_lake_provider.contracts.applied.applied_history import applied_of_source
from airflow_lake_provider.contracts.applied.positions import Comparison
from airflow_lake_provider.contracts.applied.source_position import consumer_source_name
from airflow_lake_provider.contracts.author.sources import OnSourceChange
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.reports.report_codec import REPORTS
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat
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


def report_at_end(spec: LoadSpec, find_table: Callable[[str], LoadedTable | None]) -> JobReport | None:
    """Return the report of a table that stands at the end of its source; None where it may not, or nobody can tell.

    :param spec: of a load whose source tells its end to a worker, or of a query over one.
    :param find_table: gives the target; None where it does not exist.
    """
    source = spec.source.inputs[""]
    # Others look at more than the position.
    is_plain = spec.on_repeat is OnRepeat.SKIP and spec.source.on_source_change is OnSourceChange.CONTINUE
    if not is_plain or spec.is_complete or spec.branch is not None:
        return None
    target = find_table(spec.table)
    if target is None:
        return None
    applied = applied_of_source(target.facts, spec.source_name)
    if not applied.position.positions or applied.position.is_rolled_back(applied.newest):
        return None
    end = resolve_name(source.end)(source)
    start = applied.position.of(type(end)) if end is not None else None
    if start is None or start.compare(end) is not Comparison.EQUAL:
        return None
    state = target.state()
    return REPORTS[spec.action](
        table=spec.table,
        outcome=Outcome.NOTHING_NEW,
        reason=f"recognised by position: the table stands at the end of source {spec.source_name}",
        before=state,
        after=state,
    )

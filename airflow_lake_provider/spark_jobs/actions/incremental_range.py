"""Range of a source table that a consumer reads next, and the positions that a full read takes back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.applied.source_position import (
    SourcePosition,
    consumer_of_position,
    consumer_source_name,
    table_of_position,
)
from airflow_lake_provider.contracts.errors import BadInputError, BrokenMetadataError, RangeUnavailableError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.table_properties import POSITION_PREFIX
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, FormatTable
from airflow_lake_provider.spark_jobs.formats.commits import ChangeFilter


def position_name(spec: IncrementalSpec, source: FormatTable) -> str:
    """Return the name under which the target keeps the consumer's position."""
    return consumer_source_name(source.identity(), spec.consumer)


@dataclass(frozen=True, kw_only=True)
class Range:
    """Range that is read of the source.

    :param start: exclusive, as text; None to read everything and rebuild the target.
    :param why: a sentence.
    :param warning: what its reader should know beside it; None for nothing.
    :param is_first: whether the consumer has brought nothing of what the target holds.
    """

    start: str | None
    why: str
    warning: str | None = None
    is_first: bool = False


def passed_by(
    spec: IncrementalSpec, target: FormatTable, source: FormatTable, applied_state: AppliedState
) -> str | None:
    """Return a sentence on why the position leaves nothing to read; None where something is left."""
    if spec.full_refresh:
        return None
    position = applied_state.position
    if position.range_start == spec.to_snapshot and not spec.ignores_position:
        # A changed transform is not hidden by an unchanged source.
        if spec.replaces_transform(target.properties()):
            return None
        return f"the target is at snapshot {spec.to_snapshot} of {spec.source} already"
    if position.snapshot is not None and source.has_passed(position.snapshot, spec.to_snapshot):
        return f"the target is at the newer snapshot {position.snapshot}"
    return None


def read_range(
    spec: IncrementalSpec, target: FormatTable, source: FormatTable, applied_state: AppliedState
) -> tuple[Range, DataFrame]:
    """Return the range and its changes.

    :raises RangeUnavailableError: the start of the range is gone and ``on_gap`` is ``fail``.
    :raises BadInputError: another transform filled the target and ``on_transform_change`` is ``fail``.
    """
    reading = _range(spec, target, applied_state, source)
    wanted = ChangeFilter(keys=spec.source_keys or (), is_head=True)
    try:
        return reading, source.changes(reading.start, spec.to_snapshot, wanted)
    except RangeUnavailableError as gap:
        if spec.on_gap != "full":
            raise
        reading = Range(start=None, why=f"everything was read, because {gap}")
        return reading, source.changes(None, spec.to_snapshot, wanted)


def _range(spec: IncrementalSpec, target: FormatTable, applied_state: AppliedState, source: FormatTable) -> Range:
    """Decide where to start."""
    if spec.full_refresh:
        return Range(start=None, why="a full refresh was asked for")
    position = applied_state.position
    start = spec.from_snapshot or position.range_start
    if start is not None:
        source.capabilities.refuse_broken_start(spec.table, position_name(spec, source), start)
    elif position.snapshot is None:
        return _range_anew(spec, target, source, position)
    if spec.replaces_transform(target.properties()):
        if spec.on_transform_change == "full":
            return Range(start=None, why="everything was read, because the transform changed")
        raise BadInputError(spec.other_transform())
    if start is None:
        return Range(start=None, why="everything was read, because main has a later range than the position tells")
    return Range(start=start, why=f"those after snapshot {start}")


def _range_anew(spec: IncrementalSpec, target: FormatTable, source: FormatTable, position: SourcePosition) -> Range:
    """Return that everything is read, as the target has consumed nothing that this position could go on from."""
    others = other_cursors(spec, target, source)
    if read := ", ".join(filter(None, (table_of_position(name, spec.consumer) for name in others))):
        return Range(
            start=None,
            why=f"everything was read, because {spec.source} is another table than the target has consumed: it was "
            "dropped and created again, or the source was changed",
            warning=f"{spec.source} has UUID {source.identity()}, and consumer {spec.consumer} of {spec.table} has "
            f"read the table with UUID {read}. Rows of the target whose keys {spec.source} does not have were deleted",
        )
    rebuilt_by = " and ".join(filter(None, map(consumer_of_position, others)))
    if not rebuilt_by or position.generation == 0:
        return Range(start=None, why="the target has consumed nothing yet", is_first=True)
    return Range(
        start=None,
        why=f"everything was read, because another consumer, {rebuilt_by}, has rebuilt the target since",
        warning=f"consumer {rebuilt_by} has rebuilt {spec.table} since consumer {spec.consumer} filled it. Where both "
        "run, each reads its whole source after the other, and deletes rows that only the other has: give each of "
        "the two a table of its own",
    )


def other_cursors(spec: IncrementalSpec, target: FormatTable, source: FormatTable) -> dict[str, SourcePosition]:
    """Return how far the target was filled by other consumers, or from other tables, by the names of the positions."""
    mine = position_name(spec, source)
    names = (name.removeprefix(POSITION_PREFIX) for name in target.properties() if name.startswith(POSITION_PREFIX))
    # Of other names nothing is read: what is broken there is no concern of this consumer's.
    others = [name for name in names if name != mine and consumer_of_position(name)]
    positions: dict[str, SourcePosition] = {}
    for name in others:
        # One that is broken is told where its table is read again.
        with suppress(BrokenMetadataError):
            positions[name] = target.applied_state(name).position
    return {name: position for name, position in positions.items() if position.snapshot is not None}


def read_anew(positions: Mapping[str, SourcePosition]) -> dict[str, SourcePosition]:
    """Return positions that have consumed nothing: a full read leaves none of their rows as they were."""
    return {
        name: replace(position.restarted(), generation=position.generation + 1) for name, position in positions.items()
    }

"""The range of a source that an incremental run reads: from the target's position, or everything."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from airflow_lake_provider.contracts.errors import BadInputError, RangeUnavailableError
from airflow_lake_provider.contracts.incremental_spec import IncrementalSpec
from airflow_lake_provider.contracts.source_name import table_of_position
from airflow_lake_provider.contracts.table_properties import POSITION_PREFIX
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, FormatTable
from airflow_lake_provider.spark_jobs.formats.commits import ChangeFilter


@dataclass(frozen=True, kw_only=True)
class Range:
    """Range that is read of the source.

    :param start: exclusive, as text; None to read everything and rebuild the target.
    :param why: a sentence.
    :param warning: what its reader should know beside it; None for nothing.
    """

    start: str | None
    why: str
    warning: str | None = None


def read_range(
    spec: IncrementalSpec, target: FormatTable, source: FormatTable, applied_state: AppliedState
) -> tuple[Range, DataFrame]:
    """Return the range and its changes.

    :raises RangeUnavailableError: the start of the range is gone and ``on_gap`` is ``fail``.
    :raises BadInputError: another transform filled the target and ``on_transform_change`` is ``fail``.
    """
    reading = _range(spec, target, applied_state, source)
    wanted = ChangeFilter(keys=spec.source_keys or ())
    try:
        return reading, source.changes(reading.start, spec.to_snapshot, wanted)
    except RangeUnavailableError as gap:
        if spec.on_gap != "full":
            raise
        reading = Range(start=None, why=f"everything was read, because {gap}")
        return reading, source.changes(None, spec.to_snapshot, wanted)


def _range(spec: IncrementalSpec, target: FormatTable, applied_state: AppliedState, source: FormatTable) -> Range:
    """Decide where to start.

    :raises BadInputError: another transform filled the target and ``on_transform_change`` is ``fail``.
    """
    if spec.full_refresh:
        return Range(start=None, why="a full refresh was asked for")
    start = spec.from_snapshot or applied_state.position.snapshot
    if start is None:
        return _first_range(spec, target, source)
    if spec.replaces_transform(target.properties()):
        if spec.on_transform_change == "full":
            return Range(start=None, why="everything was read, because the transform changed")
        raise BadInputError(spec.other_transform())
    return Range(start=start, why=f"those after snapshot {start}")


def _first_range(spec: IncrementalSpec, target: FormatTable, source: FormatTable) -> Range:
    uuid = source.identity()
    names = (name.removeprefix(POSITION_PREFIX) for name in target.properties() if name.startswith(POSITION_PREFIX))
    # Of other names nothing is read: what is broken there is no concern of this consumer's.
    others = {name: of for name in names if (of := table_of_position(name, spec.consumer)) not in (None, uuid)}
    read = ", ".join(of for name, of in others.items() if of and target.applied_state(name).position.snapshot)
    if not read:
        return Range(start=None, why="the target has consumed nothing yet")
    return Range(
        start=None,
        why=f"everything was read, because {spec.source} is another table than the target has consumed: it was dropped "
        "and created again, or the source was changed",
        warning=f"{spec.source} has UUID {uuid}, and consumer {spec.consumer} of {spec.table} has read the table with "
        f"UUID {read}. Rows of the target whose keys {spec.source} does not have were deleted",
    )

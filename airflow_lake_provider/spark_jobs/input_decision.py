"""Decide what of a source's input a run applies, by what the table remembers of the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_lake_provider.contracts.batch_source import OnSourceChange
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.merge_semantics import MergeEngine
from airflow_lake_provider.contracts.source_position import SourcePosition
from airflow_lake_provider.contracts.upsert_spec import OnRepeat, UpsertSpec
from airflow_lake_provider.spark_jobs.batch_input import BatchInput
from airflow_lake_provider.spark_jobs.formats.base import TableMemory

Positions = Callable[[], Mapping[str, SourcePosition]]


@dataclass(frozen=True, kw_only=True)
class InputDecision:
    """What is applied, and what the table remembers after that.

    :param start: the position that was gone on from: the table's, or one that has consumed nothing.
    :param wanted: what of the input is applied.
    :param position: what the commit sets.
    :param repeats: whether what was applied is applied again on purpose.
    :param note: what the reason of the report has to add; empty for nothing.
    """

    start: SourcePosition
    wanted: BatchInput
    position: SourcePosition
    repeats: bool = False
    note: str = ""
    warnings: tuple[str, ...] = ()


def decide_input(spec: UpsertSpec, memory: TableMemory, listed: BatchInput, others: Positions) -> InputDecision:
    """Decide.

    :param others: gives the positions of the table's other sources; asked only for a source that is new to the table.
    :raises BadInputError: what was applied cannot be told, or the source changed and ``on_source_change`` is ``fail``.
    """
    changed = _changed_parts(memory.position, listed)
    start = _start(spec, memory, listed, changed)
    applies_all = spec.on_repeat is OnRepeat.APPLY
    if not applies_all:
        _refuse_uncertain(spec, start, listed)
    return InputDecision(
        start=start,
        wanted=listed if applies_all else listed.beyond(start),
        repeats=applies_all or (bool(changed) and spec.source.on_source_change is OnSourceChange.REPLAY),
        position=listed.position_after(start, spec.keep_consumed_for),
        note=_note(spec, changed),
        warnings=_consumed_under_other_names(spec, memory, listed, others),
    )


def _changed_parts(position: SourcePosition, listed: BatchInput) -> list[str]:
    """Return the parts of the source that shape its rows and have changed since the last commit that knew them."""
    if not position.shape:
        return []
    names = position.shape.keys() | listed.shape.keys()
    return sorted(name for name in names if position.shape.get(name) != listed.shape.get(name))


def _start(spec: UpsertSpec, memory: TableMemory, listed: BatchInput, changed: list[str]) -> SourcePosition:
    position = memory.position
    if changed and spec.source.on_source_change is OnSourceChange.FAIL:
        raise BadInputError(
            f"{spec.table}: {', '.join(changed)} of source {spec.source_name} changed since its last commit, and "
            "on_source_change='fail' was asked for. Give 'continue' to read new files with the change, or 'replay' to "
            "apply all files again once"
        )
    if changed and spec.source.on_source_change is OnSourceChange.REPLAY:
        return position.restarted()
    if position.has_lost_files and listed.snapshot is None:
        if spec.on_repeat is not OnRepeat.APPLY:
            raise _lost(spec, position)
        return position.without_lost_files(listed.at)
    if position.is_rolled_back(memory.newest_summary, spec.source_name):
        # Which files of other listings the roll-back took is not known.
        return position.without_lost_files(listed.at)
    return position


def _lost(spec: UpsertSpec, position: SourcePosition) -> BadInputError:
    path = position.side_file.path if position.side_file else ""
    counted = " With semantics='aggregate' they are counted again: roll the table back, or rebuild it, before that."
    return BadInputError(
        f"{spec.table}: {path}, the list of the files consumed of source {spec.source_name}, is gone; a tool that "
        "removes orphan files may have taken it. Which files were applied is not known any more. "
        "on_repeat='apply' applies all files that are there now, once, and writes a new list."
        f"{counted if _counts(spec) else ''}"
    )


def _refuse_uncertain(spec: UpsertSpec, start: SourcePosition, listed: BatchInput) -> None:
    unsure = start.uncertain(listed.files)
    if not unsure or start.forgotten_until is None:
        return
    mark = datetime.fromtimestamp(start.forgotten_until, UTC).isoformat()
    raise BadInputError(
        f"{spec.table}: {len(unsure)} of {len(listed.files)} files of source {spec.source_name} may have been applied "
        f"before, the first is {unsure[0].path}: files modified until {mark} were forgotten, and these are not newer. "
        "on_repeat='apply' applies all files that are there now, once; a longer max_file_age remembers them for longer"
    )


def _consumed_under_other_names(
    spec: UpsertSpec, memory: TableMemory, listed: BatchInput, others: Positions
) -> tuple[str, ...]:
    """Return a warning for what is new to this name and another has consumed.

    :raises BadInputError: applying it once more would count it twice.
    """
    if memory.position.generation or spec.branch is not None or listed.is_empty:
        return ()
    known = {name: listed.known_to(position) for name, position in others().items()}
    names = [name for name, count in known.items() if count]
    if not names:
        return ()
    found = (
        f"{max(known.values())} of {len(listed.identities)} inputs of source {spec.source_name} were applied, or may "
        f"have been, under the name {' and '.join(names)}"
    )
    if _counts(spec) and spec.on_repeat is not OnRepeat.APPLY:
        raise BadInputError(
            f"{spec.table}: {found}, and semantics='aggregate' would count them twice. Give source_name={names[0]!r} "
            "to go on from there, or on_repeat='apply' to count them again all the same"
        )
    return (f"{found}; they are applied again. Give source_name={names[0]!r} where it is the same source",)


def _counts(spec: UpsertSpec) -> bool:
    return spec.semantics.engine is MergeEngine.AGGREGATE


def _note(spec: UpsertSpec, changed: list[str]) -> str:
    if not changed:
        return ""
    said = f"{', '.join(changed)} of the source changed since its last commit"
    if spec.source.on_source_change is OnSourceChange.REPLAY:
        return f"{said}, so that all of it is applied again"
    return f"{said}, and what was applied before is not applied again"

"""Decide what of a source's input a run applies, by what the table remembers of the source."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from airflow_lake_provider.contracts.applied.positions import Comparison, WholePosition
from airflow_lake_provider.contracts.applied.published_position import PublishedPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.merge_engines import History
from airflow_lake_provider.contracts.author.sources import OnSourceChange
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.load import LoadSpec, OnRepeat, keep_consumed_for
from airflow_lake_provider.spark_jobs.formats.base import AppliedState
from airflow_lake_provider.spark_jobs.sources.base import Listing

Positions = Callable[[], Mapping[str, SourcePosition]]
_DIGITS = 24
_REPLACED = "the table was replaced since it applied this source, so that all of the input is applied again"


@dataclass(frozen=True, kw_only=True)
class InputDecision:
    """Decision on which input is applied, and the position after it.

    :param start: the position that was gone on from: the table's, or one that has consumed nothing.
    :param wanted: what of the input is applied.
    :param position: what the commit sets.
    :param repeats: whether what was applied is applied again on purpose.
    :param other_stream: see :meth:`.BatchSource.other_stream`.
    :param note: what the reason of the report has to add; empty for nothing.
    :param skip_reason: sentence on why nothing of ``wanted`` is applied; empty where it is.
    """

    start: SourcePosition
    wanted: Listing
    position: SourcePosition
    repeats: bool = False
    other_stream: str | None = None
    note: str = ""
    skip_reason: str = ""
    warnings: tuple[str, ...] = ()

    def noted(self, reason: str) -> str:
        """Return a report's reason with the note."""
        return f"{reason}; {self.note}" if self.note else reason


def decide_input(
    spec: LoadSpec, applied_state: AppliedState, listed: Listing, others: Positions, other_stream: str | None = None
) -> InputDecision:
    """Decide.

    :param others: gives the positions of the table's other sources; asked for a source that is new to the table, and
        for files that are counted.
    :param other_stream: see :meth:`.BatchSource.other_stream`.
    :raises BadInputError: what was applied cannot be told, or was under another name and would be counted twice, or
        the source changed and ``on_source_change`` is ``fail``.
    """
    if not spec.keeps_position:
        nothing = SourcePosition()
        return InputDecision(start=nothing, wanted=listed, position=nothing, repeats=True)
    if spec.is_complete:
        return decide_whole_input(spec, applied_state, listed)
    if counts_rows := spec.counts_rows:
        _refuse_to_count_again(spec, applied_state)
    kept_for = None if counts_rows else keep_consumed_for(spec.source)
    changed = _changed_parts(applied_state.position, listed)
    start = _start(spec, applied_state, listed, changed)
    if other_stream is not None:
        # Nothing was read for the events of this table.
        start = applied_state.position.restarted()
    applies_all = spec.on_repeat is OnRepeat.APPLY
    is_again = applies_all or (bool(changed) and spec.source.on_source_change is OnSourceChange.REPLAY)
    if is_again and not counts_rows:
        listed = listed.over(applied_state.position)
    if not applies_all:
        _refuse_uncertain(spec, start, listed)
        if counts_rows:
            _refuse_published(spec, applied_state.position, listed)
    if not applies_all and not applied_state.is_replaced:
        _refuse_new_inputs(spec, start, listed)
    return InputDecision(
        start=start,
        wanted=listed if applies_all else listed.beyond(start),
        repeats=is_again,
        position=position_behind(listed, start if counts_rows and not applies_all else _applied_again(start), kept_for),
        other_stream=other_stream,
        note=_REPLACED if applied_state.is_replaced else _note(spec, changed, other_stream),
        warnings=(
            *listed.warnings_at(start),
            *_not_deleted(spec, applied_state, listed, changed if is_again else []),
            *_consumed_under_other_names(spec, applied_state, listed.beyond(start), others, counts_rows=counts_rows),
        ),
    )


def _not_deleted(spec: LoadSpec, applied_state: AppliedState, listed: Listing, changed: list[str]) -> tuple[str, ...]:
    """Return a warning on rows that stay, as the source tells rows that are there, and deletes since its position.

    :param changed: parts that all of the source is applied again for.
    """
    position, newest = applied_state.position, applied_state.newest
    if not listed.has_applied_deletes(position):
        return ()
    # Columns choose no rows.
    others = [part for part in changed if part.rpartition(".")[2] != "columns"]
    which = [f"rows that the source gave before {', '.join(others)} changed, and gives no more,"] if others else []
    # A table that was rolled back to a time before the source has none of its rows.
    if newest and position.is_rolled_back(newest):
        which.append("keys whose deletes were in the commits that the table was rolled back behind")
    published = position.of(PublishedPosition)
    if published is not None and published.may_have(None) and not spec.counts_rows:
        which.append("rows that a commit without a position brought, and that the source gives no more,")
    if not which:
        return ()
    warning = (
        f"{' and '.join(which)} stay in {spec.table}: nothing tells which they are. Where they matter, load the rows "
        "into a new table; or once from a LakeTable with complete=True, where the table has no other source"
    )
    return (warning,)


def _applied_again(position: SourcePosition) -> SourcePosition:
    """Return the position once all that is listed may have been applied again: other files are not."""
    published = position.of(PublishedPosition)
    return position.with_position(replace(published, of_files=True)) if published is not None else position


def position_behind(listed: Listing, start: SourcePosition, kept_for: timedelta | None) -> SourcePosition:
    """Return the position once a listing is consumed that is not the whole table.

    :param kept_for: how long an input is remembered that no listing shows any more; None for ever.
    """
    # It is no whole that a later one could be compared with.
    return listed.position_after(start, kept_for).without(WholePosition)


def decide_whole_input(spec: LoadSpec, applied_state: AppliedState, listed: Listing) -> InputDecision:
    """Decide on a source that is the whole table: all of it is applied, or nothing.

    :raises BadInputError: the source changed and ``on_source_change`` is ``fail``.
    """
    position = applied_state.position
    changed = _changed_parts(position, listed)
    if changed and spec.source.on_source_change is OnSourceChange.FAIL:
        raise _source_changed(spec, changed)
    is_unsure = listed.is_lost_in(position) or position.is_rolled_back(applied_state.newest)
    # A list that is lost does no harm: all that is there is applied.
    start = position.without_lost(listed.at) if is_unsure else position
    whole, before = _whole(spec, listed), start.of(WholePosition)
    engine = getattr(spec, "merge_engine", None)
    is_dated = isinstance(engine, History) and engine.at is not None
    # A time says which batch is the next one, and that equal rows were valid then is a fact, too.
    is_asked = is_dated or spec.on_repeat is OnRepeat.APPLY or not listed.shows_changes
    after = replace(listed.position_after(start, keep_consumed_for(spec.source)), generation=start.generation + 1)
    return InputDecision(
        start=start,
        wanted=listed,
        position=after.with_position(whole),
        repeats=spec.on_repeat is OnRepeat.APPLY,
        note=_REPLACED if applied_state.is_replaced else "",
        skip_reason="" if is_asked or before is None else _skip_reason(whole, before),
    )


def _whole(spec: LoadSpec, listed: Listing) -> WholePosition:
    paths = [(name, each.files.path) for name, each in spec.source.inputs.items() if each.files]
    times = [int(file.version) for file in listed.files if file.version.isdecimal()]
    content = [sorted(listed.identities), sorted(listed.shape.items())]
    return WholePosition(content=_digest(content), place=_digest(paths), newest=max(times, default=None))


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _skip_reason(whole: WholePosition, before: WholePosition) -> str:
    match whole.compare(before):
        case Comparison.EQUAL:
            return "recognised by position: the source is as it was when the table last became what it held"
        case Comparison.BEFORE:
            return (
                "recognised by position: this delivery is older than the one that the table is now, by its newest "
                "file; on_repeat='apply' makes it the whole table all the same"
            )
    return ""


def _refuse_to_count_again(spec: LoadSpec, applied_state: AppliedState) -> None:
    """Refuse to aggregate input that the rows may already have, as the table was replaced by one that has rows."""
    if applied_state.is_replaced and applied_state.base is not None and spec.on_repeat is not OnRepeat.APPLY:
        counter, count = spec.counted_by
        raise BadInputError(
            f"{spec.table}: the table was replaced since it applied source {spec.source_name}, and {counter} would "
            f"{count} what the present rows may have. Empty the table and use on_repeat='apply' to {count} all files "
            "that are there now; or give the source a new name and the new files only"
        )


def _changed_parts(position: SourcePosition, listed: Listing) -> list[str]:
    """Return the parts of the source that shape its rows and have changed since the last commit that knew them."""
    if not position.shape:
        return []
    names = position.shape.keys() | listed.shape.keys()
    return sorted(name for name in names if position.shape.get(name) != listed.shape.get(name))


def _start(spec: LoadSpec, applied_state: AppliedState, listed: Listing, changed: list[str]) -> SourcePosition:
    position = applied_state.position
    if changed and spec.source.on_source_change is OnSourceChange.FAIL:
        raise _source_changed(spec, changed)
    if changed and spec.source.on_source_change is OnSourceChange.REPLAY:
        return position.restarted()
    if listed.is_lost_in(position):
        if spec.on_repeat is not OnRepeat.APPLY:
            raise _lost(spec, position)
        return position.without_lost(listed.at)
    if position.is_rolled_back(applied_state.newest):
        # Which files of other listings the roll-back took is not known.
        return position.without_lost(listed.at)
    return position


def _source_changed(spec: LoadSpec, changed: list[str]) -> BadInputError:
    return BadInputError(
        f"{spec.table}: {', '.join(changed)} of source {spec.source_name} changed since its last commit, and "
        "on_source_change='fail' was asked for. Give 'continue' to read new files with the change, or 'replay' to "
        "apply all files again once"
    )


def _lost(spec: LoadSpec, position: SourcePosition) -> BadInputError:
    path = ", ".join(each.side_file.path for each in position.lists.values() if each.is_lost and each.side_file)
    counter, count = spec.counted_by
    counted = f" With {counter} they are {count}ed again: roll the table back, or rebuild it, before that."
    return BadInputError(
        f"{spec.table}: {path}, the list of the files consumed of source {spec.source_name}, is gone or is no "
        "list of this table; a tool that removes orphan files may have taken it. Which files were applied is not "
        "known any more. on_repeat='apply' applies all files that are there now, once, and writes a new list."
        f"{counted if spec.counts_rows else ''}"
    )


def _refuse_uncertain(spec: LoadSpec, start: SourcePosition, listed: Listing) -> None:
    unsure = listed.uncertain(start)
    until = max((each.forgotten_until or 0 for each in start.lists.values()), default=0)
    if not unsure or not until:
        return
    mark = datetime.fromtimestamp(until, UTC).isoformat()
    raise BadInputError(
        f"{spec.table}: {len(unsure)} of {len(listed.files)} files of source {spec.source_name} may have been applied "
        f"before, the first is {unsure[0].path}: files modified until {mark} were forgotten, and these are not newer. "
        "on_repeat='apply' applies all files that are there now, once; a longer max_file_age remembers them for longer"
    )


def _refuse_published(spec: LoadSpec, position: SourcePosition, listed: Listing) -> None:
    """Refuse to count input that may have come to main by a commit that no position tells of."""
    published = position.of(PublishedPosition)
    if published is None:
        return
    inputs = {name: _of_published(each, at, published) for name, (each, at) in listed.by_input(position).items()}
    what = "; ".join(f"{name}: {some}" if name else some for name, some in inputs.items() if some)
    if not what:
        return
    moment, (counter, count) = datetime.fromtimestamp(published.until, UTC).isoformat(), spec.counted_by
    raise BadInputError(
        f"{spec.table}: input of source {spec.source_name} may be in the table ({what}), and {counter} would {count} "
        f"it twice. By {moment} main got a commit of the source whose input nothing names: a branch was published, a "
        "tool moved main, or the position was removed. Where a tool moved main forward after a rollback, "
        "LakeRollbackOperator to the snapshot where main is brings the position back. Otherwise give the source a "
        "path of newer files alone; or roll main back by LakeRollbackOperator to a snapshot before that commit; or "
        f"use on_repeat='apply' to {count} all that is there once more"
    )


def _of_published(listed: Listing, position: SourcePosition, published: PublishedPosition) -> str:
    """Return what of an input is unknown to its position and may be applied; empty for nothing."""
    unknown = listed.beyond(position)
    if not unknown.files:
        # A batch without inputs is told by its run alone.
        is_asked = listed.shows_changes and published.may_have(None)
        return "all that is new" if is_asked and unknown.identities else ""
    old = [file for file in unknown.files if published.may_have(file.modified)]
    return f"{len(old)} of {len(listed.files)} files, the first is {old[0].path}" if old else ""


def _refuse_new_inputs(spec: LoadSpec, start: SourcePosition, listed: Listing) -> None:
    """Refuse to aggregate all of an input whose rows may be counted already, under another name of it."""
    new = listed.new_inputs(start)
    if new and start.without(PublishedPosition).positions and spec.counts_rows:
        counter, count = spec.counted_by
        raise BadInputError(
            f"{spec.table}: {', '.join(new)} is new among the inputs of source {spec.source_name}, and {counter} would "
            f"{count} all of it. Where it is a new name of an input, give it the old one; on_repeat='apply' {count}s "
            "all inputs once more"
        )


def _consumed_under_other_names(
    spec: LoadSpec, applied_state: AppliedState, unknown: Listing, others: Positions, *, counts_rows: bool
) -> tuple[str, ...]:
    """Return a warning for input that is new to this source name and was consumed under another.

    :param unknown: what of the listing this name has not consumed.
    :raises BadInputError: applying it once more would count it twice.
    """
    is_new = applied_state.position.generation == 0
    # A path of a day shows another day's files later; a source table shows its head at once.
    is_asked = is_new or (counts_rows and unknown.may_show_earlier)
    if not is_asked or spec.branch is not None or unknown.is_empty:
        return ()
    asked = {name: other for name, other in others().items() if not _is_agreed(applied_state.position, other)}
    counts = {name: unknown.possibly_consumed_by(other) for name, other in asked.items()}
    names = [name for name, count in counts.items() if count]
    if not names:
        return ()
    sentence = (
        f"{max(counts.values())} of {len(unknown.identities)} inputs of source {spec.source_name} were applied, or may "
        f"have been, under the name {' and '.join(names)}"
    )
    # A list that another source has lost stops no source that was there beside it.
    is_sure = is_new or any(unknown.consumed_by(asked[name]) for name in names)
    if is_sure and counts_rows and spec.on_repeat is not OnRepeat.APPLY:
        counter, count = spec.counted_by
        raise BadInputError(
            f"{spec.table}: {sentence}, and {counter} would {count} them twice. Give the source name={names[0]!r} "
            f"to go on from there, or on_repeat='apply' to {count} all files that are there now once more"
        )
    return (f"{sentence}; they are applied again. Give the source name={names[0]!r} where it is the same source",)


def _is_agreed(position: SourcePosition, other: SourcePosition) -> bool:
    """Return whether two names read the same files with a query each, which ``on_repeat="apply"`` has allowed once."""
    queries = [shape.get("query") for shape in (position.shape, other.shape) if shape]
    return len(set(queries)) > 1 and position.shares_files(other)


def _note(spec: LoadSpec, changed: list[str], other_stream: str | None) -> str:
    if not changed:
        return ""
    change = f"{', '.join(changed)} of the source changed since its last commit"
    if spec.source.on_source_change is OnSourceChange.REPLAY:
        return f"{change}, so that all of it is applied again"
    if other_stream is not None:
        return f"{change}, so that all files were read for the events of the table that is named now"
    return f"{change}, and what was applied before is not applied again"

"""Named inputs of one source, listed and read together: each has a position of its own, and one commit moves all.

An input that tells what is new of it, such as files or changes, gives that part only. A table is read as a whole. There
is something to do when an input of the first kind has something new; without any such input, when a table has changed.
"""

from __future__ import annotations

import builtins
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.merge_engines import Deletes
from airflow_lake_provider.contracts.author.named_inputs import MadeOfInputs
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.reserved_columns import CHANGE_TYPE
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.batch.change_batch import UNPARSABLE, release_frames
from airflow_lake_provider.spark_jobs.sources.base import Listing, SourceLocation, open_source
from airflow_lake_provider.spark_jobs.sources.changes import ChangesListing
from airflow_lake_provider.spark_jobs.sources.files import FilesListing
from airflow_lake_provider.spark_jobs.sources.lake_table import LakeTableSource, TableListing
from airflow_lake_provider.spark_jobs.sources.plain_rows import PlainSource
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch


@dataclass(frozen=True, kw_only=True)
class InputsListing(Listing):
    """Listings of several inputs, by name.

    :param whole: all that each input has.
    :param wanted: what of it is read.
    :param ages: how long an input remembers what no listing shows any more.
    :param is_due: whether there is something to do.
    """

    whole: Mapping[str, Any]
    wanted: Mapping[str, Any]
    ages: Mapping[str, timedelta] = field(default_factory=dict)
    is_due: bool = True

    @property
    def identities(self) -> tuple[str, ...]:
        """Those of each input, with its name."""
        listed = sorted(self.wanted.items()) if self.is_due else ()
        return tuple(f"{name}={identity}" for name, each in listed for identity in each.identities)

    @property
    def is_empty(self) -> bool:
        """True where no input that decides whether there is something to do has anything."""
        return not self.is_due or all(each.is_empty for each in _deciding(self.wanted).values())

    @property
    def is_share(self) -> bool:
        """True where an input is one."""
        return any(each.is_share for each in self.wanted.values())

    @property
    def moves_without_rows(self) -> bool:
        """True where an input is passed so."""
        return any(each.moves_without_rows for each in self.wanted.values())

    @property
    def goes_on(self) -> bool:
        """True where an input does."""
        return any(each.goes_on for each in self.wanted.values())

    def has_to_move(self, moved_at: datetime | None) -> bool:
        """Return whether an input has to."""
        return self.is_due and any(each.has_to_move(moved_at) for each in self.wanted.values())

    def identities_behind(self, position: SourcePosition) -> tuple[str, ...]:
        """Return those of each input, with its name."""
        listed = sorted(self.wanted.items()) if self.is_due else ()
        texts = {name: each.identities_behind(_of(position, name, each)) for name, each in listed}
        return tuple(f"{name}={identity}" for name, of_input in texts.items() for identity in of_input)

    @property
    def files(self) -> tuple[InputFile, ...]:
        """The files of all inputs."""
        return tuple(file for each in self.wanted.values() for file in each.files) if self.is_due else ()

    @property
    def shows_changes(self) -> bool:
        """True where the listing of each input does."""
        return all(each.shows_changes for each in self.whole.values())

    @property
    def bytes_of_files(self) -> int | None:
        """Bytes of the files; None where an input has none."""
        sizes = [each.bytes_of_files for each in self.wanted.values()]
        return None if None in sizes else sum(sizes)

    def beyond(self, position: SourcePosition) -> Self:
        """Return what is new, beside tables as a whole; nothing where nothing is due."""
        new = {name: each.beyond(_of(position, name, each)) for name, each in self.wanted.items()}
        is_due = self.is_due and any(not each.is_empty for each in _deciding(new).values())
        wanted = {name: each if each.is_incremental else self.wanted[name] for name, each in new.items()}
        return replace(self, wanted=wanted, is_due=is_due)

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:
        """Return the position once all of each input is consumed."""
        ages = {name: None if max_age is None else self.ages.get(name, max_age) for name in self.whole}
        moved = {name: each.position_after(_of(position, name, each), ages[name]) for name, each in self.whole.items()}
        return position.moved_inputs(moved, self.shape)

    def changed_since(self, position: SourcePosition) -> str:
        """Return what of the inputs that decide has changed since a position consumed it."""
        changed = (each.changed_since(_of(position, name, each)) for name, each in _deciding(self.wanted).items())
        return next(filter(None, changed), "")

    def over(self, position: SourcePosition) -> Self:
        """Return all of each input, to be applied once more over what a position has applied."""
        return replace(self, wanted={name: each.over(_of(position, name, each)) for name, each in self.wanted.items()})

    def has_applied_deletes(self, position: SourcePosition) -> bool:
        """Tell whether a position has applied deletes of an input that the whole of it does not tell again."""
        return any(each.has_applied_deletes(_of(position, name, each)) for name, each in self.whole.items())

    def warnings_at(self, position: SourcePosition) -> tuple[str, ...]:
        """Return those of each input, with its name."""
        warnings = {name: each.warnings_at(_of(position, name, each)) for name, each in sorted(self.whole.items())}
        return tuple(f"input {name}: {warning}" for name, each in warnings.items() for warning in each)

    def without_changed(self, position: SourcePosition) -> Self:
        """Return the listing without what has changed of them."""
        kept = {name: each.without_changed(_of(position, name, each)) for name, each in _deciding(self.wanted).items()}
        is_due = self.is_due and any(not each.is_empty for each in kept.values())
        whole = {name: each.without_changed(_of(position, name, each)) for name, each in _deciding(self.whole).items()}
        return replace(self, wanted={**self.wanted, **kept}, whole={**self.whole, **whole}, is_due=is_due)

    def by_input(self, position: SourcePosition) -> Mapping[str, tuple[Listing, SourcePosition]]:
        """Return each input that decides, with its position."""
        return {name: (each, _of(position, name, each)) for name, each in _deciding(self.wanted).items()}

    def new_inputs(self, position: SourcePosition) -> tuple[str, ...]:
        """Return the inputs that a position has nothing of, and that tell what is new of them."""
        names = {name for name, each in self.whole.items() if each.is_incremental}
        return tuple(sorted(name for name in names if not _of(position, name, self.whole[name]).positions))

    def consumed_by(self, position: SourcePosition) -> int:
        """Return how many inputs of those that decide a position has surely consumed."""
        return sum(each.consumed_by(_of(position, name, each)) for name, each in _deciding(self.wanted).items())

    def possibly_consumed_by(self, position: SourcePosition) -> int:
        """Return how many of them a position has consumed, or may have."""
        deciding = _deciding(self.wanted)
        return sum(each.possibly_consumed_by(_of(position, name, each)) for name, each in deciding.items())

    def is_covered_by(self, position: SourcePosition) -> bool:
        """Tell whether the position of each input that decides knows all that was applied."""
        return all(each.is_covered_by(_of(position, name, each)) for name, each in _deciding(self.whole).items())

    def is_lost_in(self, position: SourcePosition) -> bool:
        """Tell whether a position has lost what it knew of an input."""
        return any(each.is_lost_in(_of(position, name, each)) for name, each in self.whole.items())

    def uncertain(self, position: SourcePosition) -> tuple[InputFile, ...]:
        """Return the files that a position may have forgotten."""
        unsure = (each.uncertain(_of(position, name, each)) for name, each in self.whole.items())
        return tuple(file for files in unsure for file in files)

    def applied(self, listed: Self, start: SourcePosition) -> str:
        """Return a sentence on each input."""
        sentences = {
            name: "nothing new" if each.is_empty else each.applied(listed.whole[name], _of(start, name, each))
            for name, each in self.wanted.items()
        }
        return "; ".join(f"{name}: {sentence}" for name, sentence in sentences.items())


def _deciding(listings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: each for name, each in listings.items() if each.is_incremental} or listings


def _of(position: SourcePosition, name: str, listing: Listing) -> SourcePosition:
    of_input = position.of_input(name)
    # Files that the source consumed before it had named inputs are not new to one of them.
    is_first = isinstance(listing, FilesListing) and not of_input.positions and position.files != type(position.files)()
    return of_input.with_position(position.files) if is_first else of_input


def list_inputs(inputs: Mapping[str, PlainSource], source_name: str, shape: Mapping[str, str]) -> InputsListing:
    """Look at all inputs: first at those of which only what is new is read, then at whole tables.

    So a table has what goes with a change that was listed before. One that several inputs read is read at one head.
    """
    at = datetime.now(UTC)
    heads: dict[str, str | None] = {}
    ordered = sorted(inputs, key=lambda name: isinstance(inputs[name], LakeTableSource))
    looked_at = {name: _at_one_head(inputs[name], heads) for name in ordered}
    listed = {name: looked_at[name] for name in inputs}
    files = {name: each.source.files for name, each in inputs.items()}
    ages = {name: duration(of.max_file_age, "max_file_age") for name, of in files.items() if of is not None}
    return InputsListing(source_name=source_name, shape=shape, at=at, whole=listed, wanted=listed, ages=ages)


def _at_one_head(source: PlainSource, heads: dict[str, str | None]) -> Listing:
    """Look at an input; a head of a table that another input has listed before is taken from there."""
    listing = source.list()
    if isinstance(listing, ChangesListing):
        return replace(listing, upto=heads.setdefault(source.source.table.lower(), listing.upto))
    if isinstance(listing, TableListing) and source.source.moment is None:
        return replace(listing, snapshot=heads.setdefault(source.source.table.lower(), listing.snapshot))
    return listing


def read_inputs(inputs: Mapping[str, PlainSource], listing: InputsListing) -> dict[str, RawBatch]:
    """Read what is wanted of each input; one without anything new has no rows, and its columns.

    Columns that their files do not type are not those of the target, whatever their names are.
    """
    return {
        name: each.without_rows(listing.whole[name])
        if listing.wanted[name].is_empty
        else each.raw(listing.wanted[name], None)
        for name, each in inputs.items()
    }


def readable_rows(batches: Mapping[str, RawBatch]) -> dict[str, DataFrame]:
    """Return the columns of each input, once no record of it is refused.

    :raises BadInputError: records cannot be read.
    """
    for batch in batches.values():
        if batch.may_be_unparsable:
            batch.refuse_unparsable(batch.rows.filter(sf.col(UNPARSABLE).isNotNull()).count())
    return {
        name: batch.rows.drop(*(column for column in batch.rows.columns if column.startswith("_lake_")))
        if batch.in_any_order is None
        else batch.in_any_order
        for name, batch in batches.items()
    }


def tells_deletes(rows: DataFrame, batches: Mapping[str, RawBatch], spec: LoadSpec) -> bool:
    """Return whether rows that are made of inputs say of each whether it is a delete.

    An author may make such rows of any input, such as files of changes. Loads that delete nothing refuse the column.

    :raises BadInputError: a delete of an input has nothing but its key, and the rows tell none. Also where they tell
        deletes, of which ``ignore_stale`` keeps no order.
    """
    has_column = CHANGE_TYPE in map(str.lower, rows.columns)
    bare = [name or "source" for name, each in batches.items() if each.has_bare_deletes]
    if bare and not has_column:
        raise BadInputError(
            f"records without a value of the topic in {' and '.join(bare)} delete rows, and the result lacks "
            f"{CHANGE_TYPE}, so that they would become rows of NULL. Select {CHANGE_TYPE}, or give the KafkaTopic "
            "tombstones='skip'"
        )
    if not has_column or any(each.has_change_type for each in batches.values()):
        return has_column
    # Left out, it is the author's own column, which delete_when may read.
    is_left_out = CHANGE_TYPE in map(str.lower, spec.exclude_columns)
    if not isinstance(spec, UpsertSpec) or spec.is_complete or is_left_out:
        return False
    engine = spec.merge_engine
    if engine.ignore_stale and engine.deletes is Deletes.HARD:
        raise BadInputError(
            f"{spec.table}: {CHANGE_TYPE} deletes rows, and ignore_stale cannot tell a late row of a key whose row, "
            "and its order, is gone; use deletes='soft', which keeps the order, or deletes='ignore'"
        )
    return True


class InputsSource(PlainSource):
    """Base of what is made of the rows of other sources."""

    source: MadeOfInputs

    @abstractmethod
    def made(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Make rows of those of the inputs lazily; see :meth:`raw`."""

    def raw(self, listing: Listing, types: StructType | None) -> RawBatch:
        """Make rows of those of the inputs; without those that are gone, where the result does not tell them."""
        batch, without = self.made(listing, types), listing.over(SourcePosition())
        is_told = batch.has_change_type or getattr(self.spec, "delete_when", None) is not None
        return batch if is_told or without == listing else self.made(without, types)

    @cached_property
    def inputs(self) -> Mapping[str, PlainSource]:
        """The sources that it reads, by the name of their view; a single one under the empty name."""
        opened = {name: open_source(self.spark, self.spec, each) for name, each in self.source.inputs.items()}
        plain = {name: each for name, each in opened.items() if isinstance(each, PlainSource)}
        assert plain.keys() == opened.keys(), "what a query can be over has a reader of plain rows"
        return plain

    @property
    @abstractmethod
    def made_by(self) -> Mapping[str, str]:
        """Digest of what makes rows of the inputs."""

    def location(self) -> SourceLocation:
        """Return where a single input is; of several, what to know of them."""
        located = [each.location() for each in self.inputs.values()]
        warnings = tuple(warning for each in located for warning in each.warnings)
        return SourceLocation(address=located[0].address if len(located) == 1 else None, warnings=warnings[:1])

    @property
    def shape(self) -> Mapping[str, str]:
        """Shape of the rows of each input, and what makes rows of them."""
        of_inputs = {
            f"{name}.{part}" if name else part: digest
            for name, each in self.inputs.items()
            for part, digest in each.shape.items()
        }
        return {**of_inputs, **self.made_by}

    def list(self) -> Listing:
        """Look at the inputs.

        :raises BadInputError: files of one are not there, and rows that the result lacks for it would be deleted.
        """
        single = self.inputs.get("")
        if single is not None:
            return replace(single.list(), shape=self.shape)
        listing = list_inputs(self.inputs, self.name, self.shape)
        if self.spec.is_complete or not (self.spec.keeps_position or listing.is_empty):
            self._refuse_missing_files(listing)
        return listing

    def _refuse_missing_files(self, listing: InputsListing) -> None:
        missing = [name for name, each in listing.whole.items() if isinstance(each, FilesListing) and each.is_empty]
        if missing:
            load = "a load with complete=True" if self.spec.is_complete else "an overwrite"
            raise BadInputError(
                f"{self.spec.table}: no file is there for the inputs {', '.join(missing)}, and {load} would replace "
                "rows by what the others give alone. Run it once their files are there, or leave these inputs out"
            )

    @contextmanager
    def refusing_unreadable(self, listing: Any) -> Iterator[None]:
        """Name what of an input cannot be read in an error over it."""
        with ExitStack() as stack:
            for name, each in self.inputs.items():
                stack.enter_context(each.refusing_unreadable(listing.wanted[name] if name else listing))
            yield

    @property
    def warnings_of_reading(self) -> tuple[str, ...]:
        """Those of each input."""
        return tuple(warning for each in self.inputs.values() for warning in each.warnings_of_reading)

    def after_commit(self, listing: Any) -> None:
        """Tell each input what of it is consumed."""
        for name, each in self.inputs.items():
            each.after_commit(listing.wanted[name] if name else listing)

    def kept(self, batches: Mapping[str, RawBatch]) -> Mapping[str, RawBatch]:
        """Return batches of the inputs, whose cached rows go when the source is closed."""
        self._cached.extend(batch.rows for batch in batches.values() if batch.may_be_unparsable)
        return batches

    @cached_property
    def _cached(self) -> builtins.list[DataFrame]:
        return []

    def close(self) -> None:
        """Close each input, and give back what was cached of them."""
        release_frames(*self._cached)
        self._cached.clear()
        for each in self.inputs.values():
            each.close()

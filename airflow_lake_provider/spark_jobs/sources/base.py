"""The seam of sources: list what is there, say what of it is new, read it, say the position after.

A batch is rows and side state that only its source understands. A source is a subclass of :class:`BatchSource`, and is
registered once: the author's class names it as its ``reader``. Nothing else of the driver names a kind of source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.input_file import InputFile
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED, DeadLetters, release_frames
from airflow_lake_provider.spark_jobs.batch.key_ranges import KeyRanges
from airflow_lake_provider.spark_jobs.formats.base import AppliedState, FormatTable
from airflow_lake_provider.spark_jobs.formats.commits import KeyedCommit
from airflow_lake_provider.spark_jobs.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Listing(ABC):
    """All that a source has at one moment, nothing of it read.

    :param source_name: under which the table keeps the position.
    :param shape: what shapes the rows, each part with a digest, so that a change of it is noticed between two runs.
    :param at: a moment before the listing.
    """

    # Whether a later listing may show what an earlier one did not, such as the folder of another day.
    may_show_earlier: ClassVar[bool] = True
    # Whether a run reads only what is new of it. A table is read as a whole when it is another one than before.
    is_incremental: ClassVar[bool] = True
    source_name: str
    shape: Mapping[str, str] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    @abstractmethod
    def identities(self) -> tuple[str, ...]:
        """One text per input, for the run key."""

    @abstractmethod
    def beyond(self, position: SourcePosition) -> Self:
        """Return what a position has not consumed."""

    @abstractmethod
    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:
        """Return the position once all of this listing is consumed.

        :param max_age: how long an input is remembered that no listing shows any more; None for ever.
        """

    @property
    def is_empty(self) -> bool:
        """True where there is nothing to read at all."""
        return not self.identities

    @property
    def is_share(self) -> bool:
        """True where it ends before what there is, so that a position has to move for more to be read."""
        return False

    @property
    def moves_without_rows(self) -> bool:
        """True where a position passes what has no rows, as the next run would look through all of it again."""
        return False

    @property
    def goes_on(self) -> bool:
        """True where the same run reads what is left of a share, in commits of their own."""
        return False

    @property
    def unbounded(self) -> Self:
        """The listing without a bound of what one commit reads."""
        return self

    def has_to_move(self, moved_at: datetime | None) -> bool:  # noqa: ARG002  # others ask it
        """Tell whether a batch without rows moves a position, which a commit moved last at a time that may be lost."""
        return False

    def identities_behind(self, position: SourcePosition) -> tuple[str, ...]:  # noqa: ARG002  # others ask it
        """Return one text per input, and what tells the commits of one run apart."""
        return self.identities

    @property
    def files(self) -> tuple[InputFile, ...]:
        """The files among it."""
        return ()

    def changed_since(self, position: SourcePosition) -> str:  # noqa: ARG002  # others ask it
        """Return a sentence on what has changed since a position consumed it; empty where nothing has."""
        return ""

    def without_changed(self, position: SourcePosition) -> Self:  # noqa: ARG002  # others ask it
        """Return the listing without what has changed since a position consumed it."""
        return self

    def over(self, position: SourcePosition) -> Self:  # noqa: ARG002  # others ask it
        """Return all of the listing, to be applied once more over what a position has applied."""
        return self

    def has_applied_deletes(self, position: SourcePosition) -> bool:  # noqa: ARG002  # others ask it
        """Tell whether a position has applied deletes that the whole of the listing does not tell again."""
        return False

    def warnings_at(self, position: SourcePosition) -> tuple[str, ...]:  # noqa: ARG002  # others ask it
        """Return what a person should look at, as a position does not go with the listing."""
        return ()

    @property
    def shows_changes(self) -> bool:
        """True where other rows have other identities, so that equal ones are no work."""
        return True

    @property
    def bytes_of_files(self) -> int | None:
        """Bytes of the files; None where more is read than files."""
        return sum(file.size for file in self.files) if self.files else None

    def by_input(self, position: SourcePosition) -> Mapping[str, tuple[Listing, SourcePosition]]:
        """Return each input that may have something new, with its position, by name; a source without any is one."""
        return {"": (self, position)}

    def new_inputs(self, position: SourcePosition) -> tuple[str, ...]:  # noqa: ARG002  # others ask it
        """Return the named inputs of which a position knows nothing, and of which only what is new is read."""
        return ()

    def consumed_by(self, position: SourcePosition) -> int:
        """Return how many inputs a position has surely consumed."""
        return len(self.identities) - len(self.beyond(position).identities)

    def possibly_consumed_by(self, position: SourcePosition) -> int:
        """Return how many inputs a position has consumed, or may have."""
        return self.consumed_by(position)

    def is_covered_by(self, position: SourcePosition) -> bool:  # noqa: ARG002  # others ask it
        """Tell whether a position knows all that was applied, also of runs whose keys are forgotten."""
        return True

    def is_lost_in(self, position: SourcePosition) -> bool:  # noqa: ARG002  # others ask it
        """Tell whether a position has lost what it knew of such inputs."""
        return False

    def uncertain(self, position: SourcePosition) -> tuple[InputFile, ...]:  # noqa: ARG002  # others ask it
        """Return the inputs that a position does not know, and may have known once."""
        return ()

    def applied(self, listed: Self, start: SourcePosition) -> str:
        """Return a sentence on what of a whole listing this part is.

        :param start: position that was gone on from.
        """
        consumed = listed.consumed_by(start)
        return f"applied {len(self.identities)} of {len(listed.identities)} inputs, {consumed} known by position"


@dataclass(frozen=True, kw_only=True)
class SideState:
    """Memory that a batch's source gives the table beside the rows. Plain rows have nothing of it.

    :param ordering: what was known of the order of change events; None for plain rows.
    :param dropped: inputs that were delivered again and are not in the rows; None where none can be told.
    """

    ordering: str | None = None
    dropped: int | None = None

    @property
    def is_worth_a_commit(self) -> bool:
        """True where a batch without rows has something to remember."""
        return False

    def before_rows(self, applied_state: AppliedState) -> None:
        """Keep what has to be known before the rows are; the table exists, or there are no rows."""

    def beside_rows(self, commit: KeyedCommit) -> KeyedCommit:
        """Return the commit with what it sets beside the rows."""
        return commit

    def with_history(self, commit: KeyedCommit, applied_state: AppliedState, progress: Progress) -> KeyedCommit:  # noqa: ARG002  # others ask it
        """Return the commit with what it remembers of the rows that it takes away."""
        return commit


@dataclass(frozen=True, kw_only=True)
class ChangeBatch:
    """The last change per key of a batch, ready to be applied.

    :param changes: one row per key: the columns of the batch and the boolean ``_lake_deleted``; cached. In a row
        that deletes, columns other than the keys mean nothing. ``_lake_reset``, where it is there, tells keys that
        were deleted in the batch before their row: nothing of the table's row counts. ``_lake_reset_order``, where that
        is compared with the table's, has the order of that delete.
    :param rows: rows or change events that were read.
    :param keys: different keys among them; ``upserts + deletes``.
    :param patches: keys among them of which only single values change; in ``changes`` are those that the table has.
    :param key_ranges: of ``changes``.
    :param reads_table: whether the table gave values to ``changes``.
    :param absent: columns that some of the final rows do not have, though others do, with how many; NULL in those rows.
    :param completed: columns that no event has; ``changes`` may have them of the table's rows.
    :param side: what only the batch's source understands.
    :param located: see :class:`.KeyedCommit`.
    :param dead_letters: records that are put aside; None where such are refused.
    :param cached: what :meth:`release` gives back.
    """

    changes: DataFrame
    rows: int
    keys: int
    upserts: int
    deletes: int
    patches: int = 0
    key_ranges: KeyRanges | None = None
    reads_table: bool = False
    absent: dict[str, int] = field(default_factory=dict)
    completed: tuple[str, ...] = ()
    side: SideState = field(default_factory=SideState)
    located: DataFrame | None = None
    dead_letters: DeadLetters | None = None
    cached: tuple[DataFrame, ...] = ()

    def with_deleted_column(self, column: str) -> ChangeBatch:
        """Add the column in which the table keeps whether a row is deleted.

        :raises BadInputError: the batch has a column of that name.
        """
        if column.lower() in (name.lower() for name in self.changes.columns):
            raise BadInputError(
                f"the batch has a column {column!r}, which deletes='soft' writes; leave it out with exclude_columns, "
                "or choose another deleted_column"
            )
        return replace(self, changes=self.changes.withColumn(column, sf.col(DELETED)))

    def release(self) -> None:
        """Give the cached rows back; ``changes`` is computed anew when it is used after that."""
        release_frames(*self.cached)


@dataclass(frozen=True, kw_only=True)
class RowBatch:
    """The rows of a batch, read while they are written.

    :param rows: the columns that are stored, and no others.
    :param reading: to be entered while they are; it names the input in an error over it.
    :param reads_table: whether the table gave values to ``rows``.
    :param rows_read: number of the rows that were read, once they are written; None where those written are all.
    :param rows_kept: likewise of those that are left without duplicates.
    :param dead_letters: records that are put aside; None where such are refused.
    """

    rows: DataFrame
    reading: Callable[[], AbstractContextManager[None]] = nullcontext
    reads_table: bool = False
    rows_read: Callable[[], int] | None = None
    rows_kept: Callable[[], int] | None = None
    dead_letters: DeadLetters | None = None


@dataclass(frozen=True, kw_only=True)
class SourceLocation:
    """Address that a source leads to for this driver.

    :param address: with scheme and authority; None where it has none of its own.
    :param warnings: at most one.
    """

    address: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The part of a listing that a run reads, and what the table has of its source.

    :param repeats: whether what was applied is applied again on purpose.
    :param other_stream: see :meth:`.BatchSource.other_stream`.
    """

    listing: Any
    target: FormatTable
    applied_state: AppliedState
    repeats: bool = False
    other_stream: str | None = None


@dataclass(frozen=True)
class BatchSource(ABC):
    """The driver's side of a source.

    :param spec: of the load.
    :param source: the author's object; ``spec.source``, or what is below a query.
    """

    spark: SparkSession
    spec: LoadSpec
    source: Any

    @property
    def name(self) -> str:
        """Name under which the table keeps its position."""
        return self.spec.source.name or ""

    @property
    def upsert(self) -> UpsertSpec:
        """The spec, for a read that is reduced by key."""
        assert isinstance(self.spec, UpsertSpec), "only an upsert reads the last change of each key"
        return self.spec

    @cached_property
    def missing_columns(self) -> MissingColumns:
        """Value of a column that the batch lacks, in the rows of the batch."""
        return self.spec.missing_columns

    def location(self) -> SourceLocation:
        """Return where it is; nothing is looked for."""
        return SourceLocation()

    def other_stream(self, position: SourcePosition) -> str | None:  # noqa: ARG002  # others ask it
        """Return what names the stream that a position is of, where that is another one; None where it is the same."""
        return None

    @property
    def shape(self) -> Mapping[str, str]:
        """Parts that shape its rows, see :class:`Listing`."""
        return {}

    @abstractmethod
    def list(self) -> Listing:
        """Look at the whole source.

        :raises LakeProviderError: it is not there.
        """

    @abstractmethod
    def read(self, wanted: Wanted) -> ChangeBatch:
        """Read a part, reduced to the last change of each key.

        :raises BadInputError: it cannot be applied as it is.
        """

    @property
    def warnings_of_reading(self) -> tuple[str, ...]:
        """Warnings of the rows that were read last, for the report."""
        return ()

    def after_commit(self, listing: Any) -> None:  # noqa: B027  # others have something to keep
        """Tell the source that a listing is consumed, where it keeps something for its readers."""

    def close(self) -> None:  # noqa: B027  # others have something open
        """Give back what is open for the rows that were read; they are read no more."""

    def rows(
        self,
        wanted: Wanted,  # noqa: ARG002  # others ask it, and the next two
        deduplicate_by: Sequence[str] = (),  # noqa: ARG002
        *,
        takes_replacements: bool = False,  # noqa: ARG002
    ) -> RowBatch:
        """Read a part lazily, as it is.

        :param deduplicate_by: columns of whose values each is kept once, in its first row.
        :param takes_replacements: take texts with the character that readers put in the place of bytes that are none.
        :raises UnsupportedError: the source has change events.
        :raises BadInputError: it cannot be read as it is.
        """
        raise UnsupportedError(f"{type(self.source).__name__} has no rows that could be added: it has changes of rows")


def open_source(spark: SparkSession, spec: LoadSpec, source: Any = None) -> BatchSource:
    """Return the driver's side of a spec's source.

    :param source: another one than the spec's, which a query is over.
    :raises InvalidSpecError: its reader cannot be imported here, or is none.
    """
    source = source or spec.source
    try:
        reader = resolve_name(source.reader)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSpecError(
            f"{spec.table}: {source.reader!r}, which reads the source {type(source).__name__}, cannot be imported by "
            f"the driver: {error}; name a package.module:Class, and let its file travel by py_files"
        ) from error
    if not (isinstance(reader, type) and issubclass(reader, BatchSource)):
        raise InvalidSpecError(f"{spec.table}: {source.reader!r} is no subclass of BatchSource")
    opened: BatchSource = reader(spark, spec, source)
    return opened

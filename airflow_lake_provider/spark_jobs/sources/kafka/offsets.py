"""Records of a topic that a run reads: those behind the offsets that the table knows, or a share of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar, Self

from airflow_lake_provider.contracts.applied.positions import OffsetsPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.kafka_topic import KafkaTopic
from airflow_lake_provider.contracts.author.merge_engines import History
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.sources.base import Listing
from airflow_lake_provider.spark_jobs.sources.kafka.cluster import TopicOffsets

Offsets = Mapping[str, int]
# Without a row of the table, so many records or so long a time are a commit of the position alone.
_MANY_RECORDS, _LONG = 10_000, timedelta(hours=1)


def shares(waiting: Offsets, most: int | None) -> dict[str, int]:
    """Return how many of the waiting records of each partition are read, in proportion to what waits.

    :param most: of all together; None for all.
    """
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(waiting)
    taken = {name: count * most // total for name, count in waiting.items()}
    # By the largest remainders, so that it is as many as asked for.
    rest = sorted(waiting, key=lambda name: (-(waiting[name] * most % total), name))
    for name in rest[: most - sum(taken.values())]:
        taken[name] += 1
    return taken


@dataclass(frozen=True, kw_only=True)
class TopicListing(Listing):
    """The offsets of a topic when it was listed, and the part of them that is wanted.

    :param since: by partition where the reading begins, or would, if nothing was gone.
    :param upto: by partition where it ends.
    :param waiting: records behind ``upto`` that another run reads, or another commit of this one.
    :param stop: where all partitions ended when the run began, which goes on until there; None where it does not.
    :param is_first: whether no run has applied anything of the topic.
    :param new_partitions: partitions that came since the last run.
    :param remade: what says that the topic is another one than that of the last run; empty where it is not.
    """

    may_show_earlier: ClassVar[bool] = False
    topic: TopicOffsets
    max_records: int | None = None
    since: Offsets
    upto: Offsets
    waiting: int = 0
    stop: Offsets | None = None
    is_first: bool = True
    new_partitions: tuple[str, ...] = ()
    remade: str = ""

    @classmethod
    def of(
        cls,
        topic: TopicOffsets,
        max_records: int | None,
        source_name: str,
        shape: Mapping[str, str],
        stop: Offsets | None = None,
    ) -> Self:
        """Return everything that a topic has, or had when the run began."""
        return cls(
            source_name=source_name,
            shape=shape,
            topic=topic,
            max_records=max_records,
            since=topic.beginning,
            upto=topic.end if stop is None else stop,
            stop=stop,
        )

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """First offset, and the one behind the last, of each partition that has something to read or has lost it."""
        return {name: (self.since[name], end) for name, end in self.upto.items() if end > self.since[name]}

    @property
    def identities(self) -> tuple[str, ...]:
        """Each partition with its end."""
        return tuple(f"{self.topic.id}/{name}@{end}" for name, (_, end) in self.ranges.items())

    @property
    def lost(self) -> dict[str, int]:
        """Offsets of each partition that nobody has read, and that are gone."""
        gone = {name: min(end, self.topic.earliest[name]) - start for name, (start, end) in self.ranges.items()}
        return {name: count for name, count in gone.items() if count > 0}

    def beyond(self, position: SourcePosition) -> Self:
        """Return what is behind the offsets of a position, or a share of it."""
        consumed = self._consumed(position)
        if consumed is None:
            return self._share({name: self.since[name] for name in self.upto})
        if remade := self._remade(consumed):
            return replace(self, remade=remade)
        since = {name: consumed.next.get(name, 0) for name in self.upto}
        new = tuple(name for name in self.upto if name not in consumed.next)
        return replace(self._share(since), is_first=False, new_partitions=new)

    def position_after(self, position: SourcePosition, max_age: timedelta | None) -> SourcePosition:  # noqa: ARG002  # others ask it
        """Return the position behind what :meth:`beyond` returns of this listing."""
        consumed, wanted = self._consumed(position), self.beyond(position)
        if wanted.is_empty:
            return position
        there = OffsetsPosition(wanted.upto, self.topic.id)
        # A name that comes back later is a new one.
        named = self._named(position)
        left = replace(position, positions={t: each for t, each in position.positions.items() if t not in named})
        # Another run may have consumed partitions that came after the end of this one was noted.
        return left.moved(there if consumed is None or wanted.remade else consumed.joined(there), self.shape)

    def consumed_by(self, position: SourcePosition) -> int:
        """Return of how many partitions a position has consumed records that are read, or that wait."""
        consumed = self._consumed(position)
        if consumed is None or consumed.is_of_another(self.topic.id):
            return 0
        starts = {name: max(start, self.topic.earliest[name]) for name, start in self.since.items()}
        count = sum(consumed.next.get(name, 0) > start for name, start in starts.items())
        return min(count, len(self.identities))

    @property
    def is_share(self) -> bool:
        """True where records wait."""
        return self.waiting > 0

    @property
    def goes_on(self) -> bool:
        """True where they wait for this run."""
        return self.stop is not None and self.is_share

    @property
    def unbounded(self) -> Self:
        """The listing without ``max_records``."""
        return replace(self, max_records=None)

    def has_to_move(self, moved_at: datetime | None) -> bool:
        """Return True where a share was read, many records, or any while the last commit is long ago.

        Retention removes what was read. A position that stays behind would look as if records were lost.
        """
        if self.is_empty or self.is_share:
            return self.is_share
        read = sum(end - start for start, end in self.ranges.values()) - sum(self.lost.values())
        return read >= _MANY_RECORDS or moved_at is None or self.at - moved_at >= _LONG

    def identities_behind(self, position: SourcePosition) -> tuple[str, ...]:
        """Return the partitions, and of a run that goes on where this commit begins."""
        consumed = self._consumed(position)
        if self.stop is None or consumed is None:
            return self.identities
        return (*self.identities, *(f"{name}>{offset}" for name, offset in sorted(consumed.next.items())))

    def applied(self, listed: Self, start: SourcePosition) -> str:  # noqa: ARG002  # others ask it
        """Return how far it goes, what is left for later, and what is lost."""
        earliest = self.topic.earliest
        read = {name: (max(start, earliest[name]), end) for name, (start, end) in self.ranges.items()}
        parts = ", ".join(f"{name}: {start} to {end - 1}" for name, (start, end) in read.items() if end > start)
        gap = f"; gone before they were read are {lost_in_words(self)}" if self.lost else ""
        waits_for = "commit" if self.goes_on else "run"
        waiting = f"; {self.waiting} offsets wait for the next {waits_for}" if self.waiting else ""
        return f"applied the offsets of partitions {parts or 'none'}{gap}{waiting}"

    def _consumed(self, position: SourcePosition) -> OffsetsPosition | None:
        """Return the offsets of a position; also those of the one named input that read the topic before."""
        consumed, named = position.of(OffsetsPosition), list(self._named(position).values())
        return named[0] if consumed is None and len(named) == 1 else consumed

    def _named(self, position: SourcePosition) -> dict[str, OffsetsPosition]:
        offsets = {tag: each for tag, each in position.positions.items() if isinstance(each, OffsetsPosition)}
        return {t: each for t, each in offsets.items() if t != each.kind and each.topic == self.topic.id}

    def _share(self, since: Offsets) -> Self:
        starts = {name: max(start, self.topic.earliest[name]) for name, start in since.items()}
        ends = self.topic.end if self.stop is None else self.stop
        waiting = {name: max(0, ends[name] - start) for name, start in starts.items()}
        taken = shares(waiting, self.max_records)
        upto = {name: starts[name] + count for name, count in taken.items()}
        return replace(self, since=since, upto=upto, waiting=sum(waiting.values()) - sum(taken.values()))

    def _remade(self, consumed: OffsetsPosition) -> str:
        # A broker that gets ids has the records of before; one that tells none may be another.
        if consumed.topic and consumed.topic != self.topic.id:
            return f"its id was {consumed.topic} and is {self.topic.id or 'told by none of the brokers'}"
        behind = {name: end for name, end in self.topic.end.items() if end < consumed.next.get(name, 0)}
        if gone := consumed.next.keys() - self.topic.end.keys():
            return f"its partitions {', '.join(sorted(gone))} are gone"
        return "".join(
            f"partition {name} ends at offset {end}, and offset {consumed.next[name] - 1} was applied"
            for name, end in list(behind.items())[:1]
        )


def refuse_unordered_share(spec: LoadSpec, topic: KafkaTopic, listing: TopicListing, columns: Sequence[str]) -> None:
    """Refuse a share that may have a newer record of a key than one that waits, where the later run would win.

    :param listing: of records that their offsets do not order by key.
    :param columns: of the batch beside the keys.
    :raises BadInputError: it says what to do.
    """
    if not listing.is_share or not isinstance(spec, UpsertSpec):
        return
    engine = spec.merge_engine
    # Rows are compared with those of the table, or with all versions of their key.
    is_by_time = engine.ignore_stale or (isinstance(engine, History) and engine.at is None)
    # Of what a query makes, the columns are not known here.
    may_differ = spec.source.is_made or spec.delete_when is not None or spec.source.tells_deletes(spec.keys)
    if is_by_time or not (may_differ or any(engine.depends_on_order(name) for name in columns)):
        return
    new = listing.new_partitions
    why = (
        f"partitions {', '.join(new)} are new, which moves keys from one partition to another"
        if new
        else "records of one key may be in several partitions"
    )
    left_out = f"max_records {'and catch_up ' if topic.catch_up else ''}out{' for this run' if new else ''}"
    by_keys = "" if new else ", or all columns of key_schema among the keys"
    raise BadInputError(
        f"{spec.table}: max_records={topic.max_records} leaves {listing.waiting} records of topic {topic.topic} to "
        f"others, and {why}, so that an older one may come after a newer one and take its place. Leave {left_out}, or "
        f"give order_by with Deduplicate(ignore_stale=True){by_keys}"
    )


def lost_in_words(listing: TopicListing) -> str:
    """Return how many offsets of which partitions are gone."""
    counts = ", ".join(f"{count} of partition {name}" for name, count in listing.lost.items())
    return f"{sum(listing.lost.values())} offsets that no run has applied: {counts}"

"""Find the properties that describe what is applied to a table: a replaced table keeps those of the one before.

``CREATE OR REPLACE TABLE`` begins a new history of main and keeps UUID, properties and, until they expire, snapshots
(``TableMetadata.buildReplacement`` of Iceberg 1.12). So a position counts only if main's history may have its commit.
Expiry hides history: Iceberg's leaves the id of a parent that is gone, PyIceberg's erases it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_lake_provider.contracts.applied.open_key_changes import OpenKeyChanges
from airflow_lake_provider.contracts.applied.position_column import epoch_of, next_epoch
from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, generation_of, newest_generation
from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.sql_limits import shown
from airflow_lake_provider.contracts.table_facts import MAIN, Snapshot, TableFacts, ancestors
from airflow_lake_provider.contracts.table_properties import HISTORY_AT, POSITION_PREFIX, RUN_KEY


@dataclass(frozen=True)
class MainHistory:
    """Snapshots of a table, those of main apart.

    :param ancestors: of the head of main, and the head itself, newest first, as far back as they are known.
    :param others: all others.
    """

    ancestors: tuple[Snapshot, ...] = ()
    others: tuple[Snapshot, ...] = ()

    @classmethod
    def of(cls, head: str | None, snapshots: Mapping[str, Snapshot]) -> MainHistory:
        """Follow the parents from main's head, or from that of another branch.

        :param snapshots: of the table, by id.
        :raises BrokenMetadataError: a snapshot is its own ancestor.
        """
        ancestry = {snapshot.id: snapshot for snapshot in ancestors(snapshots, head)}
        return cls(tuple(ancestry.values()), tuple(other for id_, other in snapshots.items() if id_ not in ancestry))

    @property
    def first(self) -> Snapshot | None:
        """The first snapshot of main's history; None where it was expired."""
        return self.ancestors[-1] if self.ancestors and self.ancestors[-1].begins_history else None

    def newest_generation(self, source_name: str) -> int | None:
        """Return the generation of a source in the newest snapshot of main that names it.

        :return: 0 where main surely has no commit of the source; None where nothing is known.
        """
        generation = newest_generation((commit.summary for commit in self.ancestors), source_name)
        if generation is not None or not self.ancestors:
            return generation
        newer = any(commit.order > self.ancestors[-1].order for commit in self._commits_of(source_name))
        return 0 if self.first is not None or newer else None

    def ahead_of(self, source_name: str, generation: int) -> Snapshot | None:
        """Return the newest commit of a source that main got after its position went back, by what moves main alone."""
        for commit in self.ancestors:
            moved_to = generation_of(commit.summary, source_name)
            if moved_to is not None and moved_to >= generation:
                return commit if moved_to > generation else None
        return None

    def is_replaced_since(self, source_name: str) -> bool:
        """Return whether the table was surely replaced after the last commit of a source that has a position."""
        if not self.ancestors:
            return True
        if (
            newest_generation((commit.summary for commit in self.ancestors), source_name) is not None
            or self.first is None
        ):
            return False
        orders = [commit.order for commit in self._commits_of(source_name)]
        return bool(orders) and max(orders) < self.first.order

    def newest_time(self, properties: Mapping[str, str]) -> datetime | None:
        """Return the newest time of a batch of a history that main has applied; None without any.

        The property tells it of commits that have expired. Another tool's rollback, and a replacement, leave it behind.
        What is outside of main and has its time may also be a commit of a branch, whose run main does not know.

        :raises BrokenMetadataError: the property is no time with a zone.
        """
        times = [_time_of(each.summary[HISTORY_AT]) for each in self.ancestors if HISTORY_AT in each.summary]
        text = properties.get(HISTORY_AT)
        if text is not None and self.ancestors and self.first is None:
            of_main = RecentRunKeys.read(properties)
            newer = (each.summary for each in self.others if each.order > self.ancestors[-1].order)
            lost = [each.get(HISTORY_AT) for each in newer if each.get(RUN_KEY, "") in of_main]
            times += [] if text in lost else [_time_of(text)]
        return max(times, default=None)

    def run_keys(self, recent: RecentRunKeys) -> RecentRunKeys:
        """Return the run keys without those of a replaced table, or of lost commits; what was dropped stays unknown."""
        if not self.ancestors:
            return RecentRunKeys((), recent.dropped_before)
        lost = self.lost_run_keys()
        recent = RecentRunKeys(tuple(entry for entry in recent.entries if entry[0] not in lost), recent.dropped_before)
        if self.first is None:
            return recent
        of_main = {commit.summary.get(RUN_KEY) for commit in self.ancestors}
        # Keys have whole seconds. Such as that of a rollback have no snapshot.
        since = self.first.at // 1000
        entries = tuple((key, at) for key, at in recent.entries if key in of_main or at > since)
        return RecentRunKeys(entries, recent.dropped_before)

    def lost_run_keys(self) -> set[str]:
        """Return the run keys that main surely has no commit of, as one that another tool rolled back.

        A try that was killed leaves a commit, too. The one that main has of its run is younger: either it is known, or
        both are older than all that is known of main.
        """
        if not self.ancestors:
            return set()
        since = self.ancestors[-1].order
        others = {commit.summary.get(RUN_KEY) for commit in self.others if commit.order > since}
        return {key for key in others if key is not None} - {each.summary.get(RUN_KEY) for each in self.ancestors}

    def _commits_of(self, source_name: str) -> list[Snapshot]:
        return [commit for commit in self.others if newest_generation([commit.summary], source_name) is not None]


def _time_of(text: str) -> datetime:
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time
    raise BrokenMetadataError(
        f"{HISTORY_AT} is {shown(text)}, expected a time with a zone, such as 2026-11-27T06:00:00+00:00. Set the "
        "table's property to the time of the newest batch of its history"
    )


@dataclass(frozen=True, kw_only=True)
class AppliedOfSource:
    """Applied state of one source, as the table keeps it.

    :param newest: see :meth:`MainHistory.newest_generation`.
    :param epoch: see ``contracts.applied.position_column``.
    :param is_replaced: the table was replaced after the source's last commit; its position begins anew.
    """

    position: SourcePosition
    newest: int | None
    epoch: int
    is_replaced: bool = False

    @classmethod
    def of(
        cls,
        position: SourcePosition,
        properties: Mapping[str, str],
        history: MainHistory,
        source_name: str,
        table: str = "the table",
    ) -> AppliedOfSource:
        """Return the properties that count. What a replaced table has kept counts as never applied.

        :param position: as the properties have it.
        :param table: name, for messages.
        :raises BrokenMetadataError: the property of an epoch is broken.
        """
        if position.generation == 0 or not history.is_replaced_since(source_name):
            newest = history.newest_generation(source_name)
            ahead = history.ahead_of(source_name, position.generation)
            position = position if ahead is None else position.published([ahead])
            return cls(position=position, newest=newest, epoch=epoch_of(properties, source_name, table))
        # Keys that were deleted before are of an older epoch.
        anew = replace(position.restarted(), events=None)
        return cls(position=anew, newest=None, epoch=next_epoch(properties, table), is_replaced=True)


def applied_of_source(facts: TableFacts | None, source_name: str) -> AppliedOfSource:
    """Return what a table says it has applied of a source; the list of files may lie in a file and is not read.

    :param facts: None for a table that does not exist.
    :raises BrokenMetadataError: a property is not what this package writes.
    """
    if facts is None:
        return AppliedOfSource(position=SourcePosition(), newest=None, epoch=1)
    position = SourcePosition.read(facts.properties, source_name, facts.name)
    return AppliedOfSource.of(
        position, facts.properties, MainHistory.of(facts.head(), facts.snapshots), source_name, facts.name
    )


def broken_position(facts: TableFacts) -> str | None:
    """Return what is wrong with a position that a table keeps of a source; None where all of them can be read."""
    names = [name.removeprefix(POSITION_PREFIX) for name in facts.properties if name.startswith(POSITION_PREFIX)]
    try:
        for name in sorted(names):
            applied_of_source(facts, name)
            OpenKeyChanges.read(facts.properties, name, facts.name)
    except BrokenMetadataError as broken:
        return str(broken)
    return None


def applied_runs(facts: TableFacts, who: str, branch: str = MAIN) -> dict[str, str | None]:
    """Return run key to snapshot id of the commits of ``who`` on a branch.

    :param who: first half of the run key, see ``contracts.applied.run_key``.
    :return: newest first; the id is None where the snapshot was expired and only the property remembers.
    """
    lost = MainHistory.of(facts.head(), facts.snapshots).lost_run_keys() if branch == MAIN else set()
    applied: dict[str, str | None] = {}
    for snapshot in facts.ancestors(branch):
        key = snapshot.summary.get(RUN_KEY)
        if key is not None and key.startswith(who):
            applied.setdefault(key, snapshot.id)
    if branch == MAIN:
        for key, _ in RecentRunKeys.read(facts.properties).entries:
            if key.startswith(who) and key not in lost:
                applied.setdefault(key, None)
    return applied

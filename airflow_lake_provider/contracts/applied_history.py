"""Tell which properties of a table still say what its rows have: a replaced table keeps those of the one before.

``CREATE OR REPLACE TABLE`` begins a new history of main and keeps UUID, properties and, until they expire, snapshots
(``TableMetadata.buildReplacement`` of Iceberg 1.12). So a position counts only if main's history may have its commit.
Expiry hides history: Iceberg's leaves the id of a parent that is gone, PyIceberg's erases it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_lake_provider.contracts.position_column import epoch_of, next_epoch
from airflow_lake_provider.contracts.property_values import count_of
from airflow_lake_provider.contracts.run_key import RecentRunKeys
from airflow_lake_provider.contracts.source_position import SourcePosition, newest_generation
from airflow_lake_provider.contracts.table_properties import RUN_KEY

_KINDS = ("records", "data-files", "delete-files")
_REMOVED = ("deleted-records", "deleted-data-files", "removed-delete-files")


def begins_history(parent: int | None, sequence_number: int, summary: Mapping[str, str]) -> bool:
    """Tell whether a snapshot is the first of a table, also of one that replaced another and keeps its numbers.

    It has no parent, which PyIceberg's expiry erases as well, has removed nothing, and has in its totals no row or file
    but those added.

    :param sequence_number: 0 in format version 1.
    """
    if parent is not None or any(count_of(summary, name) for name in _REMOVED):
        return False
    counts = [(summary.get(f"total-{kind}"), summary.get(f"added-{kind}", "0")) for kind in _KINDS]
    return sequence_number == 1 or all(total == added for total, added in counts)


@dataclass(frozen=True, kw_only=True)
class CommitFact:
    """One snapshot as the metadata has it.

    :param sequence_number: 0 in format version 1.
    :param at: epoch milliseconds.
    """

    id: int
    parent: int | None
    sequence_number: int
    at: int
    summary: Mapping[str, str]

    @property
    def order(self) -> tuple[int, int]:
        """Sorts the snapshots of a table by their commits."""
        return self.sequence_number, self.at

    @property
    def is_first(self) -> bool:
        """Tell whether nothing was there before."""
        return begins_history(self.parent, self.sequence_number, self.summary)


@dataclass(frozen=True)
class MainHistory:
    """Snapshots of a table, those of main apart.

    :param line: of main, newest first, as far back as they are known.
    :param others: all others.
    """

    line: tuple[CommitFact, ...] = ()
    others: tuple[CommitFact, ...] = ()

    @classmethod
    def of(cls, head: int | None, commits: Iterable[CommitFact]) -> MainHistory:
        """Follow the parents from main's head; a snapshot is met once, whatever the metadata says."""
        left = {commit.id: commit for commit in commits}
        line: list[CommitFact] = []
        current = None if head is None else left.pop(head, None)
        while current is not None:
            line.append(current)
            current = None if current.parent is None else left.pop(current.parent, None)
        return cls(tuple(line), tuple(left.values()))

    @property
    def first(self) -> CommitFact | None:
        """The first snapshot of main's history; None where that is not known any more."""
        return self.line[-1] if self.line and self.line[-1].is_first else None

    def newest_generation(self, source_name: str) -> int | None:
        """Return the generation that main's newest snapshot says which names a source.

        :return: 0 where main surely has no commit of the source; None where nothing is known.
        """
        said = newest_generation((commit.summary for commit in self.line), source_name)
        if said is not None or not self.line:
            return said
        newer = any(commit.order > self.line[-1].order for commit in self._commits_of(source_name))
        return 0 if self.first is not None or newer else None

    def is_replaced_since(self, source_name: str) -> bool:
        """Tell whether the table was surely replaced after the last commit of a source that has a position."""
        if not self.line:
            return True
        if newest_generation((commit.summary for commit in self.line), source_name) is not None or self.first is None:
            return False
        known = [commit.order for commit in self._commits_of(source_name)]
        return bool(known) and max(known) < self.first.order

    def run_keys(self, recent: RecentRunKeys) -> RecentRunKeys:
        """Return the run keys without those of a table that this one has replaced; what was dropped stays unknown."""
        if not self.line:
            return RecentRunKeys((), recent.dropped_before)
        if self.first is None:
            return recent
        of_main = {commit.summary.get(RUN_KEY) for commit in self.line}
        # Keys have whole seconds. Such as that of a rollback have no snapshot.
        since = self.first.at // 1000
        entries = tuple((key, at) for key, at in recent.entries if key in of_main or at > since)
        return RecentRunKeys(entries, recent.dropped_before)

    def _commits_of(self, source_name: str) -> list[CommitFact]:
        return [commit for commit in self.others if newest_generation([commit.summary], source_name) is not None]


@dataclass(frozen=True, kw_only=True)
class AppliedOfSource:
    """State that a table says it has applied of one source.

    :param newest: see :meth:`MainHistory.newest_generation`.
    :param epoch: see ``contracts.position_column``.
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
        """Tell what counts; what a replaced table has kept counts as never applied.

        :param position: as the properties have it.
        :param table: name, for messages.
        :raises BrokenMetadataError: the property of an epoch is broken.
        """
        if position.generation == 0 or not history.is_replaced_since(source_name):
            newest = history.newest_generation(source_name)
            return cls(position=position, newest=newest, epoch=epoch_of(properties, source_name, table))
        # Keys that were deleted before are of an older epoch.
        anew = replace(position.restarted(), events=None)
        return cls(position=anew, newest=None, epoch=next_epoch(properties, table), is_replaced=True)

"""Specs of rollback, publication, tags and upgrade, and the change of metadata that a worker plans from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from airflow_lake_provider.contracts.argument_validation import flag, label, number, optional, ref_name, snapshot
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import CommitConflictError, InvalidSpecError
from airflow_lake_provider.contracts.reports.job import MetadataChangeReport
from airflow_lake_provider.contracts.specs.job import JobSpec, argument, derived
from airflow_lake_provider.contracts.table_facts import MAIN

if TYPE_CHECKING:
    from airflow_lake_provider.contracts.table_facts import Reference, TableFacts

_RESERVED = "lake"


def _moment(value: object, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        moment = moment.astimezone(UTC) if isinstance(moment, datetime) and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise InvalidSpecError(
            f"{name} must be a time with a zone, for example '2026-11-20T08:00:00+00:00', got {value!r}"
        )
    return moment


@dataclass(frozen=True, kw_only=True)
class RollbackSpec(JobSpec):
    """Move main back to one of its earlier snapshots: the arguments of :class:`.LakeRollbackOperator`."""

    action: ClassVar[str] = "rollback"
    capabilities: ClassVar[tuple[str, ...]] = ("metadata-changes", "rollback")
    snapshot_id: str | None = argument(optional(snapshot), "1", default=None, is_snapshot=True)
    timestamp: datetime | None = argument(optional(_moment), datetime(2026, 1, 1, tzinfo=UTC), default=None)
    tag: str | None = argument(optional(label), "tag", default=None)
    expected_snapshot_id: str | None = argument(optional(snapshot), default=None, is_snapshot=True, is_limit=True)

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        names = ("snapshot_id", "timestamp", "tag")
        given = [name for name in names if self.is_final(name) and getattr(self, name) is not None]
        if len(given) > 1 or (not given and self.is_final(*names)):
            raise InvalidSpecError(f"{self.table}: give one of snapshot_id, timestamp and tag, and only one")


@dataclass(frozen=True, kw_only=True)
class PublishBranchSpec(JobSpec):
    """Move main forward to the head of a branch: the arguments of :class:`.LakePublishBranchOperator`."""

    action: ClassVar[str] = "publish-branch"
    capabilities: ClassVar[tuple[str, ...]] = ("metadata-changes", "branches")
    # The attribute ``branch`` of an operator is the one that it writes to.
    branch: str = argument(label, "branch", attribute="published_branch")
    drop_branch: bool = argument(flag, default=False, templated=False)

    def complete(self) -> None:
        """Refuse a branch that is not an upsert's."""
        super().complete()
        if self.branch == MAIN or self.branch.startswith(f"{_RESERVED}_"):
            raise InvalidSpecError(f"{self.table}: branch {self.branch!r} is reserved; name the branch of an upsert")


def _tag(value: object, name: str) -> str:
    """Return the name of a tag that is none of ours."""
    tag = label(value, name)
    if tag == MAIN or tag.startswith(_RESERVED):
        raise InvalidSpecError(f"{name} {tag!r} is reserved: choose one that does not begin with {_RESERVED!r}")
    return tag


@dataclass(frozen=True, kw_only=True)
class _TagSpec(JobSpec):
    capabilities: ClassVar[tuple[str, ...]] = ("metadata-changes", "tags")
    tag: str = argument(_tag, "tag")


@dataclass(frozen=True, kw_only=True)
class CreateTagSpec(_TagSpec):
    """Put a tag on a snapshot: the arguments of :class:`.LakeCreateTagOperator`."""

    action: ClassVar[str] = "create-tag"
    snapshot_id: str | None = argument(optional(snapshot), default=None, is_snapshot=True)
    max_age: timedelta | None = argument(optional(duration), default=None)
    replace: bool = argument(flag, default=False, templated=False)

    def complete(self) -> None:
        """Refuse a name that nobody could type; one that is there already can be dropped."""
        super().complete()
        ref_name(self.tag, "tag")


@dataclass(frozen=True, kw_only=True)
class DropTagSpec(_TagSpec):
    """Remove a tag: the arguments of :class:`.LakeDropTagOperator`."""

    action: ClassVar[str] = "drop-tag"


@dataclass(frozen=True, kw_only=True)
class TableUpgradeSpec(JobSpec):
    """Raise a table's format version: the arguments of :class:`.LakeTableUpgradeOperator`."""

    action: ClassVar[str] = "upgrade"
    capabilities: ClassVar[tuple[str, ...]] = ("metadata-changes", "format-upgrade")
    format_version: int = argument(number, default=3)
    allow_other_writers: bool = argument(flag, default=False, templated=False)

    def complete(self) -> None:
        """Refuse another version."""
        super().complete()
        if self.format_version not in (2, 3):
            raise InvalidSpecError(f"{self.table}: format_version must be 2 or 3, got {self.format_version}")


@dataclass(frozen=True, kw_only=True)
class MetadataChangeSpec(JobSpec):
    """A change that the worker decided on, for a driver to commit.

    :param planned: the report, as it is once the change is made.
    """

    action: ClassVar[str] = "change-metadata"
    capabilities: ClassVar[tuple[str, ...]] = ("metadata-changes",)
    change: MetadataChange = derived()
    planned: MetadataChangeReport = derived()


@dataclass(frozen=True, kw_only=True)
class RefMove:
    """A branch or tag, and the snapshot that it will be at.

    :param kind: ``branch`` or ``tag``.
    :param snapshot: id as text.
    :param max_age_ms: age at which an expiry removes the ref; None keeps a new one, and the age of one that exists.
    """

    name: str
    kind: str
    snapshot: str
    max_age_ms: int | None = None

    def is_made(self, ref: Reference) -> bool:
        """Tell whether a ref is as this move leaves it."""
        return ref.snapshot == self.snapshot and self.max_age_ms in (None, ref.max_ref_age)


@dataclass(frozen=True, kw_only=True)
class MetadataChange:
    """One atomic change.

    :param table_uuid: identity of the table that it was decided on.
    :param expected_refs: snapshot ids by ref, as text; None for a ref that must not exist.
    :param format_version: to upgrade to; None leaves it.
    """

    table_uuid: str
    expected_refs: dict[str, str | None] = field(default_factory=dict)
    moved_refs: tuple[RefMove, ...] = ()
    removed_refs: tuple[str, ...] = ()
    set_properties: dict[str, str] = field(default_factory=dict)
    removed_properties: tuple[str, ...] = ()
    format_version: int | None = None

    def refuse_other_state(self, table: str, table_uuid: str, refs: dict[str, str]) -> None:
        """Refuse to commit on another state than the one that was decided on.

        :param refs: snapshot ids by ref, as they are now.
        :raises CommitConflictError: naming the ref that moved.
        """
        if table_uuid != self.table_uuid:
            raise CommitConflictError(f"{table}: the table was dropped and made again meanwhile; nothing changed")
        for name, expected in self.expected_refs.items():
            if refs.get(name) != expected:
                raise CommitConflictError(
                    f"{table}: commit refused, {name} was at snapshot {expected} and is at {refs.get(name)} now. "
                    "Nothing changed; a retry decides again."
                )

    def is_made(self, facts: TableFacts) -> bool:
        """Tell whether a table is as this change leaves it."""
        refs, properties = facts.references, facts.properties
        return (
            all(move.name in refs and move.is_made(refs[move.name]) for move in self.moved_refs)
            and not refs.keys() & set(self.removed_refs)
            and self.set_properties.items() <= properties.items()
            and not properties.keys() & set(self.removed_properties)
            and facts.format_version >= (self.format_version or 0)
        )

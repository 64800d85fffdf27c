"""Specs of rollback, publication, tags and upgrade, which change a table's metadata and write no file of rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.job_report import MetadataChangeReport
from airflow_lake_provider.contracts.job_spec import JobSpec
from airflow_lake_provider.contracts.metadata_change import MetadataChange

MAIN = "main"
_RESERVED = "lake"


@dataclass(frozen=True, kw_only=True)
class RollbackSpec(JobSpec):
    """Move main back to one of its earlier snapshots.

    :param snapshot_id: of that snapshot, as text.
    :param timestamp: or the moment at which main was there.
    :param tag: or a tag on it.
    :param expected_snapshot_id: snapshot that main has to be at; None for any.
    """

    action: ClassVar[str] = "rollback"
    snapshot_id: str | None = None
    timestamp: datetime | None = None
    tag: str | None = None
    expected_snapshot_id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(given is not None for given in (self.snapshot_id, self.timestamp, self.tag)) != 1:
            raise InvalidSpecError(f"{self.table}: give one of snapshot_id, timestamp and tag, and only one")
        _refuse_no_id(self.table, "snapshot_id", self.snapshot_id)
        _refuse_no_id(self.table, "expected_snapshot_id", self.expected_snapshot_id)
        if self.timestamp is not None and self.timestamp.tzinfo is None:
            raise InvalidSpecError(
                f"{self.table}: timestamp needs a zone, for example '2026-11-20T08:00:00+00:00', got {self.timestamp!r}"
            )


@dataclass(frozen=True, kw_only=True)
class PublishBranchSpec(JobSpec):
    """Move main forward to the head of a branch.

    :param drop_branch: remove the branch in the same commit.
    """

    action: ClassVar[str] = "publish-branch"
    branch: str
    drop_branch: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.branch == MAIN or self.branch.startswith(f"{_RESERVED}_"):
            raise InvalidSpecError(f"{self.table}: branch {self.branch!r} is reserved; name the branch of an upsert")


@dataclass(frozen=True, kw_only=True)
class CreateTagSpec(JobSpec):
    """Put a tag on a snapshot.

    :param snapshot_id: as text; None for the head of main.
    :param max_age: age of the snapshot at which an expiry removes the tag; None keeps it.
    :param replace: move a tag that is on another snapshot.
    """

    action: ClassVar[str] = "create-tag"
    tag: str
    snapshot_id: str | None = None
    max_age: timedelta | None = None
    replace: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_reserved_tag(self.table, self.tag)
        _refuse_no_id(self.table, "snapshot_id", self.snapshot_id)


@dataclass(frozen=True, kw_only=True)
class DropTagSpec(JobSpec):
    """Remove a tag."""

    action: ClassVar[str] = "drop-tag"
    tag: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_reserved_tag(self.table, self.tag)


@dataclass(frozen=True, kw_only=True)
class TableUpgradeSpec(JobSpec):
    """Raise a table's format version.

    :param allow_other_writers: also where a Flink job writes to the table, which may fail afterwards.
    """

    action: ClassVar[str] = "upgrade"
    format_version: int = 3
    allow_other_writers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format_version not in (2, 3):
            raise InvalidSpecError(f"{self.table}: format_version must be 2 or 3, got {self.format_version}")


@dataclass(frozen=True, kw_only=True)
class MetadataChangeSpec(JobSpec):
    """A change that the worker decided on, for a driver to commit.

    :param planned: the report, as it is once the change is made.
    """

    action: ClassVar[str] = "change-metadata"
    change: MetadataChange
    planned: MetadataChangeReport


def _refuse_no_id(table: str, name: str, value: str | None) -> None:
    if value is not None and not (value.isascii() and value.isdecimal() and len(value) < 20):
        raise InvalidSpecError(f"{table}: {name} must be a snapshot id as text, got {value!r}")


def _refuse_reserved_tag(table: str, tag: str) -> None:
    if tag == MAIN or tag.startswith(_RESERVED):
        raise InvalidSpecError(f"{table}: tag {tag!r} is reserved: choose one that does not begin with {_RESERVED!r}")

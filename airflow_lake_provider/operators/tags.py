"""LakeCreateTagOperator and LakeDropTagOperator: names for snapshots, which expiry keeps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_lake_provider.contracts.specs.metadata_changes import CreateTagSpec, DropTagSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.worker_action import MetadataChangeAction
from airflow_lake_provider.planning.metadata_changes import plan_tag, plan_tag_removal


class CreateTagAction(MetadataChangeAction[CreateTagSpec]):
    """The worker's part of a tag."""

    spec_type = CreateTagSpec

    plan = staticmethod(plan_tag)


class LakeCreateTagOperator(LakeJobOperator[CreateTagSpec]):
    """Put a tag on a snapshot. A tag that is there stays, unless it is to be replaced.

    :param table: ``namespace.table`` (templated).
    :param tag: its name (templated); names that begin with ``lake`` are reserved.
    :param snapshot_id: id of the snapshot, as text or a number (templated); None for the head of main.
    :param max_age: age of the snapshot at which an expiry removes the tag: timedelta or ISO-8601 text (templated); None
        takes that of the table. Without one the tag stays.
    :param replace: move a tag that is on another snapshot, and give it ``max_age`` where that is another one.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises UnsupportedError: there is no such snapshot, or the name is taken.
    """

    action = CreateTagAction

    def __init__(
        self,
        *,
        tag: str,
        snapshot_id: int | str | None = None,
        max_age: timedelta | str | None = None,
        replace: bool = False,
        **of_job: Any,
    ) -> None:
        super().__init__(**of_job)
        self.keep(locals())


class DropTagAction(MetadataChangeAction[DropTagSpec]):
    """The worker's part of a tag's removal."""

    spec_type = DropTagSpec

    plan = staticmethod(plan_tag_removal)


class LakeDropTagOperator(LakeJobOperator[DropTagSpec]):
    """Remove a tag; where there is none, nothing happens.

    :param table: ``namespace.table`` (templated).
    :param tag: its name (templated); names that begin with ``lake`` are reserved.
    :param of_job: arguments of :class:`.LakeJobOperator`.
    :raises UnsupportedError: the name is a branch's.
    """

    action = DropTagAction

    def __init__(self, *, tag: str, **of_job: Any) -> None:
        super().__init__(**of_job)
        self.keep(locals())

"""LakeCreateTagOperator and LakeDropTagOperator: names for snapshots, which expiry keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import flag, optional, text
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.job_spec import SpecFrame
from airflow_lake_provider.contracts.metadata_change_specs import CreateTagSpec, DropTagSpec
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.metadata_change import MetadataChangeOperator
from airflow_lake_provider.operators.rollback import snapshot_id
from airflow_lake_provider.planning.planned_change import PlannedChange
from airflow_lake_provider.planning.tag_plan import plan_tag, plan_tag_removal

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyiceberg.table import Table


class LakeCreateTagOperator(MetadataChangeOperator[CreateTagSpec]):
    """Put a tag on a snapshot. A tag that is there stays, unless it is to be replaced.

    :param table: ``namespace.table`` (templated).
    :param tag: its name (templated); names that begin with ``lake`` are reserved.
    :param snapshot_id: id of the snapshot, as text or a number (templated); None for the head of main.
    :param max_age: age of the snapshot at which an expiry removes the tag: timedelta or ISO-8601 text (templated); None
        keeps the tag.
    :param replace: move a tag that is on another snapshot.
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises UnsupportedError: there is no such snapshot, or the name is taken.
    """

    template_fields: Sequence[str] = (*LakeJobOperator.template_fields, "tag", "snapshot_id", "max_age")
    stand_ins: ClassVar[Mapping[str, Any]] = {
        **LakeJobOperator.stand_ins,
        "tag": "tag",
        "snapshot_id": None,
        "max_age": None,
    }

    def __init__(
        self,
        *,
        tag: str,
        snapshot_id: int | str | None = None,
        max_age: timedelta | str | None = None,
        replace: bool = False,
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.tag = tag
        self.snapshot_id = snapshot_id
        self.max_age = max_age
        self.replace = flag(replace, "replace")
        self.refuse_wrong_arguments()

    def make_spec(self, frame: SpecFrame, context: Context | None) -> CreateTagSpec:  # noqa: ARG002  # for others
        """Translate the arguments."""
        return CreateTagSpec(
            **frame,
            tag=text(self.tag, "tag"),
            snapshot_id=optional(snapshot_id)(self.snapshot_id, "snapshot_id"),
            max_age=optional(duration)(self.max_age, "max_age"),
            replace=self.replace,
        )

    def plan(self, table: Table, spec: CreateTagSpec) -> PlannedChange:
        """Decide where the tag goes."""
        return plan_tag(table, spec)


class LakeDropTagOperator(MetadataChangeOperator[DropTagSpec]):
    """Remove a tag; where there is none, nothing happens.

    :param table: ``namespace.table`` (templated).
    :param tag: its name (templated); names that begin with ``lake`` are reserved.
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises UnsupportedError: the name is a branch's.
    """

    template_fields: Sequence[str] = (*LakeJobOperator.template_fields, "tag")
    stand_ins: ClassVar[Mapping[str, Any]] = {**LakeJobOperator.stand_ins, "tag": "tag"}

    def __init__(self, *, tag: str, **job: Any) -> None:
        super().__init__(**job)
        self.tag = tag
        self.refuse_wrong_arguments()

    def make_spec(self, frame: SpecFrame, context: Context | None) -> DropTagSpec:  # noqa: ARG002  # for others
        """Translate the arguments."""
        return DropTagSpec(**frame, tag=text(self.tag, "tag"))

    def plan(self, table: Table, spec: DropTagSpec) -> PlannedChange:
        """Decide whether there is a tag to remove."""
        return plan_tag_removal(table, spec)

"""LakeRollbackOperator: main goes back to an earlier snapshot, with run keys and positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_lake_provider.contracts.argument_validation import optional, text
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.job_spec import SpecFrame
from airflow_lake_provider.contracts.metadata_change_specs import RollbackSpec
from airflow_lake_provider.contracts.property_values import shown, whole_number
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.metadata_change import MetadataChangeOperator
from airflow_lake_provider.planning.planned_change import PlannedChange
from airflow_lake_provider.planning.rollback_plan import plan_rollback

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyiceberg.table import Table


class LakeRollbackOperator(MetadataChangeOperator[RollbackSpec]):
    """Move main back to one of its earlier snapshots, and with it what the table says it has applied.

    A batch of a snapshot that was rolled back counts as not applied: its run applies it again. Each clearing of the
    task rolls back again; Airflow's own retries are recognised, and take no later commit away.

    :param table: ``namespace.table`` (templated).
    :param snapshot_id: id of the snapshot, as text or a number (templated). Or ``timestamp`` or ``tag``.
    :param timestamp: moment at which main was at the snapshot: a datetime with a zone, or ISO-8601 text (templated).
    :param tag: tag on the snapshot (templated).
    :param expected_snapshot_id: snapshot that main has to be at, so that nothing newer is rolled back unseen
        (templated); None for any.
    :param job: arguments of :class:`.LakeJobOperator`.
    :raises UnsupportedError: main was never at the snapshot, or it was expired.
    :raises ForgottenRunError: a retry of a run older than the run keys that the table remembers.
    """

    template_fields: Sequence[str] = (
        *LakeJobOperator.template_fields,
        "snapshot_id",
        "timestamp",
        "tag",
        "expected_snapshot_id",
    )
    stand_ins: ClassVar[Mapping[str, Any]] = {
        **LakeJobOperator.stand_ins,
        "snapshot_id": "1",
        "timestamp": "2026-01-01T00:00:00+00:00",
        "tag": "tag",
        "expected_snapshot_id": None,
    }

    def __init__(
        self,
        *,
        snapshot_id: int | str | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
        expected_snapshot_id: int | str | None = None,
        **job: Any,
    ) -> None:
        super().__init__(**job)
        self.snapshot_id = snapshot_id
        self.timestamp = timestamp
        self.tag = tag
        self.expected_snapshot_id = expected_snapshot_id
        self.refuse_wrong_arguments()

    def make_spec(self, frame: SpecFrame, context: Context | None) -> RollbackSpec:  # noqa: ARG002  # for others
        """Translate the arguments."""
        return RollbackSpec(
            **frame,
            snapshot_id=optional(snapshot_id)(self.snapshot_id, "snapshot_id"),
            timestamp=optional(_moment)(self.timestamp, "timestamp"),
            tag=optional(text)(self.tag, "tag"),
            expected_snapshot_id=optional(snapshot_id)(self.expected_snapshot_id, "expected_snapshot_id"),
        )

    def run_of(self, context: Context) -> RunIdentity:
        """Return the identity of the run; each clearing of the task is another."""
        return self.run_identity(context, cleared_is_new=True)

    def plan(self, table: Table, spec: RollbackSpec) -> PlannedChange:
        """Decide where main goes."""
        return plan_rollback(table, spec)


def snapshot_id(value: object, name: str) -> str:
    """Return a snapshot id as text.

    :raises InvalidSpecError: for what is neither digits nor a whole number.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    found = str(value) if is_number else text(value, name).strip()
    if whole_number(found) is None:
        raise InvalidSpecError(f"{name} must be a snapshot id, digits as text or a whole number, got {shown(found)}")
    return found


def _moment(value: object, name: str) -> datetime:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        found = found.astimezone(UTC) if isinstance(found, datetime) and found.tzinfo is not None else None
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise InvalidSpecError(
            f"{name} must be a time with a zone, for example '2026-11-20T08:00:00+00:00', got {value!r}"
        )
    return found

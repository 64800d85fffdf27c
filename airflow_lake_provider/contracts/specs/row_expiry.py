"""Spec of an expiry of rows, as a worker sends it to a driver; it refuses wrong combinations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from airflow_lake_provider.contracts.argument_validation import choice_of, flag, share, text
from airflow_lake_provider.contracts.durations import duration, to_iso
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.row_age import Clock
from airflow_lake_provider.contracts.specs.job import JobSpec, argument, attempts, derived

# A slip of the unit must not empty a table, and nobody's clock is that wrong.
SHORTEST = timedelta(days=1)
LONGEST = timedelta(days=36_500)


def _age(value: object, name: str) -> timedelta:
    age = duration(value, name)
    if not SHORTEST <= age <= LONGEST:
        raise InvalidSpecError(f"{name} must be at least {to_iso(SHORTEST)} and at most {to_iso(LONGEST)}, got {age}")
    return age


@dataclass(frozen=True, kw_only=True)
class RowExpirySpec(JobSpec):
    """Remove rows by their age: the arguments of :class:`.LakeRowExpiryOperator`.

    :param asked_at: the worker's time, beyond which no clock goes.
    """

    action: ClassVar[str] = "expire-rows"
    capabilities: ClassVar[tuple[str, ...]] = ("row-expiry",)
    not_applied: ClassVar[frozenset[str]] = JobSpec.not_applied | {"asked_at", "max_share"}
    column: str = argument(text, "column", templated=False)
    # LakeJobOperator has a method of the argument's name.
    keep: timedelta = argument(_age, timedelta(days=30), attribute="kept_for")
    clock: Clock = argument(choice_of(Clock), default=Clock.LAST_COMMIT, templated=False)
    max_share: float = argument(share, default=0.5, templated=False)
    max_attempts: int = attempts()
    # BaseOperator has a method of the argument's name.
    dry_run: bool = argument(flag, default=False, attribute="only_plan")
    asked_at: datetime | None = derived(None)

    def complete(self) -> None:
        """Refuse what does not go together."""
        super().complete()
        if not 0 < self.max_share <= 1:
            raise InvalidSpecError(f"{self.table}: max_share is a share in (0, 1], not {self.max_share}")
        if self.is_framed and (self.asked_at is None or self.asked_at.tzinfo is None):
            raise InvalidSpecError(f"{self.table}: asked_at must be a moment with a zone, got {self.asked_at!r}")

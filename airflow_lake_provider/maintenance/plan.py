"""Plan of a table's maintenance: actions with reasons, effect and cost, and what is left out and why.

Made by :func:`.plan_of`. Times are UTC; an age or a size in a sentence is rounded, the numbers beside it are not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from airflow_lake_provider.contracts.errors import MissingTableError
from airflow_lake_provider.contracts.json_codec import from_json, to_json


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Number that makes an action due, or keeps it from being so.

    :param name: of the debt, such as ``small-files``: a part of the score where it has one.
    :param value: number that is compared.
    :param threshold: of the policy.
    :param sentence: both in words.
    """

    name: str
    value: float
    threshold: float
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Effect that an action is expected to have, estimated from metadata.

    :param files_removed: data files, delete files, or snapshots with their lists, that nobody opens any more.
    :param bytes_rewritten: of data files.
    :param wasted_bytes: of deleted rows, which each reader skips until then.
    :param core_seconds: by the cost model of decision 37, without the start of Spark.
    """

    files_removed: int = 0
    bytes_rewritten: int = 0
    wasted_bytes: int = 0
    core_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PlannedAction:
    """Action that is due.

    :param action: name of the task, such as ``compaction``.
    :param level: of a compaction: ``minor``, ``major`` or ``full``.
    :param reasons: each debt that it pays.
    :param effect: expected of it.
    :param benefit: files that readers are spared, or what stands for such a file.
    :param rank: benefit for each core-second.
    :param notes: what it leaves out, and why; sentences.
    :param task: that :class:`.LakeApplicationOperator` takes; without ``action``, the arguments of the operator.
    """

    action: str
    level: str | None = None
    reasons: tuple[Reason, ...] = ()
    effect: Effect = field(default_factory=Effect)
    benefit: float = 0.0
    rank: float = 0.0
    notes: tuple[str, ...] = ()
    task: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NotPlanned:
    """Action that is left out.

    :param action: its name.
    :param why: with the numbers, a sentence.
    :param instead: what helps, or when it comes; a sentence.
    :param is_unsupported: the policy asks for it, and the table rules it out.
    :param is_waiting: it is due, and waits: its last runs failed, or another run has leased the table.
    """

    action: str
    why: str
    instead: str
    is_unsupported: bool = False
    is_waiting: bool = False


def ruled_out(action: str, obstacle: str, instead: str = "Change the table's properties.") -> NotPlanned:
    """Return an action that is left out, as the table's format, columns or properties do not allow it.

    :param obstacle: of :class:`.TableHealth`.
    """
    return NotPlanned(action=action, why=f"The table rules it out: {obstacle}.", instead=instead, is_unsupported=True)


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """Plan of one table at one moment.

    :param table: whole name.
    :param planned_at: moment for which it holds.
    :param error: why the table could not be read.
    :param score: of its health.
    :param priority: of its policy.
    :param pool: Airflow pool of the cluster, by its policy.
    :param owner: of its policy.
    :param actions: in the order in which they run.
    :param not_planned: all other actions.
    """

    table: str
    planned_at: datetime
    error: str | None = None
    score: int | None = None
    priority: int = 0
    pool: str | None = None
    owner: str | None = None
    actions: tuple[PlannedAction, ...] = ()
    not_planned: tuple[NotPlanned, ...] = ()

    @property
    def core_seconds(self) -> float:
        """Cost of all actions, without the start of Spark."""
        return sum(each.effect.core_seconds for each in self.actions)

    @property
    def bytes_rewritten(self) -> int:
        """Bytes of data files that the actions write anew."""
        return sum(each.effect.bytes_rewritten for each in self.actions)

    @property
    def rank(self) -> float:
        """Benefit of all actions for each core-second; 0 of a plan without one."""
        seconds = self.core_seconds
        return sum(each.benefit for each in self.actions) / seconds if seconds > 0 else 0.0

    @property
    def is_missing(self) -> bool:
        """True where the catalog has no such table, or has it no more."""
        return (self.error or "").startswith(f"{MissingTableError.__name__}:")

    def without(self, actions: Collection[str], why: str, instead: str, *, is_unsupported: bool = False) -> TablePlan:
        """Return the plan with some of its actions left out: they wait, or the table rules them out.

        :param actions: names; those that are not planned do not matter.
        :param why: of :class:`NotPlanned`.
        :param instead: likewise.
        :param is_unsupported: likewise.
        """
        left_out = (
            NotPlanned(
                action=each.action,
                why=why,
                instead=instead,
                is_unsupported=is_unsupported,
                is_waiting=not is_unsupported,
            )
            for each in self.actions
            if each.action in actions
        )
        return replace(
            self,
            actions=tuple(each for each in self.actions if each.action not in actions),
            not_planned=(*self.not_planned, *left_out),
        )

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """The actions as tasks of :class:`.LakeApplicationOperator`."""
        return [each.task for each in self.actions]

    def to_json(self) -> str:
        """Return it as JSON."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> TablePlan:
        """Read what :meth:`to_json` wrote.

        :raises InvalidSpecError: another version wrote it, with other fields.
        """
        return from_json(cls, text)

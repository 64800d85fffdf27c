"""The driver begins a range where the position says, or reads everything: decided over tables without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.published_position import PublishedPosition
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, consumer_source_name
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.spark_jobs.actions.incremental_range import Range, passed_by, read_range
from airflow_lake_provider.spark_jobs.formats.base import AppliedState

SOURCE, OTHER = "0a1b2c3d-0000-4000-8000-0123456789ab", "ffffffff-0000-4000-8000-0123456789ab"
AT_FIVE = SourcePosition().moved(SnapshotPosition("5"))
AHEAD = AT_FIVE.with_position(PublishedPosition(1))
FILLED_BY_ANOTHER = {"lake.transform.c": "0" * 32}


@dataclass
class Lake:
    """A source of snapshots 1 to 9, and a target with positions of consumers."""

    positions: Mapping[str, SourcePosition] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    is_replaced: bool = False

    @property
    def capabilities(self) -> Any:
        return self

    def refuse_broken_start(self, *_: object) -> None:
        """Accept each."""

    def identity(self) -> str:
        return SOURCE

    def has_passed(self, position: str, snapshot: str) -> bool:
        return int(snapshot) < int(position)

    def changes(self, *_: object) -> None:
        """Give no rows: they are not looked at."""

    def properties(self) -> dict[str, str]:
        named = [position.to_properties(name) for name, position in self.positions.items()]
        return {**self.others, **{key: value for each in named for key, value in each.items()}}

    def applied_state(self, name: str) -> AppliedState:
        position = self.positions.get(name, SourcePosition())
        return AppliedState(position=position, is_replaced=self.is_replaced)


def spec(**changes: Any) -> IncrementalSpec:
    given: dict[str, Any] = {"source": "shop.orders", "consumer": "c", "keys": ("id",), "to_snapshot": "5", **changes}
    return IncrementalSpec(
        catalog="lake", table="mart.t", run=RunIdentity.of("d", "r", "t", "-1"), query="SELECT 1", **given
    )


def name(consumer: str = "c", table: str = SOURCE) -> str:
    return consumer_source_name(table, consumer)


def reading(lake: Lake, asked: IncrementalSpec) -> Range:
    table: Any = lake
    return read_range(asked, table, table, lake.applied_state(name(asked.consumer)))[0]


def passed(lake: Lake, asked: IncrementalSpec) -> str | None:
    table: Any = lake
    return passed_by(asked, table, table, lake.applied_state(name(asked.consumer)))


@pytest.mark.parametrize(
    ("position", "to_snapshot", "start", "reason"),
    [
        (AT_FIVE, "5", "5", "at snapshot 5 of shop.orders already"),
        (AT_FIVE, "4", "5", "at the newer snapshot 5"),
        (AT_FIVE, "6", "5", None),
        (AHEAD, "5", None, None),
        (AHEAD, "6", None, None),
        # A driver of before: who reads up to the head comes after it.
        (AHEAD, "4", None, "at the newer snapshot 5"),
        (SourcePosition(), "5", None, None),
    ],
)
def test_a_range_begins_at_the_position_unless_main_has_more_than_it_tells(
    position: SourcePosition, to_snapshot: str, start: str | None, reason: str | None
) -> None:
    lake = Lake({name(): position})
    found = passed(lake, spec(to_snapshot=to_snapshot))
    assert found is None if reason is None else reason in str(found)
    assert reading(lake, spec(to_snapshot=to_snapshot)).start == start
    assert passed(lake, spec(full_refresh=True)) is None
    assert reading(lake, spec(from_snapshot="2")).start == "2"


@pytest.mark.parametrize("position", [AT_FIVE, AHEAD])
def test_another_transform_is_refused_or_reads_everything_whatever_main_has(position: SourcePosition) -> None:
    lake = Lake({name(): position}, FILLED_BY_ANOTHER)
    assert passed(lake, spec()) is None
    with pytest.raises(BadInputError, match="filled by another transform"):
        reading(lake, spec())
    assert "the transform changed" in reading(lake, spec(on_transform_change="full")).why
    goes_on = reading(lake, spec(on_transform_change="continue", to_snapshot="6"))
    assert goes_on.start == (None if position is AHEAD else "5")


REBUILT = AT_FIVE.restarted()


@pytest.mark.parametrize(
    ("positions", "why", "warning", "is_first"),
    [
        ({}, "the target has consumed nothing yet", None, True),
        ({name("other"): AT_FIVE}, "the target has consumed nothing yet", None, True),
        (
            {name(): REBUILT, name("other"): AT_FIVE},
            "another consumer, other, has rebuilt the target since",
            "give each of the two a table of its own",
            False,
        ),
        (
            {name(): REBUILT, name("other", OTHER): AT_FIVE, name("third"): REBUILT, "inbox": AT_FIVE},
            "another consumer, other, has rebuilt the target since",
            "give each of the two a table of its own",
            False,
        ),
        ({name(): REBUILT, name("c", OTHER): AT_FIVE}, "is another table than the target has consumed", OTHER, False),
    ],
)
def test_a_full_read_tells_who_has_filled_the_target_before(
    positions: dict[str, SourcePosition], why: str, warning: str | None, is_first: bool
) -> None:
    full = reading(Lake(positions), spec())
    assert (full.start, full.is_first) == (None, is_first)
    assert why in full.why
    assert full.warning is None if warning is None else warning in str(full.warning)

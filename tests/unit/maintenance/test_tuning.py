"""Tuned defaults: they stay within bounds, never replace what somebody names, and do not swing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.policy_settings import SETTINGS, NamedValue
from airflow_lake_provider.maintenance.health import health_of
from airflow_lake_provider.maintenance.plan import TablePlan
from airflow_lake_provider.maintenance.planner import plan_of
from airflow_lake_provider.maintenance.policy import (
    EffectiveValue,
    Layer,
    LayerValues,
    TablePolicy,
    dag_layer,
    merge,
    property_layer,
)
from airflow_lake_provider.maintenance.tuning import explained, tuned_policy
from tests.benchmarks.simulated_table import MIB, Commit, SimulatedTable, initial
from tests.tiny_format import TINY

MIDNIGHT = datetime(2026, 11, 26, tzinfo=UTC)
NOW = MIDNIGHT + timedelta(hours=12)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TARGET, SHARE = "compaction.target_file_size", "compaction.small_file_share"
TUNED = (TARGET, SHARE, "expiry.min_snapshots", "orphans.every")
ON: dict[str, Any] = {"tuning": {"enabled": True}}
# Named by somebody: none of them is a default.
NAMED: dict[str, Any] = {TARGET: "200MB", SHARE: 0.19, "expiry.min_snapshots": 33, "orphans.every": "P11D"}


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A table that is written to at even times.

    :param history: MiB of the files that were there before.
    :param sizes: MiB of the files of each commit.
    :param every: hours between two commits.
    :param days: for which it has been written to.
    """

    history: Sequence[int] = (400,) * 200
    sizes: Sequence[float] = (20.0,) * 40
    every: int = 24
    days: int = 6
    is_partitioned: bool = True

    def table(self, factor: float = 1.0) -> SimulatedTable:
        table = SimulatedTable("shop.orders", is_partitioned=self.is_partitioned)
        begin = MIDNIGHT - self.days * DAY
        initial(
            table, begin, [(f"day={n}" if self.is_partitioned else "", s * MIB) for n, s in enumerate(self.history)]
        )
        for hour in range(1, 24 * self.days, self.every):
            at = begin + hour * HOUR
            day = f"day={at:%Y-%m-%d}" if self.is_partitioned else ""
            table.commit(Commit(at=at, added={day: [round(each * factor * MIB) for each in self.sizes]}))
        return table


BULK = Writer()
TRICKLE = Writer(history=(250,), sizes=(2.0,), every=1, is_partitioned=False)
WRITERS = st.builds(
    Writer,
    history=st.lists(st.integers(1, 900), max_size=60),
    sizes=st.lists(st.floats(0.01, 700), min_size=1, max_size=6),
    every=st.sampled_from([1, 2, 3, 8, 24, 47]),
    days=st.integers(1, 9),
    is_partitioned=st.booleans(),
)

TRICKLES = st.builds(
    Writer,
    history=st.lists(st.integers(50, 520), min_size=1, max_size=5),
    sizes=st.lists(st.floats(0.25, 4), min_size=1, max_size=3),
    every=st.just(1),
    days=st.integers(5, 7),
    is_partitioned=st.just(False),
)


def policy(table: SimulatedTable, *layers: LayerValues, now: datetime = NOW) -> TablePolicy:
    return tuned_policy(merge("shop.orders", layers), layers, table, now)


def values(table: SimulatedTable, given: Mapping[str, Any] = ON, now: datetime = NOW) -> dict[str, Any]:
    """Return what is tuned."""
    return {each.key: each.value for each in tuned(policy(table, dag_layer(given), now=now))}


def tuned(merged: TablePolicy) -> list[EffectiveValue]:
    return [each for each in merged.values if each.layer is Layer.TUNED]


def plan(table: SimulatedTable, merged: TablePolicy) -> TablePlan:
    assert merged.policy is not None
    return explained(plan_of(health_of(table, NOW, merged.limits), merged.policy, NOW, ()), merged)


def test_a_partition_of_each_night_is_merged_before_it_is_a_fifth_of_the_table() -> None:
    # 40 files of 20 MiB beside 200: 19.2 fill three quarters of 512 MiB, and half of 38.4 that a day's merge spares.
    assert values(BULK.table())[SHARE] == pytest.approx(19 / 440, abs=0.001)


def test_half_of_what_a_day_brings_is_enough_where_a_partition_is_written_to_for_a_day() -> None:
    # 48 files of 8 MiB would fill one. A day brings 40, and their merge spares 39.4.
    assert values(replace(BULK, sizes=(8.0,) * 40).table())[SHARE] == pytest.approx(19.7 / 440, abs=0.001)


def test_where_commits_are_counted_no_share_is_tuned() -> None:
    given = values(BULK.table(), {**ON, "compaction": {"after_commits": 50}})
    assert SHARE not in given
    assert "expiry.min_snapshots" in given


def test_tables_of_a_format_whose_health_nobody_reads_are_left_alone() -> None:
    class TinyTable(SimulatedTable):
        capabilities = TINY

        @property
        def target_bytes(self) -> int:
            raise AssertionError("nobody knows it")

    table = TinyTable("shop.orders")
    for day in range(6):
        table.commit(Commit(at=MIDNIGHT - (day + 1) * DAY, added={"": [MIB] * 40}))
    assert values(table) == {}


def test_a_small_table_with_many_small_files_gets_a_smaller_target() -> None:
    assert values(TRICKLE.table())[TARGET] == int(512 * MIB / 1.75)


@pytest.mark.parametrize(("megabytes", "is_smaller"), [(500, True), (540, False)])
def test_files_that_the_smaller_target_would_split_keep_it_away(megabytes: int, is_smaller: bool) -> None:
    # 1.8 times the smaller target are 526 MiB.
    assert (TARGET in values(replace(TRICKLE, history=(megabytes,)).table())) is is_smaller


def test_the_target_stops_at_its_bound() -> None:
    bounds = {"enabled": True, "smallest_target_file_size": 320 * MIB}
    assert values(TRICKLE.table(), {"tuning": bounds})[TARGET] == 320 * MIB


@pytest.mark.parametrize("with_deletes", [False, True])
def test_deletes_keep_the_target_also_once_a_compaction_has_applied_them(with_deletes: bool) -> None:
    # Else the target would change with each compaction.
    table = SimulatedTable("shop.orders")
    initial(table, MIDNIGHT - 6 * DAY, [("", 100 * MIB)])
    for hour in range(1, 6 * 24):
        at = MIDNIGHT - 6 * DAY + hour * HOUR
        table.commit(Commit(at=at, added={"": [2 * MIB]}))
        if hour % 24 == 22 and with_deletes:
            table.commit(Commit(at=at, deleted={next(iter(table.files)): 5}))
        if hour % 24 == 23:
            table.carry_out({"action": "compaction", "table": "shop.orders", "level": "major"}, at)
    assert not table.deletes
    assert (TARGET in values(table)) is not with_deletes


def test_a_table_that_rests_between_its_writes_keeps_its_target() -> None:
    table = SimulatedTable("shop.orders")
    initial(table, MIDNIGHT - 6 * DAY, [("", 250 * MIB)])
    # As many commits as a steady writer has, but on two days of six.
    for minute in range(0, 2 * 1440, 20):
        at = MIDNIGHT - 6 * DAY + timedelta(minutes=minute + 1)
        table.commit(Commit(at=at, added={"": [2 * MIB]}))
    assert TARGET not in values(table)
    assert "expiry.min_snapshots" in values(table)


@pytest.mark.parametrize(("days", "is_known"), [(3, False), (5, True)])
def test_nothing_is_tuned_before_four_days_are_known(days: int, is_known: bool) -> None:
    assert bool(values(replace(BULK, days=days).table())) is is_known


def test_expiries_and_looks_follow_the_commits_of_a_day() -> None:
    hourly, nightly = values(replace(BULK, every=1).table()), values(BULK.table())
    assert (hourly["expiry.min_snapshots"], hourly["orphans.every"]) == (24, "P8D")
    assert (nightly["expiry.min_snapshots"], nightly["orphans.every"]) == (5, "P28D")


def test_ages_of_snapshots_and_of_orphans_are_never_tuned() -> None:
    assert set(values(BULK.table())) | set(values(TRICKLE.table())) <= set(TUNED)


@settings(max_examples=40)
@given(writer=WRITERS, hours=st.integers(0, 23))
def test_values_stay_within_their_bounds_and_come_out_the_same_again(writer: Writer, hours: int) -> None:
    now = MIDNIGHT + hours * HOUR
    first, again = values(writer.table(), now=now), values(writer.table(), now=now)
    assert first == again
    assert 256 * MIB <= first.get(TARGET, 512 * MIB) <= 512 * MIB
    assert 0.01 <= first.get(SHARE, 0.2) <= 0.2
    assert 5 <= first.get("expiry.min_snapshots", 20) <= 500
    assert 1 <= int(str(first.get("orphans.every", "P7D")).strip("PD")) <= 28


@settings(max_examples=40)
@given(writer=st.one_of(WRITERS, TRICKLES))
def test_bounds_of_a_policy_hold(writer: Writer) -> None:
    bounds = {
        "enabled": True,
        "smallest_target_file_size": "400MB",
        "lowest_small_file_share": 0.15,
        "fewest_snapshots": 15,
        "most_snapshots": 18,
        "shortest_orphan_wait": "P3D",
        "longest_orphan_wait": "P4D",
    }
    given = values(writer.table(), {"tuning": bounds})
    assert given.get(TARGET, 400 * MIB) >= 400 * MIB
    assert given.get(SHARE, 0.15) >= 0.15
    assert given.get("expiry.min_snapshots", 15) in range(15, 19)
    assert given.get("orphans.every", "P3D") in ("P3D", "P4D")


@settings(max_examples=40)
@given(writer=WRITERS, names=st.sets(st.sampled_from(TUNED)), by_owner=st.booleans())
def test_what_a_dag_or_an_owner_names_is_never_changed(writer: Writer, names: set[str], by_owner: bool) -> None:
    table = writer.table()
    properties = {SETTINGS[name].property_name: str(NAMED[name]) for name in names}
    owner = property_layer(Layer.TABLE, properties if by_owner else {}, "table shop.orders")
    named: dict[str, dict[str, Any]] = {"tuning": {"enabled": True}}
    for name in () if by_owner else names:
        group, _, key = name.partition(".")
        named.setdefault(group, {})[key] = NAMED[name]
    merged, without = policy(table, owner, dag_layer(named)), merge("shop.orders", [owner, dag_layer(named)])
    for name in names:
        assert merged.value_of(name) == without.value_of(name)
    assert not names & {each.key for each in tuned(merged)}


def test_the_owners_own_property_of_iceberg_is_not_changed() -> None:
    size = NamedValue(key=TARGET, value=300 * MIB, origin="property", is_formats=True)
    owner = LayerValues(Layer.TABLE, [size])
    merged = policy(TRICKLE.table(), owner, dag_layer(ON))
    assert merged.value_of(TARGET).layer is Layer.TABLE
    assert merged.policy is not None
    assert merged.policy.compaction.target_file_size is None


def test_an_owners_value_that_does_not_hold_keeps_the_default() -> None:
    # Shorter than the default, which a property may not ask for.
    owner = property_layer(Layer.TABLE, {"lake.maintenance.orphans.every": "P1D"}, "table shop.orders")
    merged = policy(replace(BULK, every=1).table(), owner, dag_layer(ON))
    assert merged.value_of("orphans.every") == EffectiveValue(key="orphans.every", value="P7D")


@settings(max_examples=40)
@given(writer=WRITERS)
def test_switched_off_all_plans_are_those_of_the_defaults(writer: Writer) -> None:
    table, off = writer.table(), dag_layer({"tuning": {"enabled": False}})
    assert plan(table, policy(table, off)) == plan(table, merge("shop.orders", []))


@settings(max_examples=40)
@given(writer=st.one_of(WRITERS, TRICKLES), factor=st.floats(0.95, 1.05))
def test_a_small_change_of_the_writes_leaves_the_files_of_the_other_target_alone(writer: Writer, factor: float) -> None:
    one, other = (values(writer.table(each)) for each in (1.0, factor))
    sizes = sorted(each.get(TARGET, 512 * MIB) for each in (one, other))
    # Iceberg splits a file above 1.8 times the target.
    assert sizes[1] <= 1.8 * sizes[0]
    # A default is an end of the range of shares, so a value next to it is next to no value.
    shares = [each.get(SHARE, 0.2) for each in (one, other)]
    assert max(shares) <= 1.2 * min(shares)


@settings(max_examples=40)
@given(writer=WRITERS, hours=st.lists(st.integers(0, 23), min_size=2, max_size=4), adds=st.booleans())
def test_a_value_does_not_change_within_a_day(writer: Writer, hours: list[int], adds: bool) -> None:
    table, seen = writer.table(), []
    for hour in sorted(hours):
        if adds:
            table.commit(Commit(at=MIDNIGHT + hour * HOUR, added={"day=x": [5 * MIB] * 9}))
        seen.append(values(table, now=MIDNIGHT + hour * HOUR))
    assert all(each == seen[0] for each in seen)


def test_a_steady_writer_keeps_its_target_while_its_compactions_run() -> None:
    table, seen = TRICKLE.table(), []
    for day in range(20):
        now = MIDNIGHT + day * DAY + 2 * HOUR + HOUR / 2
        for hour in range(24):
            table.commit(Commit(at=MIDNIGHT + day * DAY + hour * HOUR, added={"": [2 * MIB]}))
        merged = policy(table, dag_layer(ON), now=now)
        assert merged.policy is not None
        seen.append(merged.value_of(TARGET).value)
        for action in plan_of(health_of(table, now + DAY, merged.limits), merged.policy, now + DAY).actions:
            table.carry_out(action.task, MIDNIGHT + (day + 1) * DAY - HOUR / 2)
    assert len({*seen}) == 1


def test_a_tuned_threshold_is_explained_where_it_makes_something_due() -> None:
    table = replace(BULK, history=(400,) * 400).table()
    merged = policy(table, dag_layer(ON))
    (action,) = plan(table, merged).actions
    (reason,) = action.reasons
    assert reason.name == "small-files"
    assert "It is tuned from 0.2, since 19 files of 20 MiB are worth a merge, and 640 are there;" in reason.sentence
    assert reason.sentence.endswith("bounds 0.01 to 0.2.")
    assert reason.threshold == merged.value_of(SHARE).value


def test_a_tuned_target_is_explained_and_reaches_the_task() -> None:
    table = TRICKLE.table()
    made = plan(table, policy(table, dag_layer({**ON, "compaction": {"hot_within": "PT0S"}})))
    (action,) = (each for each in made.actions if each.action == "compaction")
    assert action.task["target_file_size"] == int(512 * MIB / 1.75)
    assert any(note.startswith("compaction.target_file_size is tuned from 512 MiB, since") for note in action.notes)


def test_bounds_that_leave_nothing_between_them_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match=r"fewest_snapshots must not exceed tuning\.most_snapshots"):
        merge("shop.orders", [dag_layer({"tuning": {"fewest_snapshots": 9, "most_snapshots": 8}})])


@pytest.mark.parametrize("layer", [Layer.CATALOG, Layer.NAMESPACE, Layer.TABLE])
@pytest.mark.parametrize("named", [{}, {"tuning": {"enabled": True, "longest_orphan_wait": "P7D"}}])
def test_no_bound_of_a_stranger_takes_a_table_its_policy(layer: Layer, named: dict[str, Any]) -> None:
    name = "lake.maintenance.tuning.shortest-orphan-wait"
    merged = merge("shop.orders", [property_layer(layer, {name: "P80D"}, "namespace shop"), dag_layer(named)])
    assert merged.policy is not None
    assert merged.policy.tuning.shortest_orphan_wait == DAY
    assert [each.key for each in merged.ignored] == ["tuning.shortest_orphan_wait"]


def test_an_owner_may_switch_it_off_and_not_on() -> None:
    off = property_layer(Layer.TABLE, {"lake.maintenance.tuning.enabled": "false"}, "table shop.orders")
    on = property_layer(Layer.TABLE, {"lake.maintenance.tuning.enabled": "true"}, "table shop.orders")
    file = LayerValues(Layer.FILE, [NamedValue(key="tuning.enabled", value=True, origin="lake_policy.yaml:3")])
    assert tuned(policy(BULK.table(), file))
    assert not tuned(policy(BULK.table(), file, off))
    assert not tuned(policy(BULK.table(), on))

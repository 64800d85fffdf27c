"""Random histories of commits, outages, hangs, kills and edits: nothing is lost, and little is repeated."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.triggers.simulated_catalog import SimulatedCatalog
from tests.unit.triggers.simulated_triggerer import AssetStates, SimulatedTriggerer, looking_at
from tests.unit.triggers.virtual_time import run_virtually

TABLES = [f"shop.t{number}" for number in range(4)]
POLL = 30.0
END = 600.0
MOMENTS = st.floats(0, END, allow_nan=False).map(lambda at: round(at, 2))
# Longer than an abandoned look, a probe's longest pause, a look and a store.
REST = 1200.0


@st.composite
def spans(draw: st.DrawFn) -> list[tuple[float, float]]:
    begins = draw(st.lists(MOMENTS, max_size=2))
    return [(begin, begin + draw(st.floats(1, 400))) for begin in begins]


@st.composite
def catalogs(draw: st.DrawFn) -> SimulatedCatalog:
    return SimulatedCatalog(
        commits={table: sorted(draw(st.lists(MOMENTS, max_size=6))) for table in TABLES},
        outages=draw(spans()),
        hangs=draw(spans()),
        hanging_tables=draw(st.none() | st.sets(st.sampled_from(TABLES))),
        latency=draw(st.floats(0.001, 2)),
    )


ENDS = st.lists(st.tuples(MOMENTS, st.sampled_from(["kill", "edit"])), max_size=4).map(sorted)


async def live(
    catalog: SimulatedCatalog, ends: list[tuple[float, str]], store_seconds: float, ends_at: float = END + REST
) -> AssetStates:
    """Run watchers on all tables; kill the triggerer, or edit the DAG files, at the given moments."""
    states, edits = AssetStates(), 0
    loop = asyncio.get_running_loop()
    triggerer = SimulatedTriggerer(states, store_seconds)
    rows = [triggerer.watch(table, poll_interval=POLL) for table in TABLES]
    for at, kind in ends:
        await asyncio.sleep(max(0.0, at - loop.time()))
        if kind == "kill":
            await triggerer.kill()
            catalog.end_looks()
            triggerer = SimulatedTriggerer(states, store_seconds)
        else:
            await asyncio.gather(*(triggerer.drop(row) for row in rows))
            edits += 1
        rows = [triggerer.watch(table, poll_interval=POLL + edits / 8) for table in TABLES]
    await asyncio.sleep(ends_at - loop.time())
    await triggerer.kill()
    return states


@settings(max_examples=25, deadline=None)
@given(catalog=catalogs(), ends=ENDS, store_seconds=st.sampled_from([0.01, 0.5, 12.0]))
def test_every_commit_is_reported_and_an_event_repeats_only_after_an_end(
    catalog: SimulatedCatalog, ends: list[tuple[float, str]], store_seconds: float
) -> None:
    with looking_at(catalog):
        states = run_virtually(live(catalog, ends, store_seconds))
    for table in TABLES:
        events = states.events_of(table)
        covered = {number for previous, new in events for number in range(previous + 1, new + 1)}
        assert covered == set(range(1, len(catalog.commits[table]) + 1)), f"{table}: {events}"
        assert all(previous < new for previous, new in events)
        reported = [number for previous, new in events for number in range(previous + 1, new + 1)]
        repeats = max((reported.count(number) for number in covered), default=1) - 1
        assert repeats <= len(ends), f"{table}: {events} with {ends}"
    assert catalog.most_running <= 4 + 8


@pytest.mark.parametrize("store_seconds", [0.01, 8.0])
def test_a_kill_before_an_event_is_stored_loses_nothing(store_seconds: float) -> None:
    """Four events wait for the supervisor: at eight seconds each the last one is stored long after it was made."""
    for after in [0.5, 2.0, 7.0, 9.0, 20.0, 40.0]:
        catalog = SimulatedCatalog({table: [1.0] for table in TABLES})
        with looking_at(catalog):
            states = run_virtually(live(catalog, [(POLL + after, "kill")], store_seconds))
        assert {table: states.events_of(table)[-1] for table in TABLES} == dict.fromkeys(TABLES, (0, 1))


def test_a_restart_long_after_an_event_repeats_nothing() -> None:
    catalog = SimulatedCatalog({table: [1.0, 400.0] for table in TABLES})
    with looking_at(catalog):
        states = run_virtually(live(catalog, [(300.0, "kill"), (450.0, "edit"), (550.0, "kill")], 0.01))
    assert {table: states.events_of(table) for table in TABLES} == {table: [(0, 1), (1, 2)] for table in TABLES}


def test_an_event_that_airflow_drops_with_its_watcher_is_made_again_by_the_next_one() -> None:
    for moment in [tenth / 10 for tenth in range(0, 350, 23)]:
        catalog = SimulatedCatalog({table: [1.0] for table in TABLES})
        with looking_at(catalog):
            states = run_virtually(live(catalog, [(moment, "edit")], 0.01))
        assert {table: states.events_of(table)[-1:] for table in TABLES} == {table: [(0, 1)] for table in TABLES}

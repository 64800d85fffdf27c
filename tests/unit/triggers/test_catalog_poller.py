"""One poller on a simulated catalog, in virtual time: when it looks, what hangs, what is said and when."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from unittest.mock import patch

import pytest

from airflow_lake_provider.contracts.errors import CatalogUnavailableError, InvalidConnectionError
from airflow_lake_provider.tables.detect_new_snapshot import TableHead
from airflow_lake_provider.triggers.catalog_poller import CatalogPoller
from airflow_lake_provider.triggers.overdue_alarm import OverdueAlarm
from airflow_lake_provider.triggers.table_queue import Subscription
from tests.unit.triggers.simulated_catalog import SimulatedCatalog
from tests.unit.triggers.virtual_time import run_virtually

POLL = 30.0
TIMEOUT = 20.0
MANY = [f"shop.t{number:03d}" for number in range(200)]


def poller_of(catalog: SimulatedCatalog, connections: int = 4) -> CatalogPoller:
    return CatalogPoller(catalog, OverdueAlarm("lake", 2), connections=connections, timeout=TIMEOUT)


def watch(catalog: SimulatedCatalog, tables: list[str], seconds: float, connections: int = 4) -> None:
    """Watch tables for a time."""

    async def run() -> None:
        poller = poller_of(catalog, connections)
        for table in tables:
            poller.subscribe(table, "main", POLL)
        await asyncio.sleep(seconds)

    run_virtually(run())


def looks_at(catalog: SimulatedCatalog, table: str) -> list[float]:
    return [at for at, name in catalog.looks if name == table]


def test_looks_spread_over_the_interval_and_none_comes_later_than_it() -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY})
    watch(catalog, MANY, 600)
    for table in MANY:
        moments = looks_at(catalog, table)
        gaps = [later - at for at, later in itertools.pairwise(moments)]
        assert max(gaps) < POLL + 1, table
        assert 20 <= len(moments) <= 22
    later_looks = [at for at, _ in catalog.looks if at > 60]
    each_second = [sum(math.floor(at) == second for at in later_looks) for second in range(61, 599)]
    assert max(each_second) < len(MANY) / 4


def test_a_fault_of_the_poller_itself_is_said_and_ends_no_watching(caplog: pytest.LogCaptureFixture) -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY[:3]})
    faults = itertools.chain([ZeroDivisionError("a fault")], itertools.repeat(None))
    with patch.object(OverdueAlarm, "check", side_effect=faults):
        watch(catalog, MANY[:3], 600)
    assert all(len(looks_at(catalog, table)) >= 19 for table in MANY[:3])
    assert "a fault" in caplog.text


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (SimulatedCatalog, "start"),
        (SimulatedCatalog, "reopen"),
        (OverdueAlarm, "say_failed"),
        (OverdueAlarm, "say_answered"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_fault_of_the_poller_in_a_look_is_said_and_its_table_is_looked_at_again(
    owner: type, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY[:3]}, outages=[(100.0, 200.0)])
    real, calls = getattr(owner, method), itertools.count()

    def faulty(*given: Any, **named: Any) -> object:
        if next(calls) < 5:
            # As a triggerer without free threads has it.
            raise RuntimeError("can't start new thread")
        return real(*given, **named)

    with patch.object(owner, method, faulty):
        watch(catalog, MANY[:3], 900)
    later_looks = {table: [at for at in looks_at(catalog, table) if at > 600] for table in MANY[:3]}
    assert [len(moments) >= 9 for moments in later_looks.values()] == [True] * 3
    assert "can't start new thread" in caplog.text


def test_metadata_is_loaded_only_when_it_changed() -> None:
    catalog = SimulatedCatalog({table: [100.0] for table in MANY})
    watch(catalog, MANY, 600)
    assert catalog.loaded == 2 * len(MANY)


def test_at_most_that_many_looks_run_at_once_also_while_all_hang() -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY}, hangs=[(100, 160)], latency=1)
    watch(catalog, MANY, 300)
    assert catalog.most_running == 4


def test_all_tables_are_looked_at_soon_after_a_catalog_that_hung() -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY}, hangs=[(100, 160)])
    watch(catalog, MANY, 300)
    for table in MANY:
        assert any(160 <= at < 165 or at < 100 < at + POLL for at in looks_at(catalog, table)), table
        assert [at for at in looks_at(catalog, table) if 159 < at < 192]


@pytest.mark.parametrize("hanging", [1, 5, 8])
def test_tables_that_hang_for_good_do_not_keep_others_from_being_looked_at(hanging: int) -> None:
    bad, good = MANY[:hanging], MANY[hanging:60]
    catalog = SimulatedCatalog(
        {table: [] for table in MANY}, hangs=[(100, 90_000)], hanging_tables=set(bad), latency=0.01
    )
    watch(catalog, bad + good, 4000)
    for table in good:
        moments = [at for at in looks_at(catalog, table) if at > 1000]
        assert max(later - at for at, later in itertools.pairwise(moments)) < POLL + 5
    assert catalog.most_running <= 4 + 8


def test_looks_that_hang_are_given_up_as_soon_as_the_catalog_answers_others() -> None:
    bad, good = MANY[:3], MANY[3:60]
    catalog = SimulatedCatalog({table: [] for table in MANY}, hangs=[(100, 90_000)], hanging_tables=set(bad))
    watch(catalog, bad + good, 400)
    for table in good:
        moments = [at for at in looks_at(catalog, table) if at > 160]
        assert max(later - at for at, later in itertools.pairwise(moments)) < POLL + 1
    assert not [table for at, table in catalog.looks if at > 160 and table in bad]


@pytest.mark.parametrize("lost", [1, 20])
def test_tables_that_a_catalog_has_lost_slow_down_no_other_and_are_asked_for_once_in_an_interval(
    lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY}, lost=set(MANY[7 :: len(MANY) // lost][:lost]))
    watch(catalog, MANY, 600)
    for table in MANY:
        gaps = [later - at for at, later in itertools.pairwise(looks_at(catalog, table))]
        assert max(gaps) < POLL + 2, table
    assert all(len(looks_at(catalog, table)) <= 23 for table in catalog.lost)
    # The connection is not read anew for them either.
    assert catalog.reopened <= 1
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) <= 2 * lost + 1


def test_a_catalog_that_is_down_is_probed_by_one_look_at_a_time() -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY}, outages=[(100, 1000)])
    watch(catalog, MANY, 1100)
    in_outage = [at for at, _ in catalog.looks if 101 < at < 1000]
    assert len(in_outage) < 45
    assert max(later - at for at, later in itertools.pairwise(in_outage)) < 31
    assert catalog.reopened > 10
    for table in MANY:
        assert [at for at in looks_at(catalog, table) if 1000 <= at < 1035], table


def alarms(caplog: pytest.LogCaptureFixture, level: str = "ERROR") -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == level]


@pytest.mark.parametrize(
    "faults", [{"outages": [(100, 400)]}, {"hangs": [(100, 400)]}], ids=["that fails", "that hangs"]
)
def test_a_catalog_raises_an_alarm_that_repeats_and_ends(
    faults: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    catalog = SimulatedCatalog({table: [] for table in MANY}, **faults)
    watch(catalog, MANY, 600)
    raised = alarms(caplog)
    assert len(raised) == 4 or len(raised) == 5
    assert "200 of 200 watched tables were not looked at for more than 2 poll intervals" in raised[1]
    assert len(alarms(caplog, "WARNING")) == 1
    assert "cannot look at the table" in alarms(caplog, "WARNING")[0]
    assert [said for said in alarms(caplog, "INFO") if "answers again" in said]
    assert [said for said in alarms(caplog, "INFO") if "all 200 watched tables are looked at again" in said]


def test_one_table_that_cannot_be_looked_at_raises_the_alarm_too(caplog: pytest.LogCaptureFixture) -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY[:9]}, hangs=[(100, 9000)], hanging_tables={MANY[3]})
    watch(catalog, MANY[:9], 600)
    assert "1 of 9 watched tables" in alarms(caplog)[0]
    assert MANY[3] in alarms(caplog)[0]
    assert len(alarms(caplog)) >= 5


def test_a_catalog_that_answers_raises_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    watch(SimulatedCatalog({table: [50.0] for table in MANY}), MANY, 2000)
    assert alarms(caplog) == alarms(caplog, "WARNING") == []


def test_metrics_say_how_old_the_oldest_look_is() -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY}, outages=[(100, 400)])
    sent: list[tuple[str, float]] = []

    def note(name: str, value: float, *, tags: dict[str, str]) -> None:
        assert tags == {"lake_conn_id": "lake"}
        sent.append((name, value))

    with patch("airflow_lake_provider.triggers.overdue_alarm.stats.gauge", note):
        watch(catalog, MANY, 600)
    assert 270 < max(value for name, value in sent if name == "lake.watch.oldest_look_seconds") < 335
    overdue = [value for name, value in sent if name == "lake.watch.overdue_tables"]
    assert (max(overdue), overdue[-1]) == (200, 0)


def with_subscription(
    catalog: SimulatedCatalog, check: Callable[[CatalogPoller, Subscription], Awaitable[None]]
) -> Coroutine[Any, Any, None]:
    async def run() -> None:
        poller = poller_of(catalog)
        await check(poller, poller.subscribe("shop.orders", "main", POLL))

    return run()


def test_a_trigger_that_comes_later_gets_the_head_at_once_and_of_its_own_branch() -> None:
    async def check(poller: CatalogPoller, first: Subscription) -> None:
        head = await first.next()
        assert isinstance(head, TableHead)
        assert await first.next(within=10) is None
        second = poller.subscribe("shop.orders", "audit", POLL)
        third = poller.subscribe("shop.orders", "main", POLL)
        assert await second.next(within=1) is not None
        assert await third.next(within=1) is not None

    run_virtually(with_subscription(SimulatedCatalog({"shop.orders": [0.0]}), check))


def test_a_trigger_that_comes_while_a_look_runs_is_served_too() -> None:
    async def check(poller: CatalogPoller, first: Subscription) -> None:
        await asyncio.sleep(2)
        late = poller.subscribe("shop.orders", "audit", POLL)
        assert await late.next(within=12) is not None
        assert await first.next(within=12) is not None

    run_virtually(with_subscription(SimulatedCatalog({"shop.orders": [0.0]}, latency=5), check))


def test_a_head_that_waits_is_not_replaced_by_an_error() -> None:
    async def check() -> None:
        subscription = Subscription("main", POLL)
        subscription.put(TableHead(head="7"))
        subscription.put(CatalogUnavailableError("away"))
        found = await subscription.next()
        assert found is not None
        assert found.head == "7"
        subscription.put(CatalogUnavailableError("away"))
        with pytest.raises(CatalogUnavailableError):
            await subscription.next()

    run_virtually(check())


def test_a_wrong_connection_is_told_to_the_triggers_of_all_tables_at_once() -> None:
    catalog = SimulatedCatalog({table: [] for table in MANY})

    async def refuse(*_: object) -> None:
        raise InvalidConnectionError("no such connection")

    async def run() -> None:
        poller = poller_of(catalog)
        subscriptions = [poller.subscribe(table, "main", POLL) for table in MANY]
        for subscription in subscriptions:
            with pytest.raises(InvalidConnectionError):
                await subscription.next(within=5)

    with patch.object(SimulatedCatalog, "_look", refuse):
        run_virtually(run())


def test_a_table_that_nobody_watches_any_more_is_not_looked_at() -> None:
    catalog = SimulatedCatalog({"shop.orders": []})

    async def check(poller: CatalogPoller, first: Subscription) -> None:
        await asyncio.sleep(100)
        poller.unsubscribe("shop.orders", first)
        catalog.looks.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 100)
        assert catalog.looks == []
        assert poller.is_idle
        again = poller.subscribe("shop.orders", "main", POLL)
        assert await again.next(within=1) is not None

    run_virtually(with_subscription(catalog, check))


def test_a_table_that_is_watched_anew_is_said_to_be_missing_anew(caplog: pytest.LogCaptureFixture) -> None:
    async def check(poller: CatalogPoller, first: Subscription) -> None:
        await asyncio.sleep(100)
        poller.unsubscribe("shop.orders", first)
        poller.subscribe("shop.orders", "main", POLL)
        await asyncio.sleep(100)

    run_virtually(with_subscription(SimulatedCatalog({}), check))
    assert caplog.text.count("table shop.orders does not exist yet; waiting for it") == 2

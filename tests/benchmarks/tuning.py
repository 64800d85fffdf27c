"""Thirty days of simulated tables under the planner, with the fixed defaults and with tuned ones.

Each kind of table is drawn from ranges, by seeds that are printed. What is compared is read debt times rewritten bytes:
the mean over time of the files that one scan opens in vain (:attr:`.SimulatedTable.read_debt`), and the bytes of data
files that compactions write anew. A ratio is ours over the defaults, so less is better.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from statistics import geometric_mean
from typing import Any

from airflow_lake_provider.iceberg.compaction_rules import DEFAULT_TARGET_BYTES
from airflow_lake_provider.maintenance.health import health_of
from airflow_lake_provider.maintenance.planner import plan_of
from airflow_lake_provider.maintenance.policy import dag_layer, merge
from airflow_lake_provider.maintenance.tuning import tuned_policy
from tests.benchmarks.simulated_table import MIB, Commit, SimulatedTable, initial, sizes_of

BEGIN, DAYS = datetime(2026, 10, 1, tzinfo=UTC), 30
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
Change = Callable[[SimulatedTable, datetime], Commit]
Kind = Callable[[random.Random], tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]]


def _between(rng: random.Random, low: float, high: float) -> float:
    """Return a number whose logarithm is drawn evenly."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _sizes(rng: random.Random, files: int, mean: float) -> list[int]:
    return [round(mean * rng.uniform(0.5, 1.5)) for _ in range(files)]


def hourly_trickle(rng: random.Random) -> tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]:
    """A few small files each hour, in no partition."""
    table, files, mean = SimulatedTable("shop.trickle"), rng.randint(1, 4), _between(rng, 0.25, 8) * MIB
    initial(table, BEGIN, [("", round(_between(rng, 100, 400) * MIB)) for _ in range(rng.randint(1, 12))])

    def change(_: SimulatedTable, at: datetime) -> Commit:
        return Commit(at=at, added={"": _sizes(rng, files, mean)})

    return table, ((BEGIN + hour * _HOUR, change) for hour in range(1, 24 * DAYS))


def upserts(rng: random.Random) -> tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]:
    """Changes each hour: new versions of rows in small files, and vectors on the files of the old ones."""
    table, mean = SimulatedTable("shop.upserts"), _between(rng, 0.5, 8) * MIB
    initial(table, BEGIN, [("", round(_between(rng, 400, 512) * MIB)) for _ in range(rng.randint(2, 40))])
    share, rows = rng.uniform(0.2, 1), _between(rng, 50, 2_000)

    def change(table: SimulatedTable, at: datetime) -> Commit:
        paths = list(table.files)
        deleted = {path: rng.randint(1, round(2 * rows)) for path in rng.sample(paths, math.ceil(share * len(paths)))}
        return Commit(at=at, added={"": _sizes(rng, 2, mean)}, deleted=deleted)

    return table, ((BEGIN + hour * _HOUR, change) for hour in range(1, 24 * DAYS))


def nightly_bulk(rng: random.Random) -> tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]:
    """A partition of many small files each night."""
    table = SimulatedTable("shop.bulk", is_partitioned=True)
    files, mean = rng.randint(16, 200), _between(rng, 4, 64) * MIB
    merged, days = sizes_of(round(files * mean), DEFAULT_TARGET_BYTES), range(rng.randint(30, 365))
    initial(table, BEGIN, [(f"day={day}", size) for day in days for size in merged])

    def change(_: SimulatedTable, at: datetime) -> Commit:
        return Commit(at=at, added={f"day={at:%Y-%m-%d}": _sizes(rng, files, mean)})

    return table, ((BEGIN + day * _DAY + _HOUR, change) for day in range(DAYS))


def hot_partition(rng: random.Random) -> tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]:
    """Small files each quarter of an hour in the partition of today, beside a cold history."""
    table = SimulatedTable("shop.hot", is_partitioned=True)
    files, mean = rng.randint(1, 3), _between(rng, 1, 8) * MIB
    initial(table, BEGIN, [(f"day={day}", 450 * MIB) for day in range(rng.randint(60, 730)) for _ in "ab"])

    def change(_: SimulatedTable, at: datetime) -> Commit:
        return Commit(at=at, added={f"day={at:%Y-%m-%d}": _sizes(rng, files, mean)})

    return table, ((BEGIN + number * _HOUR / 4, change) for number in range(1, 96 * DAYS))


def bursts(rng: random.Random) -> tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]:
    """Some days with many commits, and none in between."""
    table, mean = SimulatedTable("shop.bursts"), _between(rng, 1, 16) * MIB
    initial(table, BEGIN, [("", round(_between(rng, 200, 512) * MIB)) for _ in range(rng.randint(1, 12))])
    days, commits = sorted(rng.sample(range(1, DAYS), rng.randint(3, 8))), rng.randint(10, 80)

    def change(_: SimulatedTable, at: datetime) -> Commit:
        return Commit(at=at, added={"": _sizes(rng, 1, mean)})

    minutes = timedelta(minutes=3)
    return table, ((BEGIN + day * _DAY + 6 * _HOUR + n * minutes, change) for day in days for n in range(commits))


def late_rows(rng: random.Random) -> tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]:
    """Small files each second hour in the partition of today, and in some of the last month."""
    table, late, mean = SimulatedTable("shop.late", is_partitioned=True), rng.randint(1, 4), _between(rng, 1, 16) * MIB
    initial(table, BEGIN, [(f"day={BEGIN - day * _DAY:%Y-%m-%d}", 400 * MIB) for day in range(1, rng.randint(60, 400))])

    def change(_: SimulatedTable, at: datetime) -> Commit:
        days = [0, *(rng.randint(1, 30) for _ in range(late))]
        return Commit(at=at, added={f"day={at - day * _DAY:%Y-%m-%d}": _sizes(rng, 2, mean) for day in days})

    return table, ((BEGIN + 2 * hour * _HOUR, change) for hour in range(1, 12 * DAYS))


def corrections(rng: random.Random) -> tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]:
    """A table of version 2: small files each third hour, and position deletes once a day."""
    table, mean = SimulatedTable("shop.corrections", version=2), _between(rng, 0.5, 16) * MIB
    initial(table, BEGIN, [("", round(_between(rng, 100, 512) * MIB)) for _ in range(rng.randint(1, 20))])

    def change(table: SimulatedTable, at: datetime) -> Commit:
        paths = rng.sample(list(table.files), math.ceil(len(table.files) / 10)) if at.hour == 0 else []
        return Commit(at=at, added={"": _sizes(rng, 2, mean)}, deleted={path: rng.randint(1, 5_000) for path in paths})

    return table, ((BEGIN + 3 * hour * _HOUR, change) for hour in range(1, 8 * DAYS))


def partitions_by_hour(rng: random.Random) -> tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]:
    """Small files each ten minutes in the partition of this hour."""
    table, mean = SimulatedTable("shop.hours", is_partitioned=True), _between(rng, 0.5, 16) * MIB
    hours = range(1, 24 * rng.randint(3, 30))
    initial(table, BEGIN, [(f"hour={BEGIN - n * _HOUR:%Y-%m-%d-%H}", round(12 * mean)) for n in hours])

    def change(_: SimulatedTable, at: datetime) -> Commit:
        return Commit(at=at, added={f"hour={at:%Y-%m-%d-%H}": _sizes(rng, 2, mean)})

    return table, ((BEGIN + number * _HOUR / 6, change) for number in range(1, 144 * DAYS))


def two_speeds(rng: random.Random) -> tuple[SimulatedTable, Iterator[tuple[datetime, Change]]]:
    """Large files each night and small ones each hour, in no partition."""
    table, mean = SimulatedTable("shop.speeds"), _between(rng, 0.5, 8) * MIB
    initial(table, BEGIN, [("", 480 * MIB) for _ in range(rng.randint(4, 200))])

    def change(_: SimulatedTable, at: datetime) -> Commit:
        nightly = [450 * MIB] * 3 if at.hour == 1 else []
        return Commit(at=at, added={"": nightly or _sizes(rng, 2, mean)})

    return table, ((BEGIN + hour * _HOUR, change) for hour in range(1, 24 * DAYS))


KINDS: tuple[Kind, ...] = (hourly_trickle, upserts, nightly_bulk, hot_partition, bursts)
# Made after the constants of the package were chosen.
HELD_OUT: tuple[Kind, ...] = (late_rows, corrections, partitions_by_hour, two_speeds)


@dataclass(frozen=True, kw_only=True)
class Month:
    """What thirty days came to.

    :param debt: mean of the read debt.
    :param rewritten: bytes.
    :param compactions: that were carried out.
    :param expiries: likewise.
    :param tuned: values at the end.
    """

    debt: float
    rewritten: int
    compactions: int
    expiries: int
    tuned: dict[str, Any]


def month(kind: Kind, seed: int, every: timedelta, *, is_tuned: bool) -> Month:
    """Return what thirty days of a table come to.

    :param every: how often it is planned, from 02:30 on.
    """
    table, commits = kind(random.Random(seed))
    events: list[tuple[datetime, Change | None]] = [*commits]
    plans = round(DAYS * _DAY / every)
    events += [(BEGIN + timedelta(hours=2, minutes=30) + number * every, None) for number in range(plans)]
    debt, rewritten, at, owed = 0.0, 0, BEGIN, table.read_debt
    actions: list[str] = []
    tuned: dict[str, Any] = {}
    for moment, change in sorted(events, key=lambda each: each[0]):
        debt, at = debt + owed * ((moment - at) / _DAY), moment
        if change is not None:
            table.commit(change(table, moment))
        else:
            tasks, tuned = _tasks(table, moment, is_tuned=is_tuned)
            rewritten += sum(table.carry_out(task, moment) for task in tasks)
            actions += [task["action"] for task in tasks]
        owed = table.read_debt
    debt += owed * ((BEGIN + DAYS * _DAY - at) / _DAY)
    return Month(
        debt=debt / DAYS,
        rewritten=rewritten,
        compactions=actions.count("compaction"),
        expiries=actions.count("snapshot-expiry"),
        tuned=tuned,
    )


def _tasks(table: SimulatedTable, now: datetime, *, is_tuned: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the tasks of a plan, and the tuned values by which it was made."""
    layers = [dag_layer({"tuning": {"enabled": is_tuned}})]
    merged = tuned_policy(merge(table.facts.name, layers), layers, table, now)
    assert merged.policy is not None
    plan = plan_of(health_of(table, now, merged.limits), merged.policy, now)
    return plan.tasks, {each.key: each.value for each in merged.values if each.layer.value == "tuned"}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A kind of table, ours over the fixed defaults; geometric means over its seeds.

    :param product: of debt and bytes.
    :param worst: product of the worst seed.
    """

    kind: str
    debt: float
    rewritten: float
    product: float
    worst: float
    compactions: float
    tuned: list[str]


def compared(kind: Kind, seeds: Sequence[int], every: timedelta) -> Compared:
    """Return what tuning makes of a kind of table."""
    months = [[month(kind, seed, every, is_tuned=is_tuned) for is_tuned in (False, True)] for seed in seeds]
    debts = [ours.debt / fixed.debt for fixed, ours in months]
    # Where nothing is rewritten on both sides, nothing differs.
    sizes = [(ours.rewritten + 1) / (fixed.rewritten + 1) for fixed, ours in months]
    products = [debt * size for debt, size in zip(debts, sizes, strict=True)]
    return Compared(
        kind=kind.__name__,
        debt=round(geometric_mean(debts), 3),
        rewritten=round(geometric_mean(sizes), 3),
        product=round(geometric_mean(products), 3),
        worst=round(max(products), 3),
        compactions=round(
            sum(ours.compactions for _, ours in months) / sum(fixed.compactions for fixed, _ in months), 3
        ),
        tuned=sorted({key for _, ours in months for key in ours.tuned if key.startswith("compaction.")}),
    )


def main() -> None:
    """Print a line for each kind, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=float, default=24, help="hours between two plans")
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(1, 11)])
    asked = parser.parse_args()
    every, ratios = timedelta(hours=asked.every), {}
    print(f"a plan each {asked.every:g} hours, seeds {asked.seeds}")
    for name, kinds in (("tuning", KINDS), ("tuning_held_out", HELD_OUT)):
        lines = [compared(kind, asked.seeds, every) for kind in kinds]
        for each in lines:
            print(json.dumps(asdict(each)), flush=True)
        ratios[name] = round(geometric_mean(each.product for each in lines), 3)
        ratios[f"{name}_worst_kind"] = max(each.product for each in lines)
    print(json.dumps({"ratios": ratios}))


if __name__ == "__main__":
    main()

"""Some of the races of ``scripts/soak``, with a fixed seed: real drivers at once on one table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.soak.appends import OtherWriter, append_by_pyiceberg, append_by_spark, upsert_beside
from tests.soak.driver import Driver
from tests.soak.lake import NAMESPACE, Lake
from tests.soak.races import race

pytestmark = pytest.mark.in_every_part


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake.at(tmp_path_factory.mktemp("races") / "lake")


@pytest.fixture(scope="module")
def drivers(lake: Lake) -> Iterator[list[Driver]]:
    """Two drivers only, of which the second also maintains: a third would cost its start and one core too many."""
    with ExitStack() as started:
        yield [started.enter_context(Driver(lake, name)) for name in ("driver 1", "driver 2")]


def test_every_key_equals_a_serial_order_of_the_accepted_batches(lake: Lake, drivers: list[Driver]) -> None:
    print(race(lake, drivers, rounds=6, seed=30, per_table=3))


@pytest.mark.parametrize("version", ["2", "3"])
def test_every_batch_commits_beside_a_steady_writer(lake: Lake, drivers: list[Driver], version: str) -> None:
    table = f"{NAMESPACE}.appended_v{version}"
    append = append_by_pyiceberg(lake, table) if version == "2" else append_by_spark(drivers[1], table)
    print(upsert_beside(lake, drivers[0], OtherWriter(append, every=2.0), table, version, seconds=6.0))

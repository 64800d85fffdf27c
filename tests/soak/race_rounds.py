"""Draw the specs of one round's drivers at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Protocol

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns, SchemaContract
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec, SnapshotExpirySpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.soak.batches import Batch, Inbox, random_changes
from tests.soak.lake import CATALOG, Head, Lake


class RacedTable(Protocol):
    """Facts about a table from which a round is drawn."""

    lake: Lake
    table: str
    layout: TableLayout
    inboxes: dict[str, Inbox]
    history: list[Head]


@dataclass(frozen=True)
class Asked:
    """One upsert of a round.

    :param inbox: name of its source.
    """

    spec: UpsertSpec
    batch: Batch
    inbox: str


def draw_upserts(table: RacedTable, random: Random, number: int) -> list[Asked]:
    """Draw two upserts that run at once: of two sources, or two runs of one source, or two drivers of one run."""
    kind = random.choices(["two sources", "one source", "one run"], [8, 1, 1])[0]
    if kind == "two sources":
        return [_draw_upsert(table, random, number, f"source-{which}", f"run {number}.{which}") for which in (1, 2)]
    first = _draw_upsert(table, random, number, "shared", f"run {number}")
    if kind == "one run":
        return [first, first]
    other: dict[str, Any] = {**vars(first.spec), "run": RunIdentity.of("dag", f"other run {number}", "task", "-1")}
    return [first, Asked(UpsertSpec(**other), first.batch, first.inbox)]


def _draw_upsert(table: RacedTable, random: Random, number: int, source: str, run: str) -> Asked:
    folder = table.lake.home / "inbox" / table.table / source
    inbox = table.inboxes.setdefault(source, Inbox(folder))
    name = f"{source}-{number:04}"
    # The sources' numbers differ, so that a value tells one change of the whole soak.
    inbox.arrive(name, random_changes(random, name, 10 * number + len(table.inboxes)))
    # The first batch of a table makes its columns.
    keeps = random.random() < 0.25 and bool(table.history)
    missing, excluded = (MissingColumns.KEEP, ("op", "n")) if keeps else (MissingColumns.FAIL, ("op",))
    strategies = [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.AUTO, UpsertStrategy.MERGE]
    arguments: Mapping[str, Any] = {
        "catalog": CATALOG,
        "table": table.table,
        "run": RunIdentity.of("dag", run, "task", "-1"),
        "source": inbox.source(),
        "keys": ("id",),
        "delete_when": "op = 'd'",
        "schema_contract": SchemaContract(missing_columns=missing, exclude_columns=excluded),
        "create": table.layout,
        "strategy": random.choices(strategies, [5, 2, 2, 1])[0],
        # With one attempt some batches are refused, and come again with the next.
        "max_attempts": random.choice([1, 5, 5]),
    }
    return Asked(UpsertSpec(**arguments), Batch(tuple(inbox.waiting), keeps), source)


def draw_maintenance(table: RacedTable, random: Random, number: int) -> JobSpec | None:
    """Draw a compaction or an expiry for every other round."""
    what = random.choice(["nothing", "nothing", "compaction", "expiry"])
    if what == "nothing" or not table.history:
        return None
    job: dict[str, Any] = {
        "catalog": CATALOG,
        "table": table.table,
        "run": RunIdentity.of("maintenance", str(number), "task"),
    }
    if what == "compaction":
        level = random.choice([CompactionLevel.MAJOR, CompactionLevel.FULL])
        return CompactionSpec(**job, level=level, min_input_files=2)
    now = datetime.now(UTC)
    # A stage branch may be that of a merge that is running.
    branches = now - timedelta(days=1)
    return SnapshotExpirySpec(
        **job, expire_before=now, expire_stage_branches_before=branches, retain_last=random.choice([1, 1, 3])
    )

"""Kinds of tables that ``scripts/soak faults`` works on, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.maintenance_policy import (
    CompactionLevel,
    CompactionRunner,
    CompactionStrategy,
    Verification,
)
from airflow_lake_provider.contracts.author.merge_engines import Aggregation, FirstRow, PartialUpdate
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from tests.soak.fault_tables import (
    Appends,
    FaultTable,
    IncrementalRuns,
    Overwrites,
    RowChanges,
    RunSql,
    Upserts,
    Versions,
    Wholes,
)
from tests.soak.lake import NAMESPACE, Lake
from tests.soak.maintained_fault_tables import (
    BUCKETS,
    Compactions,
    Expiries,
    ManifestRewrites,
    OrphanRemovals,
    Purges,
    RowExpiries,
    Statistics,
    Tags,
)


def _upserts(strategy: UpsertStrategy = UpsertStrategy.AUTO, version: int = 3, *terms: str, **arguments: Any) -> Any:
    return partial(Upserts, version=version, partition_by=terms, arguments={"strategy": strategy, **arguments})


_BY_ARROW = {"runner": CompactionRunner.ARROW}
_POSITIVE = Audits(queries={"no negative id": "SELECT * FROM audited WHERE id < 0"})
# Makes the table of (lake, name, sql, random). CI plays about the first twenty.
KINDS: dict[str, Callable[[Lake, str, RunSql, Random], FaultTable]] = {
    "upsert by position": _upserts(UpsertStrategy.POSITIONS),
    "upsert by copy": _upserts(UpsertStrategy.COPY_ON_WRITE, 2, "bucket(2, id)"),
    "upsert by merge": _upserts(UpsertStrategy.MERGE),
    "upsert by equality": _upserts(UpsertStrategy.EQUALITY, 2),
    "append": partial(Appends, partition_by=("bucket(2, id)",)),
    "append of what is new": partial(
        Appends, version=2, arguments={"deduplicate_by": ("id",), "deduplicate_against": "P1D"}
    ),
    "audited append": partial(Appends, arguments={"audits": _POSITIVE}),
    "overwrite": partial(Overwrites, version=2),
    "overwrite with keys": partial(Overwrites, arguments={"keys": ("id",)}),
    "audited overwrite": partial(Overwrites, arguments={"audits": _POSITIVE}),
    "delete rows": RowChanges,
    "incremental": IncrementalRuns,
    "compaction by Arrow": partial(Compactions, partition=BUCKETS, arguments=_BY_ARROW),
    "expiry": Expiries,
    "orphan files": OrphanRemovals,
    "purge of the quarantine": Purges,
    "audited upsert": _upserts(UpsertStrategy.POSITIONS, audits=_POSITIVE),
    "audited upsert by copy": _upserts(UpsertStrategy.COPY_ON_WRITE, audits=_POSITIVE),
    "upsert of format version 2": _upserts(UpsertStrategy.POSITIONS, 2, "bucket(2, id)"),
    "aggregation": _upserts(merge_engine=Aggregation({"n": "sum"})),
    "first row": _upserts(merge_engine=FirstRow()),
    "partial update": _upserts(merge_engine=PartialUpdate()),
    "update rows": partial(RowChanges, deletes=False),
    "update rows of format version 2": partial(RowChanges, version=2, deletes=False),
    "rewrite of manifests": ManifestRewrites,
    "statistics": Statistics,
    "row expiry": RowExpiries,
    "row expiry of format version 2": partial(RowExpiries, version=2, partition=BUCKETS),
    "full compaction of format version 2": partial(
        Compactions, version=2, level=CompactionLevel.FULL, arguments=_BY_ARROW
    ),
    "compaction in waves": partial(
        Compactions,
        partition="PARTITIONED BY (bucket(8, id))",
        level=CompactionLevel.FULL,
        # All that is below the target size would be one commit.
        arguments={**_BY_ARROW, "target_file_size": 500},
    ),
    "compaction": partial(Compactions, partition=BUCKETS, arguments={"runner": CompactionRunner.SPARK}),
    "verified compaction of a part": partial(
        Compactions, partition=BUCKETS, arguments={"where": "id >= 0", "verify": Verification.ROWS, **_BY_ARROW}
    ),
    "hilbert": partial(Compactions, version=2, level=CompactionLevel.FULL, curve=CompactionStrategy.HILBERT),
    "z-order": partial(Compactions, level=CompactionLevel.FULL, curve=CompactionStrategy.ZORDER),
    "tags": Tags,
    "whole tables": Wholes,
    "whole tables of format version 2": partial(Wholes, version=2),
    "history": Versions,
    "history by copy": partial(Versions, arguments={"strategy": UpsertStrategy.COPY_ON_WRITE}),
}


def made(kind: str, lake: Lake, name: str, sql: RunSql, random: Random) -> FaultTable:
    """Return a table of a kind; nothing is made in the catalog before its first step."""
    return KINDS[kind](lake, f"{NAMESPACE}.{name}", sql, random)

"""A source that is the whole table beside two ``MERGE`` statements of all of it, of which few rows differ.

One statement updates every row that matches, the other compares all columns first. Each side plays over the same
snapshot each time: the table is rolled back behind it. A ratio is the peer's time over ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress

if TYPE_CHECKING:
    from tests.benchmarks.loads import Loads

# One row in so many differs between two deliveries.
CHANGED_EVERY = 100
# Beside the five of other loads: a dimension or an export has some twenty.
MORE_COLUMNS = 15
# Of so many rows one is compared behind the first round: to compare all of them takes longer than the load.
COMPARED_EVERY = 97
# A MERGE that replaces all rows is quicker when it writes files anew, one that replaces few when it leaves deletes.
MODES = {"merge": "copy-on-write", "careful_merge": "merge-on-read", "complete": "merge-on-read"}
_AMOUNT = "cast(xxhash64(id, 2) % 1000 AS INT)"
_RUNS = count()


@dataclass
class WholeLoads:
    """Two deliveries of one table, and a table with the first of them for each side."""

    loads: Loads

    def __post_init__(self) -> None:
        first = self.loads.files("first", "id % 10", _AMOUNT, MORE_COLUMNS)
        changed = f"CASE WHEN xxhash64(id, 3) % {CHANGED_EVERY} = 0 THEN {_AMOUNT} + 1 ELSE {_AMOUNT} END"
        self.second = self.loads.files("second", "id % 10", changed, MORE_COLUMNS)
        self.tables = {side: self._loaded(first, mode) for side, mode in MODES.items()}

    def _loaded(self, path: str, mode: str) -> str:
        spark, table = self.loads.spark, self.loads.table(path, ())
        spark.sql(f"ALTER TABLE lake.{table} SET TBLPROPERTIES ('write.merge.mode' = '{mode}')")
        spark.read.parquet(path).writeTo(f"lake.{table}").append()
        return table

    def complete(self) -> None:
        """Load by ours."""
        spec = UpsertSpec(
            catalog="lake",
            table=self.tables["complete"],
            run=RunIdentity.of("bench", str(next(_RUNS)), "t", "-1"),
            source=Files(self.second, name="in"),
            keys=("id",),
            is_complete=True,
            # A table that was rolled back has a position of before.
            on_repeat=OnRepeat.APPLY,
        )
        upsert_batch(self.loads.spark, spec, Progress())

    def merge(self, side: str) -> None:
        """Load by the statement that a user writes."""
        rows = self.loads.spark.read.parquet(self.second)
        rows.createOrReplaceTempView("whole")
        values = [name for name in rows.columns if name != "id"]
        differs = " OR ".join(f"t.{name} IS DISTINCT FROM s.{name}" for name in values)
        only = f"AND ({differs})" if side == "careful_merge" else ""
        self.loads.spark.sql(
            f"MERGE INTO lake.{self.tables[side]} t USING whole s ON t.id = s.id WHEN MATCHED {only} THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
        )


def compare_whole(loads: Loads, repeats: int, timed: Callable[[Callable[[], Any]], float]) -> dict[str, Any]:
    """Load by each side in turn, and return seconds and ratios."""
    whole, spark = WholeLoads(loads), loads.spark
    heads = {
        side: spark.sql(f"SELECT snapshot_id FROM lake.{table}.snapshots").collect()[0][0]
        for side, table in whole.tables.items()
    }
    sides: dict[str, Callable[[], None]] = {
        "merge": lambda: whole.merge("merge"),
        "careful_merge": lambda: whole.merge("careful_merge"),
        "complete": whole.complete,
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(repeats + 1):
        for name, side in sides.items():
            took, table = timed(side), whole.tables[name]
            # The first of each warms up, and is alone without repeats.
            seconds[name] += [took] if number or not repeats else []
            if not number:
                some = f"id % {COMPARED_EVERY} = 0"
                wanted, loaded = (
                    spark.read.parquet(whole.second).filter(some),
                    spark.table(f"lake.{table}").filter(some),
                )
                assert wanted.exceptAll(loaded).isEmpty(), f"{name} left rows of before"
            spark.sql(f"CALL lake.system.rollback_to_snapshot('{table}', {heads[name]})")
    middle = {name: median(times) for name, times in seconds.items()}
    return {
        "settings": {
            "columns": 5 + MORE_COLUMNS,
            "changed rows": f"1 of {CHANGED_EVERY}",
            **{f"{side}: write.merge.mode": mode for side, mode in MODES.items()},
        },
        "seconds": {name: [round(each, 2) for each in times] for name, times in seconds.items()},
        "ratios": {
            f"complete_vs_{name}": round(middle[name] / middle["complete"], 3) for name in ("merge", "careful_merge")
        },
    }

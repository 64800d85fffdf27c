"""A history of a dimension beside the ``MERGE`` of two branches that users write: to end a version, and to begin one.

The peer puts each changed row into its source twice, once without a key, so that it is inserted. Each side plays over
the same snapshot each time: the table is rolled back behind it. The ratio is the peer's time over ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import History
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress

if TYPE_CHECKING:
    from tests.benchmarks.loads import Loads

CHANGES, NEW_EVERY = 50_000, 50
_RUNS = count()


@dataclass
class HistoryLoads:
    """A table in which every key has one version, for each side, and rows of which most change one of them."""

    loads: Loads

    def __post_init__(self) -> None:
        path, spark = self.loads.files("versions", "id % 10"), self.loads.spark
        rows = spark.read.parquet(path)
        every = max(1, self.loads.rows // CHANGES)
        changed = rows.filter(f"xxhash64(id, 3) % {every} = 0").selectExpr(
            f"IF(xxhash64(id, 4) % {NEW_EVERY} = 0, id + {self.loads.rows}, id) AS id",
            "at + INTERVAL 90 DAYS AS at",
            "name",
            "score",
            "amount + 1 AS amount",
        )
        self.changes = f"{self.loads.home}/in/changes"
        changed.coalesce(2).write.parquet(self.changes)
        versions = rows.withColumns(
            {"valid_from": sf.col("at"), "valid_to": sf.lit(None).cast("timestamp"), "is_current": sf.lit(True)}
        )
        self.tables = {}
        for side in ("merge", "history"):
            table = f"bench.history_of_{side}"
            versions.writeTo(f"lake.{table}").using("iceberg").tableProperty("format-version", "3").tableProperty(
                "write.merge.mode", "merge-on-read"
            ).create()
            self.tables[side] = table

    def history(self) -> None:
        """Load by ours."""
        spec = UpsertSpec(
            catalog="lake",
            table=self.tables["history"],
            run=RunIdentity.of("bench", str(next(_RUNS)), "t", "-1"),
            source=Files(f"{self.changes}/*.parquet", name="in"),
            keys=("id",),
            order_by=("at",),
            merge_engine=History(),
            # A table that was rolled back has a position of before.
            on_repeat=OnRepeat.APPLY,
        )
        upsert_batch(self.loads.spark, spec, Progress())

    def merge(self) -> None:
        """Load by the statement that a user writes."""
        spark, table = self.loads.spark, self.tables["merge"]
        spark.read.parquet(self.changes).createOrReplaceTempView("changes")
        differs = " OR ".join(f"t.{name} IS DISTINCT FROM s.{name}" for name in ("name", "score", "amount"))
        spark.sql(
            f"""
            MERGE INTO lake.{table} t USING (
                SELECT id AS merge_key, * FROM changes
                UNION ALL
                SELECT NULL AS merge_key, s.* FROM changes s JOIN lake.{table} t ON s.id = t.id
                WHERE t.is_current AND ({differs})
            ) s ON t.id = s.merge_key AND t.is_current
            WHEN MATCHED AND ({differs}) THEN UPDATE SET valid_to = s.at, is_current = false
            WHEN NOT MATCHED THEN INSERT (id, at, name, score, amount, valid_from, valid_to, is_current)
                VALUES (s.id, s.at, s.name, s.score, s.amount, s.at, NULL, true)
            """
        )


def compare_histories(loads: Loads, repeats: int, timed: Callable[[Callable[[], Any]], float]) -> dict[str, Any]:
    """Load by each side in turn, and return seconds and the ratio."""
    histories, spark = HistoryLoads(loads), loads.spark
    heads = {
        side: spark.sql(f"SELECT snapshot_id FROM lake.{table}.snapshots").collect()[0][0]
        for side, table in histories.tables.items()
    }
    sides: dict[str, Callable[[], None]] = {"merge": histories.merge, "history": histories.history}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(repeats + 1):
        for name, side in sides.items():
            # The first of each warms up.
            seconds[name] += [timed(side)][: 1 if number else 0]
        if not number:
            merged, ours = (spark.table(f"lake.{histories.tables[name]}") for name in sides)
            assert merged.exceptAll(ours).isEmpty(), "both sides have to leave the same rows"
            assert merged.count() == ours.count()
        for name, table in histories.tables.items():
            spark.sql(f"CALL lake.system.rollback_to_snapshot('{table}', {heads[name]})")
    middle = {name: median(times) for name, times in seconds.items()}
    return {
        "settings": {"changes": CHANGES, "both sides: write.merge.mode": "merge-on-read"},
        "seconds": {name: [round(each, 2) for each in times] for name, times in seconds.items()},
        "ratios": {"history_vs_merge": round(middle["merge"] / middle["history"], 3)},
    }

"""Build and check the tables of the cold upserts, each in an application of its own, so that no session stays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tests.benchmarks.upsert_floor import Floor, measure_floor
from tests.benchmarks.upsert_tables import Bench

REPOSITORY = Path(__file__).resolve().parents[2]
# Text of an application that calls a function of this file.
APPLICATION = "import sys\nfrom tests.benchmarks import cold_tables\ncold_tables.{function}(*sys.argv[1:])\n"


@dataclass(frozen=True, kw_only=True)
class ColdTables:
    """Two tables with the same rows, and the batches that arrive for both.

    :param batches: folder of each round's batch; the first round is not counted.
    """

    rows: int
    batch: int
    ours: str
    bare: str
    batches: Sequence[str]

    @classmethod
    def of_file(cls, file: Path) -> ColdTables:
        """Read what :func:`build` has left."""
        return cls(**json.loads(file.read_text()))


@dataclass(frozen=True, kw_only=True)
class ColdCheck:
    """Findings in both tables after the last round.

    :param contents: count and checksum, by table.
    :param expected_rows: those at first, and each new key of the batches.
    """

    contents: Mapping[str, Sequence[int]]
    expected_rows: int
    floor: Floor

    @classmethod
    def of_file(cls, file: Path) -> ColdCheck:
        """Read what :func:`check` has left."""
        plain = json.loads(file.read_text())
        return cls(**{**plain, "floor": Floor.of_plain(plain["floor"])})

    def wrong(self) -> str | None:
        """Return in which way a table is wrong; None when both are right."""
        if len({tuple(contents) for contents in self.contents.values()}) > 1:
            return f"the tables differ: {self.contents}"
        rows = {name: contents[0] for name, contents in self.contents.items()}
        if set(rows.values()) != {self.expected_rows}:
            return f"the tables have {rows} rows, and {self.expected_rows} were expected"
        return None


def build(home: str, rows: str, batch: str, rounds: str, file: str) -> None:
    """Fill both tables, and write the batches of all rounds.

    :param file: takes a :class:`ColdTables`.
    """
    spark = SparkSession.builder.getOrCreate()
    bench = Bench(spark, Path(home), int(rows), int(batch))
    ours, bare = (bench.iceberg_table(name, "merge-on-read") for name in ("ours", "bare"))
    batches = [bench.arrive(clustered=False) for _ in range(int(rounds) + 1)]
    tables = ColdTables(rows=int(rows), batch=int(batch), ours=ours, bare=bare, batches=batches)
    Path(file).write_text(json.dumps(asdict(tables)))
    spark.stop()


def check(home: str, tables: str, file: str) -> None:
    """Measure the floor, cold like the upserts, and read both tables.

    :param tables: file of :func:`build`.
    :param file: takes a :class:`ColdCheck`.
    """
    spark = SparkSession.builder.getOrCreate()
    built = ColdTables.of_file(Path(tables))
    floor = measure_floor(spark, built.ours, built.batches[-1], Path(home), rounds=1, warm_up=0)
    bench = Bench(spark, Path(home), built.rows, built.batch)
    contents = {table: bench.contents(table) for table in (built.ours, built.bare)}
    batches = spark.read.parquet(*built.batches)
    new = batches.where(f"id >= {built.rows}").select("id").distinct().count()
    result = ColdCheck(contents=contents, expected_rows=built.rows + new, floor=floor)
    Path(file).write_text(json.dumps(asdict(result)))
    spark.stop()

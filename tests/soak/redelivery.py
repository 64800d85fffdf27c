"""A real change stream cut at random, its pieces delivered again, late and renamed, against the server's rows.

Each table ends as its server held it, by each way to know the order of its events. A batch that is refused because half
of a key change is on its way is tried again with more files: nothing may be lost.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.event_marks import EventOrdering
from airflow_lake_provider.contracts.applied.position_column import POSITION_COLUMN
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.sources import Debezium
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.reports.job import UpsertReport
from airflow_lake_provider.contracts.specs.load import OnRepeat
from airflow_lake_provider.spark_jobs.session.open_session import open_session
from tests.soak.driver import session_environment
from tests.soak.event_log import EventLog
from tests.soak.lake import Lake
from tests.soak.shop_tables import TABLES, Captured
from tests.soak.tiny_batches import planned_for_tiny_batches
from tests.spark.upsert_flow import Flow

# Ways that are known to the soak: the order of a partition told by its records or by names of files, that of a stream,
# and none, where lines come late and shuffled.
WAYS = ("records", "names", "stream", "key")
# What a half key change is refused with.
_HALF = ("values are not in the events", "late events are of rows whose key", "keys were used again before")
_ORDERINGS = {"stream": EventOrdering.STREAM, "key": EventOrdering.KEY}


@dataclass
class Deliveries:
    """One table that one stream is delivered to.

    :param way: of ``WAYS``.
    """

    captured: Captured
    way: str
    flow: Flow
    log: EventLog
    random: Random
    counts: Counter[str]
    pieces: list[tuple[int, range]] = field(default_factory=list)
    late: list[tuple[int, list[int]]] = field(default_factory=list)
    files: int = 0

    def deliver(self, left: int) -> None:
        """Deliver some pieces and something old, and apply what is there.

        :param left: deliveries that are still to come; all of the log is delivered by then.
        """
        for number, part in enumerate(self.log.partitions):
            rest = len(part) - self.log.delivered[number]
            # A partition may be behind for some deliveries.
            if rest and (not left or self.random.random() < 0.7):
                length = rest if not left else self.random.randint(1, max(1, 2 * rest // (left + 1)))
                piece = self.log.next_piece(number, length)
                self._write_now_or_late(number, piece, left)
                self.pieces.append((number, piece))
        if not self.pieces:
            return
        if not left or self.random.random() < 0.7:
            self._deliver_again()
        if not left:
            for number, offsets in self.late:
                self._write(number, offsets, "late")
        self._apply(left)

    def _write_now_or_late(self, number: int, piece: range, left: int) -> None:
        if self.way != "key":
            self._write(number, piece, "new")
            return
        shuffled = self.random.sample(piece, len(piece))
        kept = len(shuffled) // 4 if left else 0
        if kept:
            self.late.append((number, shuffled[:kept]))
        if len(self.late) > 3:
            self._write(*self.late.pop(self.random.randrange(3)), "late")
        self._write(number, shuffled[kept:], "new")

    def _deliver_again(self) -> None:
        number, piece = self.random.choice(self.pieces)
        how = self.random.choice(("whole", "some lines", "newer file time"))
        if how == "newer file time":
            file = self.random.choice(sorted(self.flow.inbox.rglob("*.json*")))
            at = 1_800_000_000 + self.files
            os.utime(file, (at, at))
            self.files += 1
        elif how == "some lines" and self.way != "names":
            chosen = sorted(self.random.sample(piece, self.random.randint(1, len(piece))))
            self._write(number, chosen, "again")
        else:
            # A sink that starts again cuts its files elsewhere.
            begin = self.random.choice(piece)
            self._write(number, range(begin, piece.stop), "again")
        self.counts[f"delivered again, {how}"] += 1

    def _write(self, number: int, offsets: range | list[int], name: str) -> None:
        self.flow.inbox.mkdir(parents=True, exist_ok=True)
        self.files += 1
        file = self.flow.inbox / f"{self.random.randint(0, 999):03}-{name}-{self.files}.jsonl"
        if self.way == "names":
            # Confluent's name the first time; Aiven's, which means the same, when it comes again.
            form = "{}+{}+{:010}.json" if name == "new" else "{}-{}-{}.json"
            file = self.flow.inbox / str(self.files) / form.format(self.log.topic, number, offsets[0])
            file.parent.mkdir()
        lines = self.log.lines(number, offsets, placed=self.way == "records")
        file.write_text("".join(line + "\n" for line in lines))

    def _apply(self, left: int) -> None:
        try:
            report = self._upsert()
        except BadInputError as refused:
            if not any(half in str(refused) for half in _HALF):
                raise
            self.counts["half a key change waits"] += 1
            if left or self.way != "key":
                return
            # A key that was used again before its change came: the row is in files that were applied.
            report = self._upsert(OnRepeat.APPLY)
        self.counts[report.outcome.value] += 1
        self.counts["events dropped"] += report.events_dropped or 0

    def _upsert(self, on_repeat: OnRepeat = OnRepeat.SKIP) -> UpsertReport:
        source = Debezium(
            path=str(self.flow.inbox),
            table=self.captured.table,
            schema=self.captured.ddl,
            name=f"{self.captured.table}.{self.way}",
            ordering=_ORDERINGS.get(self.way),
        )
        return self.flow.apply(
            f"run {self.files}",
            source=source,
            keys=self.captured.keys,
            delete_when=None,
            exclude_columns=self.captured.dropped,
            missing_columns=MissingColumns.NULL,
            on_repeat=on_repeat,
        )

    def compare(self) -> int:
        """Compare all rows with the server's and return how many there are.

        :raises AssertionError: a row is missing, too many, or another.
        """
        assert self.log.is_delivered
        found = self.flow.loaded().scan().to_arrow().to_pylist()
        for row in found:
            row.pop(POSITION_COLUMN, None)
        self.captured.refuse_other_rows(found, self.flow.table)
        return len(found)


def redeliver(
    spark: SparkSession,
    home: Path,
    seed: int,
    deliveries: int,
    tables: tuple[Captured, ...] = TABLES,
    ways: tuple[str, ...] = WAYS,
    only: Collection[int] = (),
) -> str:
    """Deliver and return one line that says what happened.

    :param deliveries: of all tables and ways together.
    :param only: numbers of the shares to play; empty for all.
    :raises AssertionError: tables are not their server's; the others are played all the same.
    """
    started = time.monotonic()
    counts: Counter[str] = Counter()
    rows, failed = 0, []
    shares = [(captured, way) for captured in tables for way in ways]
    with planned_for_tiny_batches(spark):
        for number, (captured, way) in enumerate(shares):
            if only and number not in only:
                continue
            share = deliveries // len(shares) + (number < deliveries % len(shares))
            flow = Flow(spark, f"redelivery.t{seed}_{number}", home / f"inbox-{number}")
            try:
                rows += _play(flow, captured, way, share, Random(f"{seed} {number}"), counts)
            # Each share stands for itself.
            except Exception:  # noqa: BLE001
                failed.append(number)
                print(traceback.format_exc(), flush=True)
            told = f"{'FAILED' if number in failed else 'ok'} {number}: {captured.table} by {way}, {share} deliveries"
            print(f"{told}, {time.monotonic() - started:.0f} s", flush=True)
    said = ", ".join(f"{value} {name}" for name, value in sorted(counts.items()))
    assert not failed, f"redelivery: seed {seed}, shares {failed} failed: {said}"
    took = time.monotonic() - started
    return f"redelivery: seed {seed}, {deliveries} deliveries in {took:.0f} s, {rows} rows equal the server's: {said}"


def _play(flow: Flow, captured: Captured, way: str, share: int, random: Random, counts: Counter[str]) -> int:
    log = EventLog.of(captured.lines(), 1 if way == "stream" else 4, restarts=3, random=random)
    flow.catalog()
    stream = Deliveries(captured, way, flow, log, random, counts)
    for left in reversed(range(share)):
        stream.deliver(left)
    return stream.compare()


def main() -> None:
    """Deliver and print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deliveries", type=int, default=200)
    parser.add_argument("--only", type=int, nargs="+", default=(), help="numbers of the shares to play")
    options = parser.parse_args()
    shares = len(TABLES) * len(WAYS)
    if options.deliveries < shares:
        parser.error(f"--deliveries is {options.deliveries}; give at least {shares}, one for each table and way")
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake.at(Path(folder) / "lake")
        os.environ.update(session_environment(lake))
        spark, _ = open_session()
        print(redeliver(spark, Path(folder), options.seed, options.deliveries, only=options.only))


if __name__ == "__main__":
    main()

"""Random lives of tables that appends, overwrites, whole tables and histories fill, compared with plain Python.

A life has one table: its key type, format version, partitions, strategy and arguments are drawn, and so are its
batches. These are late, repeated, empty or refused. Drivers are killed, meet their retries or other runs, and other
writers commit in between. PyIceberg reads the rows after each batch.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tests.soak.histories import verdict
from tests.spark.conftest import start_session
from tests.spark.keyed_loads import Histories, Snapshots, Wholes
from tests.spark.load_life import LoadLife
from tests.spark.row_loads import Appends, Overwrites

LIVES: tuple[type[LoadLife[Any]], ...] = (Appends, Overwrites, Wholes, Histories, Snapshots)


def main() -> int:
    """Play lives of each load until all are played or the time is over, which fails; failures are told and counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first life; each next one has the next number")
    parser.add_argument("--rounds", type=int, default=40, help="lives of each load")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    started, failed, played = time.monotonic(), [], 0
    lives = [(seed, life) for seed in range(options.seed, options.seed + options.rounds) for life in LIVES]
    with tempfile.TemporaryDirectory(prefix="lake_loads_") as folder:
        spark = start_session(Path(folder))
        for number, (seed, life) in enumerate(lives):
            if time.monotonic() - started > options.minutes * 60:
                break
            try:
                with redirect_stdout(StringIO()):
                    life.drawn(spark, Path(folder), seed).play(options.batches)
            # Each life stands for itself: the others are played all the same.
            except Exception:  # noqa: BLE001
                failed.append(number)
                print(traceback.format_exc(), flush=True)
            played += 1
            print(f"{'FAILED' if number in failed else 'ok'} {life.load_name} {seed}", flush=True)
        spark.stop()
    told, code = verdict(played, len(lives), failed, "lives")
    print(f"loads: seed {options.seed}, {options.batches} batches each: {told}", flush=True)
    return code


if __name__ == "__main__":
    raise SystemExit(main())

"""Random histories of tables with keys of every type, in files of every format, compared with a dict after each step.

A history has one table: types of its keys, file format, format version, metrics mode and partition transform are drawn,
and so are its steps, other writers among them. Rows are compared as PyIceberg reads them. It reads neither ORC nor Avro
nor equality deletes: there they are compared as Spark reads all rows, with no predicate to push down.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from tests.spark.conftest import start_session
from tests.spark.typed_history import TypedHistory


def main() -> int:
    """Play histories until all are played or the time is over, which fails; failures are told and counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first history, to play one again")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    started, failed, played = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory(prefix="lake_histories_") as folder:
        spark = start_session(Path(folder))
        for number in range(options.first, options.first + options.rounds):
            if time.monotonic() - started > options.minutes * 60:
                break
            seed, before = f"{options.seed}-{number}", time.monotonic()
            history = None
            try:
                with redirect_stdout(StringIO()):
                    history = TypedHistory.drawn(spark, Path(folder) / f"inbox-{number}", seed)
                    history.play(options.steps)
            # Each history stands for itself: the others are played all the same.
            except Exception:  # noqa: BLE001
                failed.append(number)
                print("\n".join([*(history.told if history else [seed]), traceback.format_exc()]), flush=True)
            played += 1
            told = history.told[0] if history else seed
            print(f"{'FAILED' if number in failed else 'ok'} {time.monotonic() - before:.0f} s, {told}", flush=True)
        spark.stop()
    told, code = verdict(played, options.rounds, failed)
    print(f"{options.steps} steps each: {told}", flush=True)
    return code


def verdict(played: int, rounds: int, failed: Sequence[int], what: str = "histories") -> tuple[str, int]:
    """Return what is told at the end, and the exit code: 1 too where histories that were asked for are not played."""
    told = f"{played} of {rounds} {what}, {len(failed)} failed: {list(failed)}"
    if played < rounds:
        told = f"{told}; the time was over before the others, give more --minutes"
    return told, int(bool(failed) or played < rounds)


if __name__ == "__main__":
    raise SystemExit(main())

"""Every setting of Spark and Iceberg with a list of values, at each value in turn, under one small piece of our work.

Settings that a job overrules are left out, and static ones. The result of each value is compared with plain Python.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from itertools import count
from pathlib import Path

from airflow_lake_provider.spark_jobs.session.open_session import open_session
from tests.soak.setting_values import other_values
from tests.soak.setting_work import SettingWork
from tests.spark.conftest import start_session
from tests.spark.said_settings import said

Value = tuple[str, str]
_LONGEST = 400
# Known, and left to whoever sets them: no row is wrong, and the run says what is the matter.
LEFT: dict[Value, str] = {
    ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"): "how an author's Parquet files are read",
    ("spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION"): "how an author's Parquet files are read",
    ("spark.sql.parquet.binaryAsString", "true"): "how an author's Parquet files are read",
}


def main() -> int:
    """Try the values; 1 where one changes a row or fails a run and is not known to, or where the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--together", type=int, default=1, help="values at once; halves where they fail")
    parser.add_argument("--only", default="", help="settings whose names contain this")
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="lake_settings_") as folder:
        spark = start_session(Path(folder))
        sweep = Sweep(SettingWork(spark, Path(folder) / "in"))
        sweep.work.write()
        assert (told := sweep.under({})) == "", told
        values = [pair for pair in other_values(spark) if options.only in pair[0]]
        unknown = [pair for pair in values if pair not in LEFT]
        groups = -(-len(unknown) // options.together)
        # Values of one setting are side by side, and never in one group.
        sweep.attempt(
            [*(unknown[n::groups] for n in range(groups)), *([pair] for pair in values if pair in LEFT)], until
        )
        spark.stop()
    print(f"settings: {sweep.tried} of {len(values)} values tried, {len(sweep.wrong)} wrong: {sweep.wrong}", flush=True)
    return int(bool(sweep.wrong) or sweep.tried < len(values))


@dataclass
class Sweep:
    """Results of the values tried so far.

    :param wrong: settings with values that change a row or fail a run, and are not known to.
    """

    work: SettingWork
    tried: int = 0
    wrong: list[str] = field(default_factory=list)
    broken: set[Value] = field(default_factory=set)
    tables: Iterator[int] = field(default_factory=count)

    def attempt(self, groups: Iterable[Sequence[Value]], until: float) -> None:
        """Try each group of values at once; where that fails, halves of it, after all the others."""
        waiting, failed = deque(groups), []
        while waiting and time.monotonic() < until:
            values = waiting.popleft()
            before = time.monotonic()
            told = self.under(dict(values))
            names, took = _named(values), f"{time.monotonic() - before:.1f} s"
            if not told:
                self.tried += len(values)
                print(f"ok {took} {names}", flush=True)
            elif len(values) > 1:
                print(f"together {took} {names}: {told}", flush=True)
                failed.append(values)
                waiting += [values[: len(values) // 2], values[len(values) // 2 :]]
            else:
                self.tried += 1
                self.broken.add(values[0])
                print(f"{'LEFT' if values[0] in LEFT else 'WRONG'} {took} {names} {told}", flush=True)
        self.wrong = sorted(_named([pair]) for pair in self.broken - LEFT.keys())
        self.wrong += [f"together: {_named(values)}" for values in failed if not self.broken & set(values)]

    def under(self, settings: dict[str, str]) -> str:
        """Do the work and return what is wrong, in one line; empty where nothing is."""
        with said(self.work.spark, settings), redirect_stdout(StringIO()):
            try:
                open_session()
                self.work.run(f"settings.s{next(self.tables)}")
            # Whatever a setting breaks is what is looked for.
            except Exception as error:  # noqa: BLE001
                return " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
        return ""


def _named(values: Sequence[Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in values)


if __name__ == "__main__":
    raise SystemExit(main())

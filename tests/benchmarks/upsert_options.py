"""Options of ``scripts/bench upsert``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.cold_sizes import ColdSize
from tests.benchmarks.sweep_plan import ROWS, SHARES


def parse_options(description: str | None, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line.

    :param description: of the benchmark.
    :param arguments: None takes the process's own.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=6, help="rounds before the first table")
    parser.add_argument("--large", type=int, default=100_000_000)
    parser.add_argument("--kinds", type=int, default=5_000_000)
    parser.add_argument("--quick", action="store_true", help="leave copy-on-write out")
    parser.add_argument("--cold", action="store_true", help="whole applications in place of a warm session")
    parser.add_argument("--cold-sizes", type=_sizes, default="small,30m", help="of small, 30m, 100m, ROWSxBATCH")
    parser.add_argument("--sweep", action="store_true", help="table sizes by shares in place of a few comparisons")
    parser.add_argument("--sweep-rows", type=numbers, default=ROWS, help="millions, as in 1,3")
    parser.add_argument("--sweep-shares", type=numbers, default=SHARES, help="percent of the table, as in 0.1,5")
    parser.add_argument("--budget-minutes", type=float, default=75, help="of the sweep; 0 for no limit")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="JSON of a sweep that was stopped")
    return parser.parse_args(arguments)


def numbers(text: str) -> tuple[float, ...]:
    """Parse numbers above 0, as in ``0.1,5``.

    :raises ArgumentTypeError: one is not.
    """
    parsed = tuple(float(number) for number in text.split(","))
    if min(parsed) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} has a number that is not above 0")
    return parsed


def _sizes(text: str) -> list[ColdSize]:
    try:
        return [ColdSize.named(name) for name in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error

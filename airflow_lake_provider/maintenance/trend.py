"""Trend of a table's maintenance as an XCom entry of at most 1,024 bytes, for pages that read Airflow's database alone.

``{"version": 1, "table": "shop.orders", "at": "2026-11-26T03:04:05+00:00", "outcome": "done", "hours": "24 24 0",
"score": "40 61 95", "files": "999 500 8", "bytes": "...", "deletes": "...", "most": [1412, 52000000, 7]}``

Texts have a number for each run, oldest first. ``hours`` are those until the next run. A count is a share of its
``most``: ``most * number / 999``. What nobody has counted is -1.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

# Key of XCom with the trends of the tables that a run has worked on.
TRENDS = "trends"
VERSION = 1
MOST_POINTS = 30
MOST_BYTES = 1024
# Of the maintenance history, that are read for it.
COLUMNS = (
    *("table_name", "run_key", "ended_at", "outcome", "score_before"),
    *("data_files_after", "bytes_after", "delete_files_after"),
)
_UNCOUNTED = -1
_SCALE = 999
_MOST_HOURS = 99_999
_MOST_COUNT = 10**18
# Of the table's name as JSON writes it in ASCII. A longer one is cut, and ends with a digest of all of it.
_LONGEST_NAME = 160
_NO_WORD = re.compile(r"[^a-z-]")
_COUNTS = ("files", "bytes", "deletes")


@dataclass(frozen=True, kw_only=True)
class TrendPoint:
    """State of a table after a run.

    :param at: when the run's last action of the table ended.
    :param outcome: of that action.
    :param score: of its health before the run.
    :param files: data files of the head.
    :param bytes: of data and delete files.
    :param deletes: delete files and deletion vectors.
    """

    at: datetime
    outcome: str = ""
    score: int | None = None
    files: int | None = None
    bytes: int | None = None
    deletes: int | None = None


def trend_points(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[TrendPoint]]:
    """Return a point for each run of each table, oldest first.

    :param rows: of the maintenance history.
    """
    runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda each: each["ended_at"]):
        runs.setdefault((row["table_name"], row["run_key"]), []).append(row)
    points: dict[str, list[TrendPoint]] = {}
    for (table, _), of_run in sorted(runs.items(), key=lambda item: item[1][-1]["ended_at"]):
        points.setdefault(table, []).append(_point(of_run))
    return points


def _point(rows: Sequence[Mapping[str, Any]]) -> TrendPoint:
    return TrendPoint(
        at=rows[-1]["ended_at"],
        outcome=rows[-1]["outcome"],
        score=_newest(rows, "score_before"),
        files=_newest(rows, "data_files_after"),
        bytes=_newest(rows, "bytes_after"),
        deletes=_newest(rows, "delete_files_after"),
    )


def _newest(rows: Sequence[Mapping[str, Any]], column: str) -> int | None:
    return next((row[column] for row in reversed(rows) if row[column] is not None), None)


def trend_entry(table: str, points: Sequence[TrendPoint]) -> dict[str, Any]:
    """Return the entry of a table; as JSON it has at most 1,024 bytes.

    :param table: whole name.
    :param points: oldest first; the newest 30 count.
    """
    newest = list(points[-MOST_POINTS:])
    following = [*(each.at for each in newest[1:]), *(each.at for each in newest[-1:])]
    gaps = [(after - each.at) // timedelta(hours=1) for each, after in zip(newest, following, strict=True)]
    counted = {name: [_at_most(getattr(each, name)) for each in newest] for name in _COUNTS}
    most = {name: max(counts, default=_UNCOUNTED) for name, counts in counted.items()}
    return {
        "version": VERSION,
        "table": name_in_entry(table),
        "at": newest[-1].at.isoformat(timespec="seconds") if newest else None,
        "outcome": _NO_WORD.sub("", newest[-1].outcome)[:20] if newest else None,
        "hours": _text(min(_MOST_HOURS, max(0, gap)) for gap in gaps),
        "score": _text(_UNCOUNTED if each.score is None else min(100, max(0, each.score)) for each in newest),
        **{name: _text(_share(count, most[name]) for count in counts) for name, counts in counted.items()},
        "most": [most[name] for name in _COUNTS],
    }


def _text(numbers: Iterable[int]) -> str:
    # A list has a comma and a blank for each.
    return " ".join(map(str, numbers))


def _at_most(count: int | None) -> int:
    return _UNCOUNTED if count is None or count < 0 else min(count, _MOST_COUNT)


def _share(count: int, most: int) -> int:
    return count if count <= 0 else round(count * _SCALE / most)


def name_in_entry(name: str) -> str:
    """Return the name by which an entry has a table: a short one; two tables share none."""
    if len(json.dumps(name)) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    kept = name
    while len(json.dumps(f"{kept}~{digest}")) > _LONGEST_NAME:
        kept = kept[: min(_LONGEST_NAME, len(kept) - 1)]
    return f"{kept}~{digest}"

"""HTML of the page: Jinja2 templates, which escape all that they show, and the data of charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any

from jinja2 import Environment, PackageLoader

from airflow_lake_provider import __version__
from airflow_lake_provider.contracts.lake_page import PAGE
from airflow_lake_provider.maintenance.score import age_text, size_text
from airflow_lake_provider.plugins.lake_page.addresses import root_path, run_url, table_url
from airflow_lake_provider.plugins.lake_page.entries import Fields, Trend
from airflow_lake_provider.plugins.lake_page.page_data import Fleet, TablePage, TableState
from airflow_lake_provider.tables.head_files import SIZE_CLASSES

# States that the page filters by, in words.
STATES = (
    ("failed", "failed"),
    ("due", "something is due"),
    ("stale", "not fresh"),
    ("late", "late consumers"),
    ("unmaintained", "never maintained"),
    ("paused", "paused"),
    ("gone", "no longer there"),
)
# Files of uPlot; a checkout that has not fetched them shows tables in place of charts.
CHARTS = ("uplot/uPlot.iife.min.js", "uplot/uPlot.min.css")
MOST_SHOWN = 1_000
# Tables and consumers that are named in a line.
_MOST_NAMED = 5
_OLDEST = ""
_SORTS: dict[str, Callable[[TableState], Any]] = {
    "worst": lambda each: each.order,
    "name": lambda each: (each.row.table, each.conn_id),
    "bytes": lambda each: -(each.row.bytes or 0),
    "files": lambda each: -(each.row.files or 0),
    "deletes": lambda each: -(each.row.delete_files or 0),
    "snapshots": lambda each: -(each.row.snapshots or 0),
    "oldest rows": lambda each: each.row.data_at.isoformat() if each.row.data_at else _OLDEST,
}


@dataclass(frozen=True)
class Asked:
    """Choice of tables that a user has made."""

    q: str = ""
    conn: str = ""
    namespace: str = ""
    state: str = ""
    sort: str = "worst"

    def chosen(self, tables: Sequence[TableState]) -> list[TableState]:
        """Return the tables that match, in the order that was asked for."""
        words = self.q.lower().split()
        matching = [
            each
            for each in tables
            if self.conn in ("", each.conn_id)
            and self.namespace in ("", each.namespace)
            and (not self.state or self.state in each.states)
            and all(word in f"{each.row.table} {each.row.owner}".lower() for word in words)
        ]
        return sorted(matching, key=_SORTS.get(self.sort, _SORTS["worst"]))


def load_templates() -> None:
    """Compile all templates, which the first answers of a process would otherwise wait for."""
    environment = _environment()
    for name in environment.list_templates():
        environment.get_template(name)


def render_fleet(fleet: Fleet, asked: Asked) -> str:
    """Return the page of all tables."""
    chosen = asked.chosen(fleet.tables)
    return (
        _environment()
        .get_template("tables.html")
        .render(
            fleet=fleet,
            asked=asked,
            sorts=list(_SORTS),
            chosen=chosen[:MOST_SHOWN],
            matching=len(chosen),
            conn_ids=sorted({each.conn_id for each in fleet.tables}),
            namespaces=sorted({each.namespace for each in fleet.tables}),
            seen_at=max((each.seen_at for each in fleet.tables), default=None),
            counts=fleet.counts,
            states=STATES,
            now=fleet.now,
        )
    )


def render_table(page: TablePage, dag_id: str, refusal: str = "") -> str:
    """Return the page of one table.

    :param page: what is known of it.
    :param dag_id: of the DAG that maintains it; empty where the user may not start it.
    :param refusal: why no run of that DAG is offered; empty where one is.
    """
    details, now = page.details, page.state.now
    charts = {
        "timeline": timeline(details.each("snapshots")),
        "sizes": sizes(details.within("files")),
        "trend": trend_chart(page.state.trend),
    }
    return (
        _environment()
        .get_template("table.html")
        .render(
            page=page,
            state=page.state,
            row=page.state.row,
            details=details,
            parts=sorted(details.each("parts"), key=lambda each: -(each.number("lost") or 0)),
            charts=charts,
            size_classes=size_classes(details.within("files")),
            dag_id=dag_id,
            refusal=refusal,
            now=now,
        )
    )


def render_missing(table: str) -> str:
    """Return the page of a table that no plan has looked at, or that the user may not see: nobody learns which."""
    return _environment().get_template("missing.html").render(table=table)


def timeline(snapshots: Sequence[Fields]) -> str:
    """Return the data of the chart of snapshots as JSON, oldest first: seconds, rows, and rows of maintenance."""
    points = [(each.moment("at"), each) for each in reversed(snapshots)]
    dated = [(at, each) for at, each in points if at is not None]
    return json.dumps(
        {
            "kind": "bars",
            "time": True,
            "x": [round(at.timestamp()) for at, _ in dated],
            "series": [
                {"name": "rows", "values": [None if is_kept(each) else each.number("rows") for _, each in dated]},
                {
                    "name": "maintenance: files",
                    "scale": "files",
                    "values": [each.number("files") if is_kept(each) else None for _, each in dated],
                },
            ],
        }
    )


def is_kept(snapshot: Fields) -> bool:
    """Tell whether a snapshot is of maintenance, which keeps all rows."""
    return snapshot.is_true("is_maintenance")


def size_classes(facts: Fields) -> list[tuple[str, int]]:
    """Return the words of each class of file sizes, with its count; empty where files were not counted."""
    target, counts = (
        facts.number("target_bytes") or 0,
        [each for each in facts.list("by_size") if isinstance(each, int)],
    )
    if target <= 0 or len(counts) != len(SIZE_CLASSES) + 1:
        return []
    ends = [size_text(share * target) for share in SIZE_CLASSES]
    words = [f"below {ends[0]}", *(f"to {end}" for end in ends[1:]), f"above {ends[-1]}"]
    return list(zip(words, counts, strict=True))


def sizes(facts: Fields) -> str:
    """Return the data of the chart of file sizes as JSON."""
    classes = size_classes(facts)
    values = [count for _, count in classes]
    return json.dumps(
        {
            "kind": "bars",
            "labels": [name for name, _ in classes],
            "x": list(range(len(classes))),
            "series": [{"name": "files", "values": values}],
        }
    )


def trend_chart(trend: Trend | None) -> str:
    """Return the data of the chart of runs as JSON: the score before each, and files after it."""
    if trend is None or trend.at is None or not trend.score:
        return json.dumps({"x": []})
    until_last = [0, *accumulate(reversed(trend.hours[:-1]))][::-1]
    moments = [round(trend.at.timestamp()) - 3600 * hours for hours in until_last][-len(trend.score) :]
    series = {"score": (trend.score, "score"), "data files": (trend.files, "y"), "delete files": (trend.deletes, "y")}
    return json.dumps(
        {
            "kind": "lines",
            "time": True,
            "x": moments,
            "series": [
                {
                    "name": name,
                    "scale": scale,
                    "values": [None if each < 0 else each for each in values[: len(moments)]],
                }
                for name, (values, scale) in series.items()
            ],
        }
    )


def sparkline(trend: Trend | None) -> str:
    """Return the points of a line of scores, 60 wide and 16 high; empty where fewer than two are known."""
    scores = [(place, each) for place, each in enumerate(trend.score if trend else ()) if each >= 0]
    if len(scores) < 2:
        return ""
    width = 60 / (len(scores) - 1)
    return " ".join(f"{place * width:.0f},{15 - each * 14 / 100:.0f}" for place, (_, each) in enumerate(scores))


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was; empty of none."""
    if moment is None:
        return ""
    span = max(timedelta(0), now - moment)
    return f"{span // timedelta(minutes=1)} min ago" if span < timedelta(hours=2) else f"{age_text(span)} ago"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("airflow_lake_provider.plugins.lake_page"),
        autoescape=True,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    static = files("airflow_lake_provider.plugins.lake_page") / "static"
    made.globals |= {
        "page_root": f"{root_path()}{PAGE}",
        "root": root_path(),
        "version": __version__,
        "has_charts": all((static / name).is_file() for name in CHARTS),
        "charts_files": CHARTS,
        "run_url": run_url,
        "table_url": table_url,
        "sparkline": sparkline,
        "ago": ago,
        "most_named": _MOST_NAMED,
    }
    made.filters |= {"size": size_text, "age": age_text, "clock": lambda moment: f"{moment:%Y-%m-%d %H:%M} UTC"}
    return made

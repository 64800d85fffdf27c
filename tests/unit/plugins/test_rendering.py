"""The HTML of the lake page: what a stranger wrote is text, and a choice of tables is the one that was asked for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from jinja2 import Environment
from sqlalchemy.orm import Session

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.maintenance.history import ConsumerLag
from airflow_lake_provider.maintenance.plan import PlannedAction, Reason
from airflow_lake_provider.maintenance.trend import TrendPoint, trend_entry
from airflow_lake_provider.plugins.lake_page import rendering
from airflow_lake_provider.plugins.lake_page.entries import Fields, Trend
from airflow_lake_provider.plugins.lake_page.page_data import read_fleet, read_table
from airflow_lake_provider.plugins.lake_page.rendering import (
    Asked,
    render_fleet,
    render_missing,
    render_table,
    trend_chart,
)
from airflow_lake_provider.plugins.lake_page.routes import make_app
from tests.stored_xcom import store_xcom
from tests.unit.plugins.fleet_of_entries import look_of, night_of

NOW = datetime(2026, 11, 28, 8, tzinfo=UTC)
NIGHT = NOW - timedelta(hours=5)
HOSTILE = '</td><script>alert(1)</script>"\' onload=alert(1) x="{{ 7*7 }}'


class Tags(HTMLParser):
    """Counts scripts without a source, and attributes that are code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.code: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if (tag == "script" and not named.get("src")) or tag == "style":
            self.code.append(tag)
        self.code += [name for name in named if name.startswith("on") or name == "style"]
        self.code += [str(value) for name, value in attrs if (value or "").startswith("javascript:")]


@pytest.fixture
def stored(session: Session) -> Session:
    """A session of a database with a night."""
    scores = {"shop.orders": 40, "shop.items": 100, "mart.revenue": 70, HOSTILE: None}
    store_xcom(session, "nightly", "r", "plan", look_of(scores, NIGHT).items(), NIGHT)
    trend = trend_entry("shop.orders", [TrendPoint(at=NIGHT - timedelta(days=9 - n), score=n) for n in range(9)])
    night = night_of({"shop.orders": "failed", HOSTILE: "failed"}, NIGHT, reason=HOSTILE)
    store_xcom(session, "nightly", "r", "verdict", {**night, "trends": [trend]}.items(), NIGHT)
    return session


def test_an_app_that_is_made_compiles_no_template_for_its_first_answers(
    stored: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendering._environment.cache_clear()
    make_app()
    monkeypatch.setattr(Environment, "compile", lambda _, source, *__, **___: pytest.fail(f"compiled {source[:60]}"))
    table = read_table(stored, {"nightly"}, NOW, "lake", "shop.orders")
    assert table is not None
    pages = (render_fleet(read_fleet(stored, {"nightly"}, NOW), Asked()), render_table(table, ""), render_missing("t"))
    assert all("</html>" in page for page in pages)


def shown(session: Session, **asked: str) -> list[str]:
    html = render_fleet(read_fleet(session, {"nightly"}, NOW), Asked(**asked))
    return [name for name in re.findall(r'<th scope="row"><a [^>]+>([^<]+)</a>', html) if "script" not in name]


def test_the_page_of_all_tables_has_the_failed_ones_first(stored: Session) -> None:
    assert shown(stored) == ["shop.orders", "mart.revenue", "shop.items"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"q": "ORD"}, ["shop.orders"]),
        ({"q": "shop item"}, ["shop.items"]),
        ({"namespace": "mart"}, ["mart.revenue"]),
        ({"state": "failed"}, ["shop.orders"]),
        ({"conn": "other"}, []),
        ({"sort": "name"}, ["mart.revenue", "shop.items", "shop.orders"]),
        ({"sort": "no such order"}, ["shop.orders", "mart.revenue", "shop.items"]),
    ],
)
def test_the_choice_of_tables_is_the_one_that_was_asked_for(
    stored: Session, asked: dict[str, str], expected: list[str]
) -> None:
    assert shown(stored, **asked) == expected


@pytest.mark.parametrize("sort", ["worst", "name", "bytes", "files", "deletes", "snapshots", "oldest rows"])
def test_each_order_shows_all_tables(stored: Session, sort: str) -> None:
    assert len(shown(stored, sort=sort)) == 3


def test_what_strangers_write_is_text(stored: Session) -> None:
    html = render_fleet(read_fleet(stored, {"nightly"}, NOW), Asked(q=HOSTILE, state=HOSTILE))
    assert Tags(html).code == []
    html = render_fleet(read_fleet(stored, {"nightly"}, NOW), Asked())
    assert (Tags(html).code, "49" in html) == ([], False)
    page = read_table(stored, {"nightly"}, NOW, "lake", HOSTILE)
    assert page is not None
    assert Tags(render_table(page, HOSTILE)).code == []


def hostile(value: Any) -> Any:
    """Return an entry whose texts are all a stranger's, but for times and the name of the table."""
    if isinstance(value, dict):
        return {name: each if name in ("at", "table", "tables") else hostile(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(hostile, value))
    return HOSTILE if isinstance(value, str) else value


def test_no_text_of_an_entry_is_code_on_the_page(session: Session) -> None:
    lag = ConsumerLag(consumer="mart", snapshot="1", behind=timedelta(days=9), owner="dag.task", target="mart.x")
    due = PlannedAction(
        action="compaction", level="minor", reasons=(Reason(name="files", value=9, threshold=5, sentence="many"),)
    )
    policy = MaintenancePolicy(fresh_within=timedelta(hours=1))
    look = look_of({"shop.orders": 40}, NIGHT, policy=policy, actions={"shop.orders": (due,)}, consumers=(lag,))
    details = {name: hostile(each) for name, each in look["lake_fleet_details_0"]["tables"].items()}
    look = {key: hostile(entry) for key, entry in look.items()}
    look["lake_fleet_details_0"]["tables"] = details
    store_xcom(session, HOSTILE, HOSTILE, HOSTILE, look.items(), NIGHT)
    store_xcom(session, HOSTILE, HOSTILE, "v", hostile(night_of({"shop.orders": "failed"}, NIGHT)).items(), NIGHT)
    html = render_fleet(read_fleet(session, {HOSTILE}, NOW), Asked())
    page = read_table(session, {HOSTILE}, NOW, "", "shop.orders")
    assert page is not None
    for shown_page in (html, render_table(page, HOSTILE), render_missing(HOSTILE)):
        assert "alert(1)" in shown_page
        assert (Tags(shown_page).code, "49" in shown_page) == ([], False)


def test_a_database_without_entries_says_how_a_table_gets_there(session: Session) -> None:
    assert "No table yet" in render_fleet(read_fleet(session, set(), NOW), Asked())


def test_the_page_of_a_table_that_cannot_be_read_says_that_nobody_knows_what_is_due(session: Session) -> None:
    store_xcom(session, "nightly", "run 1", "plan", look_of({"a.gone": None, "a.well": 100}, NIGHT).items(), NIGHT)
    broken, well = (read_table(session, {"nightly"}, NOW, "lake", name) for name in ("a.gone", "a.well"))
    assert broken is not None
    assert well is not None
    says = ("Nothing is due.", "All settings have their defaults.", "Nobody knows", "Its policy was not read.")
    for page, expected in ((broken, [False, False, True, True]), (well, [True, True, False, False])):
        html = render_table(page, "")
        assert [each in html for each in says] == expected


def test_the_chart_of_runs_has_their_moments(stored: Session) -> None:
    page = read_table(stored, {"nightly"}, NOW, "lake", "shop.orders")
    assert page is not None
    chart = json.loads(trend_chart(page.state.trend))
    moments = [datetime.fromtimestamp(at, UTC) for at in chart["x"]]
    assert moments == [NIGHT - timedelta(days=9 - n) for n in range(9)]
    assert chart["series"][0]["values"] == list(range(9))


def test_a_trend_of_other_lengths_is_a_chart_nevertheless() -> None:
    fields = {"version": 1, "at": NOW.isoformat(), "hours": "1", "score": "5 5 5", "files": "", "most": [1, 1, 1]}
    chart = json.loads(trend_chart(Trend.of(Fields(fields))))
    assert len({len(chart["x"]), *(len(each["values"]) for each in chart["series"][:1])}) == 1


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_the_page_says_first_which_consumer_is_behind_and_by_how_much(session: Session) -> None:
    late = {"mart": timedelta(days=10), "report": timedelta(days=40), "quick": timedelta(hours=1), "lost": None}
    lags = tuple(ConsumerLag(consumer=name, snapshot="1", behind=behind) for name, behind in late.items())
    store_xcom(session, "nightly", "r", "plan", look_of({"shop.orders": 60}, NIGHT, consumers=lags).items(), NIGHT)
    text = text_of(render_fleet(read_fleet(session, {"nightly"}, NOW), Asked()))
    lines = text[text.index("Consumers behind") : text.index(" Search")].split(" on shop.orders")
    assert lines == [
        "Consumers behind lost its place is lost",
        " report 40 days behind",
        " mart 10 days behind",
        "",
    ]


def test_the_page_says_what_the_last_run_did_which_tables_failed_and_when(session: Session) -> None:
    outcomes = {"shop.orders": "done", "shop.items": "done", "shop.gone": "failed"}
    store_xcom(session, "nightly", "r", "plan", look_of({"shop.gone": None}, NIGHT).items(), NIGHT)
    store_xcom(session, "nightly", "r", "verdict", night_of(outcomes, NIGHT).items(), NIGHT)
    fleet = read_fleet(session, {"nightly"}, NOW)
    text = text_of(render_fleet(fleet, Asked()))
    assert "nightly 2026-11-28 03:00 UTC, 5 hours ago: " in text
    assert "1 failed (shop.gone)" in text
    assert "2 done (compaction of 2 tables)" in text
    assert "21 files fewer, 300 bytes less about 9 core-seconds" in text
    assert "broken Cannot be read. BrokenMetadataError: gone" in text
    verdict = next(place for place, _ in fleet.nights)
    assert "failed in its last run, because of shop.gone." in text_of(
        render_fleet(replace(fleet, failed=(verdict,)), Asked())
    )


def test_a_run_is_linked_only_where_its_user_may_see_it(stored: Session) -> None:
    links = []
    for dag_ids, assets in (({"nightly"}, set()), (set(), {("lake", "shop.orders")})):
        page = read_table(stored, dag_ids, NOW, "lake", "shop.orders", assets)
        assert page is not None
        htmls = render_table(page, ""), render_fleet(read_fleet(stored, dag_ids, NOW, assets), Asked())
        links.append([html.count("/dags/nightly/runs/") for html in htmls])
        assert all("shop.orders" in html for html in htmls)
    assert links == [[2, 3], [0, 0]]

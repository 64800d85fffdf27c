"""The lake page of a real api-server in a real browser: who sees what, and that nothing of a stranger's runs in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param
from playwright.sync_api import Page, expect
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from airflow_lake_provider.assets.lake_table import lake_table_asset
from airflow_lake_provider.contracts.lake_page import PAGE
from airflow_lake_provider.maintenance.history import ConsumerLag
from airflow_lake_provider.maintenance.trend import TrendPoint, trend_entry
from tests.end_to_end.api_server import ApiServer, api_server
from tests.end_to_end.browser import browser_page, find_browser
from tests.stored_assets import store_asset
from tests.stored_dags import store_dag
from tests.stored_xcom import break_value, store_xcom
from tests.unit.plugins.fleet_of_entries import look_of, night_of

pytestmark = [pytest.mark.live, pytest.mark.slow]

NOW = datetime.now(UTC)
NIGHT = NOW - timedelta(hours=5)
SCRIPT = "<script>document.title='owned'</script>\"'><img src=x onerror=\"document.title='owned'\">"
LONG, LONG_DAG = f"long.{'t' * 280}", "m" * 240
# Below the path of the server.
PATH = "/behind/proxy"


@pytest.fixture(scope="module")
def server(migrated: Mapping[str, str], lake_home: Path, unused_tcp_port_factory: object) -> Iterator[ApiServer]:
    engine = create_engine(f"sqlite:///{migrated['AIRFLOW_HOME']}/airflow.db")
    with Session(engine) as session:
        names = {f"shop.t{number:03d}": 100 - number // 2 for number in range(100)}
        look = look_of({**names, "shop.gone": None, SCRIPT: 3}, NIGHT)
        store_xcom(session, "nightly", "run 1", "plan", look.items(), NIGHT)
        trend = trend_entry("shop.t099", [TrendPoint(at=NIGHT, score=n, files=n) for n in range(9)])
        night = night_of({"shop.t099": "failed", "shop.t098": "done"}, NIGHT, reason=SCRIPT)
        store_xcom(session, "nightly", "run 1", "verdict", {**night, "trends": [trend]}.items(), NIGHT)
        secret = look_of({"secret.plans": 10}, NIGHT)
        store_xcom(session, "secret", "run 1", "plan", secret.items(), NIGHT)
        lag = ConsumerLag(consumer="c" * 280, snapshot="1", behind=timedelta(days=9))
        store_xcom(session, "nightly", "run 1", "long", look_of({LONG: 50}, NIGHT, consumers=(lag,)).items(), NIGHT)
        said = night_of({LONG: "done"}, NIGHT, reason="e" * 300)
        store_xcom(session, "nightly", "run 1", "long_verdict", said.items(), NIGHT)
        owned = look_of({"team.owned": 10, "team.other": 10}, NIGHT, tables=["team.*"])
        store_xcom(session, "platform", "run 1", "plan", owned.items(), NIGHT)
        store_asset(session, lake_table_asset("team.owned", lake_conn_id="lake"), "nightly")
        store_asset(session, lake_table_asset("team.other", lake_conn_id="lake"), "platform")
        store_xcom(session, "broken", "run 1", "plan", {"lake_fleet_changed": 1}.items(), NIGHT)
        break_value(session, "lake_fleet_changed", "{")
        eu = look_of({"eu.orders": 50}, NIGHT, conn_id="lake_eu", authority="lake_eu")
        store_xcom(session, "nightly", "run 1", "eu", eu.items(), NIGHT)
        params = {"table": "a.b", "action": "compaction", "dry_run": True, "lake_conn_id": Param("lake", enum=["lake"])}
        with DAG(LONG_DAG, schedule=None, params=params) as dag:
            EmptyOperator(task_id="compaction")
        store_dag(session, dag)
    engine.dispose()
    settings = {**migrated, "AIRFLOW__LAKE__MAINTENANCE_DAG": LONG_DAG}
    with api_server(settings, lake_home, unused_tcp_port_factory(), PATH) as running:  # type: ignore[operator]
        yield running


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """An empty page of a real browser."""
    browser = find_browser()
    if browser is None:
        pytest.skip("no chromium on PATH, which this test clicks with; install it: apt-get install chromium")
    with browser_page(browser, tmp_path / "profile") as opened:
        yield opened


def log_in(page: Page, server: ApiServer, user: str) -> None:
    place = urlsplit(server.url)
    page.context.add_cookies(
        [{"name": "_token", "value": server.token(user), "url": f"{place.scheme}://{place.netloc}/"}]
    )


@pytest.mark.parametrize("path", ["/", "/table?table=shop.t001", "/static/lake.css", "/static/lake.js"])
def test_nobody_sees_anything_without_a_login(server: ApiServer, path: str) -> None:
    answer = server.get(f"{PAGE}{path}")
    assert answer.status_code == 401
    assert "shop." not in answer.text
    assert server.get(f"{PAGE}{path}", "admin").status_code == 200


@pytest.mark.parametrize("path", ["/", "/table?conn=lake&table=shop.t001", "/open?table=shop.t001"])
def test_a_browser_whose_session_has_ended_logs_in_and_comes_back(server: ApiServer, path: str, page: Page) -> None:
    page.goto(f"{server.url}{PAGE}{path}")
    page.get_by_label("Username").fill("viewer")
    page.get_by_label("Password").fill("viewer")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**{PATH}{PAGE}/{'table?*' if 'table' in path else ''}")
    expect(page.locator("body")).to_contain_text("shop.t001")


def test_a_viewer_sees_the_tables_of_the_dag_that_he_may_read_and_no_other(server: ApiServer) -> None:
    seen = server.get(f"{PAGE}/", "viewer").text
    assert "shop.t001" in seen
    assert "secret" not in seen
    assert "secret.plans" in server.get(f"{PAGE}/", "admin").text
    # To whom it is none of their business, it does not exist.
    pages = [server.get(f"{PAGE}/table?conn=lake&table=secret.{name}", "viewer") for name in ("plans", "nosuch")]
    assert [page.status_code for page in pages] == [404, 404]
    assert pages[0].text.replace("secret.plans", "secret.nosuch") == pages[1].text
    assert "Nothing of this table yet" in pages[0].text
    assert server.get(f"{PAGE}/table?conn=lake&table=secret.plans", "admin").status_code == 200


def test_a_viewer_sees_a_table_that_his_dag_writes_though_another_dag_maintains_it(server: ApiServer) -> None:
    # The simple auth manager lets each viewer read all assets.
    seen = server.get(f"{PAGE}/", "viewer").text
    assert "team.owned" in seen
    assert "team.other" not in seen
    assert "platform" not in seen
    pages = [server.get(f"{PAGE}/table?conn=lake&table=team.{name}", "viewer") for name in ("owned", "other")]
    assert [page.status_code for page in pages] == [200, 404]
    assert "platform" not in pages[0].text


def test_a_link_of_a_task_opens_the_page_in_airflows_ui_for_whom_that_shows_plugins(server: ApiServer) -> None:
    asked = "conn=lake&table=shop.t001"
    assert server.get(f"{PAGE}/open?{asked}").status_code == 401
    page = f"{PATH}{PAGE}/table?{asked}"
    for user, expected in (("admin", f"{PATH}/plugin/lake{page}"), ("viewer", page)):
        answer = server.get(f"{PAGE}/open?{asked}", user)
        assert (answer.status_code, answer.headers["location"]) == (307, expected)
    assert server.get(f"{PAGE}/open", "admin").headers["location"] == f"{PATH}/plugin/lake{PATH}{PAGE}/"
    # No other server is ever led to.
    for table in ("//evil.example/x", "https://evil.example", "\r\nLocation: https://evil.example"):
        answer = server.get(f"{PAGE}/open?{urlencode({'table': table})}", "viewer")
        assert answer.headers["location"].startswith(f"{PATH}{PAGE}/table?")


def test_an_entry_that_is_broken_has_a_note_and_breaks_nothing(server: ApiServer) -> None:
    answer = server.get(f"{PAGE}/", "admin")
    assert answer.status_code == 200
    assert "of DAG broken is not readable" in answer.text


def test_each_answer_allows_nothing_but_files_of_the_page_itself(server: ApiServer) -> None:
    for path in ("/", "/table?table=shop.t001", "/static/lake.js"):
        policy = server.get(f"{PAGE}{path}", "admin").headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'self'" in policy
    assert server.get(f"{PAGE}/static/../plugin.py", "admin").status_code == 404
    assert server.get(f"{PAGE}/static/%2e%2e/plugin.py", "admin").status_code == 404


def test_a_person_finds_the_worst_table_why_and_what_last_night_did(server: ApiServer, page: Page) -> None:
    log_in(page, server, "admin")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(f"{server.url}/plugin/lake")
    frame = page.frame_locator("iframe")
    rows = frame.locator("#tables tbody tr")
    expect(rows.first).to_contain_text("shop.gone")
    expect(rows.first).to_contain_text("BrokenMetadataError")
    expect(rows.nth(1)).to_contain_text("shop.t099")
    expect(rows.nth(1)).to_contain_text("compaction: failed")
    expect(frame.get_by_text("1 failed")).to_be_visible()
    # By keyboard alone: the search is in reach, and filters while one types.
    frame.get_by_role("searchbox").focus()
    page.keyboard.type("t098")
    expect(frame.locator("#tables tbody tr:visible")).to_have_count(1)
    frame.get_by_role("link", name="shop.t098").click()
    expect(frame.get_by_role("heading", name="shop.t098")).to_be_visible()
    # The address of Airflow's page follows, so that it can be sent to somebody.
    expect(page).to_have_url(re.compile(r"/plugin/lake/.*lake/table\?.*shop\.t098"))
    frame.get_by_role("link", name=re.compile("ago")).first.click()
    expect(page).to_have_url(re.compile(r"/dags/nightly/runs/"))
    assert [url for url in asked if not url.startswith((server.url, "data:", "blob:"))] == []
    assert [text for text in errors if "Content Security Policy" in text] == []


def test_charts_are_drawn_and_their_numbers_are_in_tables_too(server: ApiServer, page: Page) -> None:
    log_in(page, server, "admin")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{server.url}{PAGE}/table?conn=lake&table=shop.t099")
    expect(page.locator(".chart canvas")).to_have_count(3)
    assert errors == []
    page.get_by_text("As a table").first.click()
    # A number of JavaScript would have lost its last digits.
    expect(page.get_by_text("8412069653806524497")).to_be_visible()


def test_the_button_maintains_the_table_of_the_pages_catalog_and_no_other(server: ApiServer, page: Page) -> None:
    log_in(page, server, "admin")
    page.goto(f"{server.url}{PAGE}/table?conn=lake&table=shop.t001")
    page.get_by_role("button", name=f"Trigger {LONG_DAG}").click()
    run = page.get_by_role("link", name=re.compile("^Run manual"))
    expect(run).to_be_visible()
    run_id = str(run.text_content()).removeprefix("Run ")
    started = server.get(f"/api/v2/dags/{LONG_DAG}/dagRuns/{quote(run_id)}", "admin").json()
    expected = {"table": "shop.t001", "lake_conn_id": "lake", "action": "compaction", "dry_run": True}
    assert started["conf"] == expected
    # Of a catalog that the DAG does not take, a table of that name may be in the other one, too.
    page.goto(f"{server.url}{PAGE}/table?conn=lake_eu&table=eu.orders")
    expect(page.get_by_text("does not take lake_eu")).to_be_visible()
    assert page.get_by_role("button").count() == 0


def test_a_name_and_a_reason_with_a_script_are_shown_and_do_not_run(server: ApiServer, page: Page) -> None:
    log_in(page, server, "admin")
    page.goto(f"{server.url}{PAGE}/")
    expect(page.get_by_role("link", name=SCRIPT)).to_be_visible()
    page.get_by_role("link", name=SCRIPT).click()
    expect(page.get_by_role("heading", name=SCRIPT)).to_be_visible()
    page.goto(f"{server.url}{PAGE}/table?conn=lake&table=shop.t099")
    expect(page.get_by_text("<script>document.title").first).to_be_visible()
    page.goto(f"{server.url}{PAGE}/?q=%3Cscript%3Edocument.title%3D'owned'%3C/script%3E")
    assert "owned" not in page.title()


@pytest.mark.parametrize(
    ("theme", "system", "is_dark"), [("dark", "light", True), ("light", "dark", False), (None, "dark", True)]
)
def test_the_page_has_the_theme_of_airflow_or_of_the_system(
    server: ApiServer, tmp_path: Path, theme: str | None, system: str, is_dark: bool
) -> None:
    browser = find_browser()
    if browser is None:
        pytest.skip("no chromium on PATH, which this test looks with; install it: apt-get install chromium")
    with browser_page(browser, tmp_path / "profile", color_scheme=system) as page:
        log_in(page, server, "admin")
        if theme is not None:
            page.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        page.goto(f"{server.url}{PAGE}/")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        red = int(re.findall(r"\d+", colour)[0])
        assert (red < 128) == is_dark


def test_nothing_of_the_page_is_wider_than_a_narrow_window(server: ApiServer, page: Page) -> None:
    log_in(page, server, "admin")
    for width in (380, 600):
        page.set_viewport_size({"width": width, "height": 800})
        for path in ("/", "/table?conn=lake&table=shop.t099", f"/table?conn=lake&table={LONG}"):
            page.goto(f"{server.url}{PAGE}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_long_names_widen_no_table_beyond_a_wide_window(server: ApiServer, page: Page) -> None:
    log_in(page, server, "admin")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{server.url}{PAGE}/table?conn=lake&table={LONG}")
    expect(page.get_by_role("rowheader", name="c" * 280)).to_be_visible()
    assert (
        page.evaluate("[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).length") == 0
    )


def test_the_search_of_a_list_that_was_cut_says_how_to_search_all(server: ApiServer, page: Page) -> None:
    log_in(page, server, "admin")
    page.goto(f"{server.url}{PAGE}/?namespace=shop")
    page.evaluate("document.getElementById('count').dataset.all = 5000")
    page.get_by_role("searchbox").focus()
    page.keyboard.type("t09")
    expect(page.locator("#count")).to_have_text(re.compile(r"10 of the first 10\d tables; Enter searches all 5000"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=t09"))
    expect(page.locator("#tables tbody tr")).to_have_count(10)


def test_charts_have_times_of_utc_wherever_the_browser_is(server: ApiServer, tmp_path: Path) -> None:
    browser = find_browser()
    if browser is None:
        pytest.skip("no chromium on PATH, which this test looks with; install it: apt-get install chromium")
    with browser_page(browser, tmp_path / "profile", timezone_id="Asia/Kolkata") as page:
        log_in(page, server, "admin")
        page.add_init_script(
            "window.drawn = []; const fill = CanvasRenderingContext2D.prototype.fillText;"
            "CanvasRenderingContext2D.prototype.fillText = function (...given) "
            "{ window.drawn.push(given[0]); return fill.apply(this, given); }"
        )
        page.goto(f"{server.url}{PAGE}/table?conn=lake&table=shop.t001")
        expect(page.locator(".chart canvas").first).to_be_visible()
        drawn = [re.fullmatch(r"(\d+)(?::(\d\d))?(am|pm)", text) for text in page.evaluate("window.drawn")]
        hours = {int(each[1]) % 12 + 12 * (each[3] == "pm") for each in drawn if each}
    # The axis is an hour around the only snapshot, of an hour before the night.
    near = {(NIGHT - timedelta(hours=ago)).hour for ago in range(3)}
    assert hours
    assert hours <= near

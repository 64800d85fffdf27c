"""The check of the built site sees dead links, and what the reference lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_site

NAME = "airflow_lake_provider.hooks.lake_catalog.LakeCatalogHook"
ENTRY = (
    f'<section id="h"><dl><dt id="{NAME}">LakeCatalogHook</dt><strong>lake_conn_id</strong>'
    "<strong>timeout</strong></dl></section>"
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with one page beside the index, of one public class."""
    monkeypatch.setattr(check_site, "public_names", lambda: [NAME])
    (tmp_path / "reference/python").mkdir(parents=True)
    (tmp_path / "index.html").write_text('<a href="reference/python/hooks.html#h">h</a><a href="https://a.b/c">web</a>')
    (tmp_path / "reference/python/hooks.html").write_text(ENTRY)
    check_site.read.cache_clear()
    return tmp_path


def test_a_whole_site_has_no_fault(site: Path) -> None:
    assert check_site.faults(site) == []


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ('<a href="missing.html">', "index.html: links to missing.html, which is not there"),
        ('<img src="missing.svg">', "index.html: links to missing.svg, which is not there"),
        ('<a href="#none">', "index.html: links to #none, but there is no such anchor"),
        ('<a href="reference/python/hooks.html#x">', "hooks.html#x, but there is no such anchor"),
    ],
)
def test_a_dead_link_is_named(site: Path, link: str, fault: str) -> None:
    (site / "index.html").write_text(link)
    (found,) = check_site.faults(site)
    assert fault in found


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("", f"{NAME}: the reference has it 0 times"),
        (ENTRY.replace("lake_conn_id", "conn_id"), f"{NAME}: the reference lacks lake_conn_id"),
        # That of another class, below.
        (
            ENTRY.replace("<strong>lake_conn_id", "<b>lake_conn_id") + '<section id="o"><strong>lake_conn_id</strong>',
            f"{NAME}: the reference lacks lake_conn_id",
        ),
    ],
)
def test_what_the_reference_lacks_is_named(site: Path, page: str, fault: str) -> None:
    (site / "index.html").write_text("")
    (site / "reference/python/hooks.html").write_text(page)
    assert check_site.faults(site) == [fault]

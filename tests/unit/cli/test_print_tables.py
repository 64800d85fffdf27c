"""Texts of strangers in a table of Airflow's console: they come out as they are, without style, link or error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from airflow_lake_provider.cli.print_tables import show, unstyled

TEXTS = [
    r"\[/x]",
    r"\[link=https://example.com]here",
    r"\\[/x]",
    r"\\\[red]x",
    "[/]",
    "[red]x[/red]",
    "[link=https://example.com]here[/link]",
    "[@click=x]y",
    "[#ff0000]x",
    "[1, 2]",
    "p=a\\",
    "p=a\\\\",
    "[[red]]",
    "x[",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_has_no_style_and_every_character_that_was_written(text: str) -> None:
    rendered = Text.from_markup(unstyled(text), emoji=False)
    assert (rendered.plain, rendered.spans) == (text, [])


@given(st.text(alphabet="\\[]/=ax#@ :", max_size=12))
def test_that_holds_for_any_text(text: str) -> None:
    rendered = Text.from_markup(unstyled(text), emoji=False)
    assert (rendered.plain, rendered.spans) == (text, [])


@pytest.mark.parametrize("text", [*TEXTS, ":bomb:", "\x1b[31mx"])
@pytest.mark.parametrize("output", ["table", "plain"])
def test_a_line_of_a_table_shows_it(text: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    show([text], output, lambda each, shown: {"text": shown(each)})
    assert text.replace("\x1b", " ").strip() in capsys.readouterr().out

"""The pictures are what their numbers say, are shown on a page, and need nothing from elsewhere."""

from __future__ import annotations

import json
import re
import statistics
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from docs.extensions.linked_pages import with_images
from docs.extensions.public_names import public_names
from docs.pictures.benchmark_chart import draw_benchmark
from docs.pictures.drawing import LIGHT, PALETTES, Palette
from docs.pictures.drawings import DEMO, DOCS, IMAGES, drawings
from docs.pictures.heat_map import BANDS, Field, band, draw_heat_map, message
from scripts.markdown_pages import Page, documents

DRAWN = drawings()
PUBLISHED: list[dict[str, Any]] = [
    json.loads(path.read_text()) for path in (DOCS / "benchmarks").glob("upsert-2*.json")
]


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_in_the_repository_is_what_the_script_draws(name: str) -> None:
    assert (IMAGES / name).read_text() == DRAWN[name], "scripts/pictures drawings draws it again"


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_needs_nothing_from_elsewhere(name: str) -> None:
    ET.fromstring(DRAWN[name])
    links = set(re.findall(r"https?://[^\s\"']+", DRAWN[name]))
    # The second names who drew it, in a comment.
    assert links <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    assert "url(http" not in DRAWN[name]


def test_every_picture_is_shown_on_a_page_and_each_shown_picture_is_there() -> None:
    targets = [(page.parent / link).resolve() for page in documents() for link in Page(page.read_text()).links()]
    shown = {target.name for target in targets if target.parent == IMAGES}
    assert shown == {picture.name for picture in IMAGES.iterdir()}


def test_the_flow_names_public_classes_only() -> None:
    named = set(re.findall(r"\bLake[A-Z]\w+", DRAWN["flow-light.svg"]))
    assert len(named) >= 4
    assert named <= {name.rpartition(".")[2] for name in public_names()}


def test_light_and_dark_say_the_same() -> None:
    for name, svg in DRAWN.items():
        if name.endswith("-light.svg"):
            dark = DRAWN[name.replace("-light", "-dark")]
            assert svg != dark
            assert words(svg) == words(dark)


def words(svg: str) -> list[str]:
    """Return the lines of text of a picture."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_picture_of_two_files_is_two_images_on_the_site() -> None:
    page = (
        '<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="../images/flow-dark.svg">\n'
        '  <img alt="The flow." src="../images/flow-light.svg">\n</picture>\n\nText.\n'
    )
    assert set(Page(page).links()) == {"../images/flow-dark.svg", "../images/flow-light.svg"}
    light, dark = (
        f"```{{image}} ../images/flow-{name}.svg\n:alt: The flow.\n:class: only-{name}\n```\n"
        for name in ("light", "dark")
    )
    assert with_images(page) == f"{light}\n{dark}\n\nText.\n"


def test_no_picture_is_large() -> None:
    assert {picture.name for picture in IMAGES.iterdir() if picture.stat().st_size > 200_000} == set()


def test_the_published_ratios_are_those_of_the_published_seconds() -> None:
    assert PUBLISHED
    for results in PUBLISHED:
        for each in results["comparisons"]:
            medians = {side: statistics.median(seconds) for side, seconds in each["seconds"].items()}
            ours = medians.pop("ours")
            for side, peer in medians.items():
                # The seconds of the first run are published with one decimal.
                assert results["ratios"][f"{each['name']}_vs_{side}"] == pytest.approx(peer / ours, rel=0.03)


def test_a_chart_says_median_ratio_and_every_round_also_where_a_peer_is_quicker() -> None:
    seconds = {"ours": [4.0, 2.0, 3.0], "pruned_merge": [1.5, 1.0, 9.0]}
    compared = {"name": "clustered", "rows": 2_000_000, "batch": 1000, "seconds": seconds}
    results = {"date": "2026-01-02", "ratios": {"clustered_vs_pruned_merge": 0.5}, "comparisons": [compared]}
    chart = draw_benchmark(results, LIGHT)
    said = words(chart)
    assert "1,000 time-ordered keys into 2 million rows" in said
    assert {"3.0 s", "1.5 s, 0.50 times ours"} <= set(said)
    assert chart.count("<circle") == 6
    assert "one of 3 rounds" in said[-1]
    assert "2026-01-02" in said[-1]


SWEEP = {
    "date": "2026-01-02",
    "cells": [
        {"rows": 1_000_000, "share": 0.1, "seconds": {"ours": [2.0, 1.0, 1.5], "delta": [3.0], "merge_on_read": [9.0]}},
        {"rows": 3_000_000, "share": 20.0, "seconds": {"ours": [4.0], "copy_on_write": [3.0], "ours_merge": [1.0]}},
    ],
}


@pytest.mark.parametrize("palette", PALETTES, ids=lambda palette: palette.name)
def test_a_heat_map_has_the_ratio_to_the_best_peer_of_each_measured_cell_and_no_other(palette: Palette) -> None:
    chart = draw_heat_map(SWEEP, palette)
    ET.fromstring(chart)
    said = words(chart)
    # Our own strategies are no peers.
    assert [word for word in said if re.fullmatch(r"\d\.\d\d", word)] == ["2.00", "0.75"]
    assert {"Delta", "copy-on-write", "1 million rows", "3 million rows", "0.1 %", "20 %"} <= set(said)
    assert "merge-on-read" not in said
    # One for each cell, and one for each band of the legend.
    assert chart.count("<rect") == 2 + len(BANDS)
    assert {each.label for each in BANDS} <= set(said)
    assert "1 million rows by 0.1 %: 2.00 of Delta" in chart


@pytest.mark.parametrize(
    ("ratio", "label"),
    [
        (0.5, "slower"),
        (0.89, "slower"),
        (0.9, "as fast"),
        (1.09, "as fast"),
        (1.1, "1.1 to 2"),
        (2, "2 to 4"),
        (9, "4"),
    ],
)
def test_a_ratio_has_the_colour_of_its_band(ratio: float, label: str) -> None:
    assert band(ratio).label.startswith(label)


@pytest.mark.parametrize("palette", PALETTES, ids=lambda palette: palette.name)
def test_bands_differ_and_text_can_be_read_on_each(palette: Palette) -> None:
    colours = [each.colour(palette) for each in BANDS]
    assert len(set(colours)) == len(BANDS)
    assert [colour for colour in colours if contrast(colour, palette.text) < 4.5] == []


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, as WCAG 2 has it."""

    def luminance(colour: str) -> float:
        parts = [part / 255 for part in bytes.fromhex(colour[1:])]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("ratios", "title"),
    [
        ((1.2, 2.1, 11.3), "The larger the table, the more an upsert gains"),
        ((1.2, 4.0, 2.1), "Where an upsert gains, and where it does not"),
    ],
)
def test_the_title_of_a_heat_map_is_what_its_numbers_say(ratios: tuple[float, ...], title: str) -> None:
    fields = [Field(rows * 1_000_000, 1.0, ratio, "Delta") for rows, ratio in zip((1, 3, 10), ratios, strict=True)]
    said, numbers = message(fields)
    assert said == title
    assert "at most 1.2 with 1 million rows" in numbers
    assert "1.20 in the worst field" in numbers


def test_the_picture_of_the_demo_has_every_number_of_its_run() -> None:
    result = json.loads(DEMO.read_text())
    said = " ".join(words(DRAWN["demo.svg"])).replace("&#160;", " ")
    for table, before in result["before"].items():
        assert table in said
        for name, old in before.items():
            unit = 1024 if name == "bytes" else 1
            before_it, after_it = (f"{count // unit:,}" for count in (old, result["after"][table][name]))
            assert (before_it if before_it == after_it else f"{before_it} → {after_it}") in said


def test_the_picture_of_the_demo_shows_what_a_person_gains() -> None:
    result = json.loads(DEMO.read_text())
    for name in ("files", "delete_files", "bytes", "snapshots", "stored_files"):
        before, after = (sum(counts[name] for counts in result[when].values()) for when in ("before", "after"))
        assert after < before


def test_the_picture_of_the_demo_says_whether_every_table_is_right() -> None:
    result = json.loads(DEMO.read_text())
    said = " ".join(words(DRAWN["demo.svg"])).replace("&#160;", " ")
    assert ("every table equals the oracle" in said) == (not result["wrong"])

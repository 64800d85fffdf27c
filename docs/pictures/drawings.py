"""Draw all pictures that need neither Spark nor a browser, from the numbers in the repository."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs.pictures.architecture import draw_architecture
from docs.pictures.benchmark_chart import draw_benchmark
from docs.pictures.demo_output import draw_demo
from docs.pictures.drawing import PALETTES
from docs.pictures.flow import draw_flow
from docs.pictures.heat_map import draw_heat_map
from scripts.demo_result import DemoResult

DOCS = Path(__file__).resolve().parents[1]
IMAGES = DOCS / "images"
DEMO = Path(__file__).parent / "demo.json"


def drawings() -> dict[str, str]:
    """Return the SVG of each picture by its file's name."""
    newest = max((DOCS / "benchmarks").glob("upsert-2*.json"))
    flows = {f"flow-{palette.name}.svg": draw_flow(palette) for palette in PALETTES}
    flows |= {f"architecture-{palette.name}.svg": draw_architecture(palette) for palette in PALETTES}
    sweeps = sorted((DOCS / "benchmarks").glob("sweep-*.json"))
    swept = heat_maps(json.loads(sweeps[-1].read_text())) if sweeps else {}
    demo = {"demo.svg": draw_demo(DemoResult.from_json(DEMO.read_text()))}
    return flows | benchmark_charts(json.loads(newest.read_text())) | swept | demo


def benchmark_charts(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the charts of a benchmark by their file's name.

    :param results: the JSON of ``scripts/bench upsert``.
    """
    return {f"upsert-benchmark-{palette.name}.svg": draw_benchmark(results, palette) for palette in PALETTES}


def heat_maps(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the maps of a sweep by their file's name.

    :param results: the JSON of ``scripts/bench upsert --sweep``.
    """
    return {f"upsert-sweep-{palette.name}.svg": draw_heat_map(results, palette) for palette in PALETTES}


def write(pictures: Mapping[str, str], folder: Path) -> None:
    """Write files, and say where they are.

    :param pictures: text by the file's name.
    :param folder: is made when it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures.items():
        (folder / name).write_text(svg)
        print(folder / name)

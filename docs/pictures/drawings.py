"""Draw all pictures that need neither Spark nor a browser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from docs.pictures.drawing import PALETTES
from docs.pictures.flow import draw_flow

IMAGES = Path(__file__).resolve().parents[1] / "images"


def drawings() -> dict[str, str]:
    """Return the SVG of each picture by its file's name."""
    return {f"flow-{palette.name}.svg": draw_flow(palette) for palette in PALETTES}


def write(pictures: Mapping[str, str], folder: Path) -> None:
    """Write files, and say where they are.

    :param pictures: text by the file's name.
    :param folder: is made when it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures.items():
        (folder / name).write_text(svg)
        print(folder / name)

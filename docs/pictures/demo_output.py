"""Draw the end of the demo's output as a terminal shows it."""

from __future__ import annotations

import io
import re

from rich.console import Console

from scripts.demo_result import DemoResult

COLUMNS = 80
# Rich links to fonts on a server of others. Without the link a reader sees a font of his own.
FONT_LINK = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def draw_demo(result: DemoResult) -> str:
    """Return the picture as SVG, one for light and dark pages, as a terminal is dark on both.

    :param result: numbers of a run.
    """
    # Nothing of the machine that draws: neither its terminal nor its variables.
    console = Console(
        record=True, file=io.StringIO(), width=COLUMNS, color_system="truecolor", highlight=False, _environ={}
    )
    result.show(console)
    drawn = FONT_LINK.sub("", console.export_svg(title="scripts/demo", unique_id="demo"))
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"

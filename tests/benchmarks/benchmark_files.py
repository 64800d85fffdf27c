"""Files that a benchmark of upserts leaves below LAKE_HOME; those in docs/ change when somebody copies them there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from docs.pictures.drawings import write


def frame(benchmark: str, command: str) -> dict[str, str]:
    """Return what each JSON begins with."""
    return {"benchmark": benchmark, "date": datetime.now(UTC).date().isoformat(), "command": command}


def folder() -> Path:
    """Return the folder of all files."""
    return Path(os.environ.get("LAKE_HOME", ".lake")) / "benchmarks"


def keep(results: Mapping[str, Any], charts: Mapping[str, str]) -> None:
    """Write the JSON of a run, and its charts.

    :param charts: SVG by the file's name.
    """
    file = f"{results['benchmark']}-{results['date']}.json"
    write({file: json.dumps(results, indent=2) + "\n", **charts}, folder())

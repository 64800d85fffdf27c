"""Bring the chart library of the lake page into the package, by the hash of ``charts.lock``, with its licence.

It comes the way the jars come, so neither Node nor another registry is needed. Without it the page has tables.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from scripts.fetch_jars import fetch_missing, read_lock  # noqa: E402  # found by the line above

LOCK = REPOSITORY / "scripts" / "charts.lock"
# Not in the repository; a release puts them into the wheel.
CHARTS = REPOSITORY / "airflow_lake_provider/plugins/lake_page/static/uplot"
FILES = ("LICENSE", "dist/uPlot.iife.min.js", "dist/uPlot.min.css")


def unpack(archive: Path, folder: Path) -> None:
    """Write the files that the page needs.

    :param archive: as the lock has it.
    :param folder: that gets them.
    :raises SystemExit: the archive lacks one of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as opened:
        for file in FILES:
            names = [name for name in opened.namelist() if name.endswith(f"/{file}")]
            if len(names) != 1:
                sys.exit(f"{archive.name} has {len(names)} files {file!r}, expected one; correct {LOCK.name}")
            (folder / Path(file).name).write_bytes(opened.read(names[0]))


def main() -> None:
    """Fetch the archive where it is missing, and unpack it."""
    (jar,) = read_lock(LOCK)
    folder = Path(sys.argv[1]).resolve()
    fetch_missing([jar], folder)
    unpack(folder / jar.file_name, CHARTS)


if __name__ == "__main__":
    main()

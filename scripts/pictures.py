"""Make the pictures of the documentation again, in docs/images.

Drawings come from numbers in the repository. The demo runs once for its numbers, with a local Spark. Screenshots are of
a real Airflow in Debian's chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docs.pictures.drawings import DEMO, IMAGES, drawings, write
from docs.pictures.lake_page import take_lake_page
from docs.pictures.screenshots import take_screenshots
from tests.end_to_end.lake_environment import REPOSITORY, environment_of

PARTS = ("demo", "drawings", "screenshots", "lake-page")


def main() -> None:
    """Make what is asked for; everything without an argument."""
    parser = argparse.ArgumentParser(prog="scripts/pictures", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=(*PARTS, "all"), default="all", help="what to make, or all")
    asked = parser.parse_args().parts
    parts = PARTS if "all" in asked else asked
    if "demo" in parts:
        run_demo()
    if "drawings" in parts:
        write(drawings(), IMAGES)
    if "screenshots" in parts:
        with empty_home("screenshots") as home:
            take_screenshots(IMAGES, home, free_port())
    if "lake-page" in parts:
        with empty_home("lake-page") as home:
            take_lake_page(IMAGES, home)


def run_demo() -> None:
    """Run the demo from nothing, and keep its numbers in the repository."""
    with empty_home("demo") as home:
        environment = {**environment_of(home), "LAKE_HOME": str(home)}
        subprocess.run([sys.executable, "scripts/demo.py"], cwd=REPOSITORY, env=environment, check=True)
        shutil.copy(home / "demo.json", DEMO)


@contextmanager
def empty_home(name: str) -> Iterator[Path]:
    """Make a folder below LAKE_HOME, and remove it at the end; a failure leaves it, with its logs.

    :param name: of the folder.
    """
    home = Path(os.environ["LAKE_HOME"]).resolve() / "pictures" / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    yield home
    shutil.rmtree(home)


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    main()

"""Virtual environments that have a wheel of ours, what it requires, and nothing else; made by uv.

``scripts/release`` and ``scripts/matrix`` try a wheel in them, as somebody does who runs ``pip install``.
"""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement

PYTHONS = ("3.11", "3.12", "3.13")
# What the machine has set up for its own environments would reach into ours.
_NOT_PASSED_ON = re.compile(
    r"(UV|PIP)_(CONSTRAINT|BUILD_CONSTRAINT|OVERRIDE|RESOLUTION|NO_BINARY)|AIRFLOW_|PYTHON(PATH|HOME)|VIRTUAL_ENV"
)
_TAIL = 4000


class StepFailedError(Exception):
    """A command in an environment failed; the text ends with its output."""


def find_pythons(wanted: Sequence[str] = PYTHONS) -> dict[str, Path]:
    """Find interpreters on this machine by minor version; one that is not found is left out.

    :param wanted: for example ``3.12``.
    """
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += sorted((Path.home() / ".pyenv/versions").glob("*/bin"), reverse=True)
    folders += [Path("/usr/bin"), Path("/usr/local/bin"), *Path("/opt").glob("python*/bin")]
    pythons: dict[str, Path] = {}
    for version in wanted:
        for folder in folders:
            python = folder / f"python{version}"
            if version not in pythons and python.exists() and (base := _base_of(python, version)) is not None:
                pythons[version] = base
    return pythons


def _base_of(python: Path, version: str) -> Path | None:
    # Version managers put scripts on PATH that may fail; and a virtual environment is not what others are made from.
    code = (
        "import sys, venv; assert f'{sys.version_info[0]}.{sys.version_info[1]}' == sys.argv[1]; "
        "print(getattr(sys, '_base_executable', sys.executable))"
    )
    run = subprocess.run([python, "-c", code, version], capture_output=True, text=True, check=False)
    return Path(run.stdout.strip()) if run.returncode == 0 else None


def requirements_of(wheel: Path, extras: Iterable[str] = ()) -> list[str]:
    """Return what a wheel requires with some of its extras, without markers.

    :param wheel: its file.
    :param extras: for example ``sqlite``.
    """
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    asked = ["", *extras]
    requirements = []
    for requirement in map(Requirement, metadata.get_all("Requires-Dist", [])):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in asked):
            requirement.marker = None
            requirements.append(str(requirement))
    return requirements


@dataclass(frozen=True)
class PackageEnvironment:
    """A virtual environment.

    :param folder: where it is.
    :param log: file that gets the output of every command.
    """

    folder: Path
    log: Path

    @classmethod
    def make(
        cls,
        folder: Path,
        python: Path,
        requirements: Sequence[str],
        *,
        resolution: str = "highest",
        overrides: Sequence[str] = (),
    ) -> PackageEnvironment:
        """Make a virtual environment anew and install into it.

        :param folder: replaced where it is there.
        :param python: interpreter to make it from.
        :param requirements: each counts as direct for the resolution.
        :param resolution: ``highest``, or ``lowest-direct`` for the lowest versions that the requirements allow.
        :param overrides: requirements that win over what packages ask for.
        :raises StepFailedError: a version is not there, or the versions do not go together.
        """
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder / "venv", folder / "log")
        made.log.write_text("")
        (folder / "overrides.txt").write_text("".join(f"{line}\n" for line in overrides))
        made.run("uv", "venv", "--quiet", "--clear", "--no-config", "--python", str(python), str(made.folder))
        made.run(
            *("uv", "pip", "install", "--quiet", "--no-config", "--python", str(made.python)),
            *("--resolution", resolution, "--overrides", str(folder / "overrides.txt")),
            *requirements,
        )
        return made

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin/python"

    def versions(self) -> dict[str, str]:
        """Return the installed versions by name."""
        code = (
            "from importlib.metadata import distributions\n"
            "for found in distributions(): print(found.name.lower(), found.version)"
        )
        lines = self.run(str(self.python), "-c", code).splitlines()
        return dict(line.split() for line in lines)

    def run(
        self,
        *command: str,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        accepted: Sequence[int] = (0,),
    ) -> str:
        """Run a command with the environment's programs first on PATH, and return its standard output.

        :param environment: variables beside the machine's.
        :param folder: where it runs.
        :param accepted: exit statuses that are no failure.
        :raises StepFailedError: any other status.
        """
        kept = {name: value for name, value in os.environ.items() if not _NOT_PASSED_ON.match(name)}
        path = f"{self.folder / 'bin'}{os.pathsep}{kept.get('PATH', '')}"
        run = subprocess.run(
            command,
            env={**kept, "PATH": path, **(environment or {})},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n{run.stdout}{run.stderr}\n")
        if run.returncode not in accepted:
            tail = f"{run.stdout}{run.stderr}"[-_TAIL:]
            raise StepFailedError(
                f"{' '.join(command[:4])} ended with {run.returncode}; all of it is in {self.log}\n{tail}"
            )
        return run.stdout

"""Build the sdist and the wheel of a version, try them, and write the release notes; publish nothing.

All is made from the commit that is checked out, below LAKE_HOME/release.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from airflow_lake_provider import __version__  # noqa: E402  # found by the line above
from scripts.fetch_charts import CHARTS, FILES  # noqa: E402
from scripts.package_environment import (  # noqa: E402
    PackageEnvironment,
    StepFailedError,
    find_pythons,
    requirements_of,
)
from scripts.ten_lines import providers_listed, run_ten_lines  # noqa: E402

PACKAGE = "airflow_lake_provider"
DISTRIBUTION = "airflow-lake-provider"
# The embedded default: a catalog in a file.
EXTRAS = ("sqlite",)
# Beside the package itself.
IN_THE_SDIST = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
IN_THE_WHEEL = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}


def main() -> int:
    """Make a release; the exit code says whether it may be published."""
    try:
        release(Path(os.environ["LAKE_HOME"]) / "release")
    except StepFailedError as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    return 0


def release(folder: Path) -> None:
    """Do all steps, and say them.

    :param folder: gets ``dist``, the notes, and the environments.
    :raises StepFailedError: a step failed; nothing was published.
    """
    refuse_changed_files(REPOSITORY)
    if len(chart_files(REPOSITORY)) != len(FILES):
        raise StepFailedError(f"{CHARTS} lacks files of the charts; run scripts/fetch_charts.py as scripts/setup does")
    heading, text = notes((REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"), __version__)
    shutil.rmtree(folder, ignore_errors=True)
    built = build(REPOSITORY, folder)
    wheel, sdist = _one(built, "*.whl"), _one(built, "*.tar.gz")
    _run("twine", "check", "--strict", str(wheel), str(sdist))
    files = package_files(REPOSITORY)
    refuse_other_files(wheel_files(wheel), files, wheel.name)
    refuse_other_files(sdist_files(sdist), files, sdist.name)
    print(f"{wheel.name} and {sdist.name}: {len(files)} files of the package each, and what describes it")
    try_versions(wheel, folder)
    (folder / "notes.md").write_text(text, encoding="utf-8")
    print(f"Notes: {folder / 'notes.md'}")
    publish = f"git tag v{__version__} && twine upload {built}/*"
    if "unreleased" in heading:
        publish = "in CHANGELOG.md write the date in place of 'unreleased', commit, and run this again"
    print(f"Nothing was published. Next: {publish}")


def refuse_changed_files(repository: Path) -> None:
    """Refuse a work tree that is not its commit.

    :raises StepFailedError: naming the files.
    """
    changed = _run("git", "-C", str(repository), "status", "--porcelain")
    if changed:
        raise StepFailedError(f"commit or remove these files first, a release is made from a commit:\n{changed}")


def notes(changelog: str, version: str) -> tuple[str, str]:
    """Return heading and text of the newest section of a changelog.

    :param version: that it has to be of.
    :raises StepFailedError: it is of another version, or empty.
    """
    sections = re.split(r"(?m)^## +(.+)\n", changelog)[1:]
    heading, text = (sections[0], sections[1].strip()) if sections else ("nothing", "")
    if re.split(r"[ ,]", heading.strip("[]"))[0].strip("[]") != version:
        raise StepFailedError(
            f"__version__ is {version}, and the newest section of CHANGELOG.md is {heading!r}; "
            f"write a section '## {version}, <date>' at its top, or correct __version__"
        )
    if not text:
        raise StepFailedError(f"the section {heading!r} of CHANGELOG.md is empty; say what the version brings")
    raised = re.sub(r"(?m)^#(#+ )", r"\1", text)
    return heading, f"# {DISTRIBUTION} {version}\n\n{raised}\n"


def build(repository: Path, folder: Path) -> Path:
    """Build from the commit, not from the folder: neither left-overs nor ignored files get in.

    :return: the folder of the sdist, and of the wheel that was made from it.
    """
    tree, built = folder / "tree", folder / "dist"
    tree.mkdir(parents=True)
    archive = folder / "tree.tar"
    _run("git", "-C", str(repository), "archive", "--output", str(archive), "HEAD")
    # Not tarfile: its filters came with Python 3.11.4, and ours runs on 3.11.
    _run("tar", "-xf", str(archive), "-C", str(tree))
    archive.unlink()
    for file in chart_files(repository):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / file, tree / file)
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(tree))
    shutil.rmtree(tree)
    return built


def package_files(repository: Path) -> set[str]:
    """Return the files of the package in the commit and those of the charts, as paths from the repository."""
    return chart_files(repository) | set(_run("git", "-C", str(repository), "ls-files", PACKAGE).splitlines())


def chart_files(repository: Path) -> set[str]:
    """Return the files of the chart library, which are in no commit, as paths from the repository."""
    folder = repository / CHARTS.relative_to(REPOSITORY)
    return {str(path.relative_to(repository)) for path in folder.glob("*")}


def wheel_files(wheel: Path) -> set[str]:
    """Return the files of a wheel, without those that every wheel of ours has beside the package."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    described = {name for name in names if name.split("/", 1)[0].endswith(".dist-info")}
    missing = IN_THE_WHEEL - {name.split("/", 1)[1] for name in described}
    if missing:
        raise StepFailedError(f"{wheel.name} lacks {sorted(missing)}")
    return names - described


def sdist_files(sdist: Path) -> set[str]:
    """Return the files of an sdist, without those that every sdist of ours has beside the package."""
    with tarfile.open(sdist) as archive:
        names = {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}
    missing = IN_THE_SDIST - names
    if missing:
        raise StepFailedError(f"{sdist.name} lacks {sorted(missing)}")
    return {name for name in names - IN_THE_SDIST if not name.startswith(f"{PACKAGE}.egg-info/")}


def refuse_other_files(present: set[str], expected: set[str], where: str) -> None:
    """Refuse a distribution that lacks a file of the package, or has one that is none.

    :raises StepFailedError: naming them.
    """
    if present != expected:
        raise StepFailedError(
            f"{where} lacks {sorted(expected - present)[:10]} and should not have {sorted(present - expected)[:10]}"
        )


def try_versions(wheel: Path, folder: Path) -> None:
    """Install the wheel with the lowest and with the highest versions that it allows, and run the ten lines.

    :raises StepFailedError: they do not go together, Airflow does not list the provider, or the DAG fails.
    """
    pythons = list(find_pythons().items())
    requirements = requirements_of(wheel, EXTRAS)
    # The oldest Python with the lowest versions: newer ones have no wheels of those.
    for resolution, (version, python) in (("lowest-direct", pythons[0]), ("highest", pythons[-1])):
        place = folder / resolution
        made = PackageEnvironment.make(place, python, [str(wheel), *requirements], resolution=resolution)
        versions = made.versions()
        print(f"{resolution} on Python {version}: {_named(versions, requirements)}")
        listed = providers_listed(made, place / "home")
        if listed.get(DISTRIBUTION) != __version__:
            raise StepFailedError(f"airflow providers list has {sorted(listed)}, expected {DISTRIBUTION} {__version__}")
        run_ten_lines(made, place / "home")
        print(f"{resolution} on Python {version}: Airflow lists the provider, and the ten lines ran twice")


def _named(versions: dict[str, str], requirements: list[str]) -> str:
    names = {re.split(r"[\[<>=,;~! ]", each)[0] for each in requirements}
    return ", ".join(f"{name} {versions[name]}" for name in sorted(names))


def _one(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def _run(*command: str) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise StepFailedError(f"{' '.join(command)} ended with {run.returncode}:\n{(run.stdout + run.stderr)[-4000:]}")
    return run.stdout


if __name__ == "__main__":
    sys.exit(main())

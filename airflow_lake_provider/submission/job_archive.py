"""The driver's code as a zip for ``--py-files``, named by its content."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
APPLICATION = PACKAGE / "spark_jobs" / "run_job.py"
_SHIPPED = ("contracts", "spark_jobs")
# A fixed time in every entry: equal code gives an equal archive on every worker.
_ENTRY_TIME = (2020, 1, 1, 0, 0, 0)


def job_archive(folder: Path) -> Path:
    """Write the archive into ``folder`` unless it is there, and return its path.

    :param folder: where archives of this worker are kept.
    :return: ``airflow_lake_provider-<12 hex of content>.zip``.
    """
    sources = _sources()
    digest = hashlib.sha256()
    for source in sources:
        digest.update(str(source.relative_to(PACKAGE)).encode() + b"\0" + source.read_bytes())
    archive = folder / f"{PACKAGE.name}-{digest.hexdigest()[:12]}.zip"
    if not archive.exists():
        _write(archive, sources)
    return archive


def _sources() -> list[Path]:
    shipped = [path for name in _SHIPPED for path in (PACKAGE / name).rglob("*.py")]
    return sorted([PACKAGE / "__init__.py", *shipped])


def _write(archive: Path, sources: list[Path]) -> None:
    # Tasks of one worker start together: each writes its own file and the rename of the last one wins.
    unfinished = archive.with_suffix(f".{os.getpid()}.unfinished")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as bundle:
        for source in sources:
            name = str(source.relative_to(PACKAGE.parent))
            bundle.writestr(zipfile.ZipInfo(name, _ENTRY_TIME), source.read_bytes())
    unfinished.replace(archive)

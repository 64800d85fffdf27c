"""The driver's code as a zip for ``--py-files``, named by its content."""

from __future__ import annotations

import hashlib
import io
import logging
import secrets
import zipfile
from pathlib import Path

from airflow_lake_provider.submission.private_folder import read_own_file, write_private

_log = logging.getLogger(__name__)
PACKAGE = Path(__file__).resolve().parents[1]
APPLICATION = PACKAGE / "spark_jobs" / "run_job.py"
_SHIPPED = ("contracts", "spark_jobs")
# A fixed time in every entry: equal code gives an equal archive on every worker.
_ENTRY_TIME = (2020, 1, 1, 0, 0, 0)


def job_archive(folder: Path) -> Path:
    """Write the archive into ``folder`` unless it is there with these bytes, and return its path.

    :param folder: where archives of this worker are kept, see ``private_folder``.
    :return: ``airflow_lake_provider-<12 hex of content>.zip``.
    :raises OSError: it cannot be written.
    """
    content = _content()
    archive = folder / f"{PACKAGE.name}-{hashlib.sha256(content).hexdigest()[:12]}.zip"
    if not _is_there(archive, content):
        _log.info("Writing the code of jobs to %s, once for each version", archive)
        _write(archive, content)
    return archive


def _content() -> bytes:
    bundled = io.BytesIO()
    with zipfile.ZipFile(bundled, "w") as bundle:
        for source in _sources():
            name = str(source.relative_to(PACKAGE.parent))
            bundle.writestr(zipfile.ZipInfo(name, _ENTRY_TIME), source.read_bytes())
    return bundled.getvalue()


def _sources() -> list[Path]:
    shipped = [path for name in _SHIPPED for path in (PACKAGE / name).rglob("*.py")]
    return sorted([PACKAGE / "__init__.py", *shipped])


def _is_there(archive: Path, content: bytes) -> bool:
    """Tell whether these bytes are there: drivers run them, so a name alone says nothing."""
    try:
        return read_own_file(archive, len(content) + 1) == content
    except FileNotFoundError:
        return False


def _write(archive: Path, content: bytes) -> None:
    # Tasks of one worker start together: each writes its own file and the rename of the last one wins.
    unfinished = archive.with_suffix(f".{secrets.token_hex(8)}.unfinished")
    write_private(unfinished, content)
    unfinished.replace(archive)

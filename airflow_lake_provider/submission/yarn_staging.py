"""The folder in which Spark stages an application on YARN, secrets among it: which one it is, and its removal."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

# An application removes its own folder when it ends (ApplicationMaster.cleanupStagingDir), secrets included. One that
# is killed has 250 ms for that, and seldom enough.
_APPLICATION_ID = re.compile(r"application_\d+_\d+")
# As Spark's Client says it of each file that it puts there; of the settings it always does.
_UPLOAD, _TO, _STAGING = "Uploading resource ", " -> ", "/.sparkStaging/"
_SECONDS = 45


def folder_in_line(line: str) -> str | None:
    """Return the staging folder that a line of ``spark-submit`` names; None for other lines."""
    _, is_upload, files = line.partition(_UPLOAD)
    base, _, staged = files.rpartition(_TO)[2].partition(_STAGING)
    application, is_below, _ = staged.partition("/")
    is_url = base[:1].isalpha() and ":/" in base
    folder = f"{base}{_STAGING}{application}"
    return folder if is_upload and is_below and is_url and is_of_application(folder, application) else None


def is_of_application(folder: str, application_id: str) -> bool:
    """Tell whether a folder is the one of an application."""
    return bool(_APPLICATION_ID.fullmatch(application_id)) and folder.endswith(f"{_STAGING}{application_id}")


def staging_folder(
    application_id: str,
    settings: Mapping[str, object],
    *,
    principal: str | None = None,
    proxy_user: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return where the folder of an application is likely to be; below the user's home where it is relative.

    Below ``spark.yarn.stagingDir`` each user has a folder (``Client.submitApplication`` of Spark 3.5 and 4.1). A site
    may map principals and homes in its own way, which only Spark's log tells.

    :param settings: Spark's, of which ``spark.yarn.stagingDir`` counts.
    :param principal: by whose keytab it was submitted.
    :param proxy_user: for whom it was.
    :param environment: of ``spark-submit``, beside this process's.
    :raises ValueError: the id is none of YARN's, so the folder would be another one.
    """
    if not _APPLICATION_ID.fullmatch(application_id):
        raise ValueError(f"{application_id!r} is no id of a YARN application, such as application_1764000000000_0001")
    short = re.split("[/@]", principal)[0] if principal else None
    base = str(settings.get("spark.yarn.stagingDir") or "").rstrip("/")
    if base:
        base = f"{base}/{proxy_user or short or _worker(environment or {})}"
    elif short and not proxy_user:
        # The shell that removes it has the worker's own ticket, and with it perhaps another home.
        base = f"/user/{short}"
    return "/".join(filter(None, (base, ".sparkStaging", application_id)))


def _worker(environment: Mapping[str, str]) -> str:
    """Return the user that Hadoop takes this process for."""
    name = {**os.environ, **environment}.get("HADOOP_USER_NAME")
    return name or pwd.getpwuid(os.getuid()).pw_name


def remove_staged_files(
    folder: str, spark_submit: str, environment: Mapping[str, str], *, is_certain: bool
) -> str | None:
    """Remove the folder of an application that has ended.

    Spark's own Hadoop does it, with the configuration and the credentials by which it put the files there.

    :param spark_submit: path of ``spark-submit``, beside which ``spark-class`` is.
    :param environment: variables beside this process's, such as ``HADOOP_CONF_DIR``.
    :param is_certain: whether Spark itself named the folder; it is then no error that it is gone.
    :return: None, or why the files may still be there.
    """
    shell = [str(Path(spark_submit).with_name("spark-class")), "org.apache.hadoop.fs.FsShell"]
    # With -f the shell ends well where there is nothing, as under another user's home.
    options = ["-r", "-f", "-skipTrash"] if is_certain else ["-r", "-skipTrash"]
    try:
        done = subprocess.run(
            [*shell, "-rm", *options, folder],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env={**os.environ, **environment},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip()[-2000:]

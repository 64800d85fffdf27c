"""Files that ``spark-submit`` staged for a YARN application: a killed one leaves them, secrets included.

An application removes its own folder when it ends (``ApplicationMaster.cleanupStagingDir``). One that is killed has
250 ms for that, and seldom enough.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_APPLICATION = re.compile(r"application_\d+_\d+")
_SECONDS = 45


def staging_folder(application_id: str, settings: Mapping[str, object]) -> str:
    """Return the folder of an application; a relative one is below the user's home in the cluster's file system.

    :param settings: Spark's, of which ``spark.yarn.stagingDir`` counts.
    :raises ValueError: the id is none of YARN's, so the folder would be another one.
    """
    if not _APPLICATION.fullmatch(application_id):
        raise ValueError(f"{application_id!r} is no id of a YARN application, such as application_1764000000000_0001")
    base = str(settings.get("spark.yarn.stagingDir") or "").rstrip("/")
    return "/".join(filter(None, (base, ".sparkStaging", application_id)))


def remove_staged_files(folder: str, spark_submit: str, environment: Mapping[str, str]) -> str | None:
    """Remove the folder of an application that has ended; one that is gone is no error.

    Spark's own Hadoop does it, with the configuration and the credentials by which it put the files there.

    :param spark_submit: path of ``spark-submit``, beside which ``spark-class`` is.
    :param environment: variables beside this process's, such as ``HADOOP_CONF_DIR``.
    :return: None, or why the files are still there.
    """
    shell = [str(Path(spark_submit).with_name("spark-class")), "org.apache.hadoop.fs.FsShell"]
    try:
        done = subprocess.run(
            [*shell, "-rm", "-r", "-f", "-skipTrash", folder],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env={**os.environ, **environment},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip()[-2000:]

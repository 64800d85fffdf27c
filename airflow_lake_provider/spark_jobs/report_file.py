"""Leave the driver's report where the worker looks for it."""

from __future__ import annotations

import secrets
from pathlib import Path

from pyspark.sql import SparkSession


def write_report(spark: SparkSession | None, path: str, text: str) -> None:
    """Write ``text`` to ``path``.

    :param spark: None where no session could be started; then only a path of this machine can be written.
    :param path: a path of this machine, or a URL of a file system that Hadoop knows (``s3a://``, ``hdfs://``).
    """
    if "://" not in path:
        _write_local(path, text)
        return
    jvm = None if spark is None else spark._jvm
    if spark is None or jvm is None:
        raise RuntimeError("the session has no JVM; it was stopped")
    target = jvm.org.apache.hadoop.fs.Path(_as_hadoop_says(path))
    stream = target.getFileSystem(spark._jsc.hadoopConfiguration()).create(target, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _as_hadoop_says(path: str) -> str:
    scheme, _, rest = path.partition("://")
    # fsspec says s3:// where Hadoop's connector listens to s3a://, and gcs:// where it listens to gs://.
    return f"{({'s3': 's3a', 'gcs': 'gs'}).get(scheme, scheme)}://{rest}"


def _write_local(path: str, text: str) -> None:
    # The worker must never read half a report.
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Others may write to a shared folder: a name that they guess could be a link to a file of ours.
    unfinished = target.with_name(f"{target.name}.{secrets.token_hex(8)}.unfinished")
    with unfinished.open("x", encoding="utf-8") as file:
        file.write(text)
    unfinished.replace(target)

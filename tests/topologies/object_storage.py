"""An imitation of S3 on loopback, which checks no keys, and the jar by which Iceberg-Java speaks to it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import boto3
from botocore.exceptions import EndpointConnectionError

from tests.end_to_end.lake_environment import REPOSITORY

BUCKET = "lake"
_LOCK = Path(__file__).with_name("jars.lock")
_SERVER = (Path(sys.executable).with_name("moto_server"),)
_SECONDS = 60


@contextmanager
def object_storage(
    port: int, log: Path, mark: str, command: Sequence[str | Path] = _SERVER
) -> Iterator[Mapping[str, str]]:
    """Serve a store with one empty bucket, and return the properties by which PyIceberg finds it.

    :param port: free.
    :param log: file for its requests.
    :param mark: of its keys, see ``Topology``.
    :param command: starts the server, given host and port.
    """
    properties = {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.region": "us-east-1",
        "s3.access-key-id": f"{mark}key-id",
        "s3.secret-access-key": f"{mark}secret-key",
    }
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "-H", "127.0.0.1", "-p", str(port)],
            cwd=REPOSITORY,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _make_bucket(properties)
            yield properties
        finally:
            server.kill()
            server.wait()


def _make_bucket(properties: Mapping[str, str]) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=properties["s3.endpoint"],
        region_name=properties["s3.region"],
        aws_access_key_id=properties["s3.access-key-id"],
        aws_secret_access_key=properties["s3.secret-access-key"],
    )
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            client.create_bucket(Bucket=BUCKET)
        except EndpointConnectionError:
            assert time.monotonic() < deadline, "the object store was not ready"
            time.sleep(0.5)
        else:
            return


def aws_jars(folder: Path) -> tuple[Path, ...]:
    """Bring the jars of the lock beside this file into a folder, once."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(REPOSITORY / "scripts" / "fetch_jars.py"), str(folder), "--lock", str(_LOCK)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return tuple(sorted(folder.glob("*.jar")))

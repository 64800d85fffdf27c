"""An imitation of Glue on loopback, with the object store of its tables in the same process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.topologies.glue_server import REFUSED, UPDATED
from tests.topologies.object_storage import BUCKET, object_storage

WAREHOUSE = f"s3://{BUCKET}/warehouse"
_SERVER = (sys.executable, "-m", "tests.topologies.glue_server")


@contextmanager
def glue_catalog(port: int, log: Path, mark: str) -> Iterator[Mapping[str, Any]]:
    """Serve an empty catalog, and return the fields of a connection to it.

    :param port: free; ``log``: file for its requests.
    :param mark: of the store's keys, see ``Topology``.
    """
    with object_storage(port, log, mark, _SERVER) as store:
        own = {"type": "glue", "warehouse": WAREHOUSE, "glue.region": store["s3.region"]}
        yield {"conn_type": "iceberg", "extra": {**own, "glue.endpoint": store["s3.endpoint"], **store}}


def glue_keys(mark: str) -> Mapping[str, str]:
    """Return the environment by which both sides sign for Glue; the keys of the connection are the store's alone."""
    return {"AWS_ACCESS_KEY_ID": f"{mark}glue-key-id", "AWS_SECRET_ACCESS_KEY": f"{mark}glue-secret-key"}


def updates(log: Path, table: str, outcome: str) -> list[str]:
    """Return the version that each update of a table named.

    :param outcome: ``UPDATED`` or ``REFUSED``.
    """
    assert outcome in (UPDATED, REFUSED)
    lines = [line.split() for line in log.read_text().splitlines() if line.startswith(f"{outcome} {table} ")]
    return [version for *_, version in lines]

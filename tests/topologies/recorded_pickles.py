"""A driver that leaves a copy of all that it pickles for tasks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from tests.soak import served_specs

FILE = "LAKE_PICKLES"


def serve() -> None:
    """Serve specs; the variable :data:`FILE` names the file of the copies."""
    dumps = CloudPickleSerializer.dumps

    def recorded(self: CloudPickleSerializer, value: Any) -> bytes:
        pickled: bytes = dumps(self, value)  # type: ignore[no-untyped-call]
        with Path(os.environ[FILE]).open("ab") as file:
            file.write(pickled)
        return pickled

    CloudPickleSerializer.dumps = recorded  # type: ignore[method-assign]
    served_specs.serve()

"""Serve moto's imitation of AWS with a Glue that refuses the update of a version which is not the newest.

AWS refuses it (``VersionId`` of its UpdateTable), and commits to Glue are atomic by nothing else. moto takes any.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.glue.responses import GlueResponse
from moto.server import main

UPDATED, REFUSED = "updated", "refused"
_one_at_a_time = threading.Lock()
_update_any = GlueResponse.update_table


def update_newest(self: GlueResponse) -> Any:
    """Update a table if the request names its newest version, and say which version it named."""
    database, table = self.parameters["DatabaseName"], self.parameters["TableInput"]["Name"]
    named = self.parameters.get("VersionId")
    with _one_at_a_time:
        newest = self.glue_backend.get_table(database, table).as_dict()["VersionId"]
        is_newest = named in (None, newest)
        line = f"{UPDATED if is_newest else REFUSED} {database}.{table} version {named}\n"
        # At once: other threads write their requests into the same file.
        os.write(sys.stdout.fileno(), line.encode())
        if not is_newest:
            raise JsonRESTError("ConcurrentModificationException", f"version {named} is not the newest, {newest} is")
        return _update_any(self)


if __name__ == "__main__":
    GlueResponse.update_table = update_newest  # type: ignore[method-assign]
    main(sys.argv[1:])

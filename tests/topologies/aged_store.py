"""Serve moto's imitation of S3 with objects that are four days old, but for those whose names begin with ``young``."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from moto.s3.models import FakeKey
from moto.server import main

_begin = FakeKey.__init__


def begin_aged(self: FakeKey, *arguments: Any, **named: Any) -> None:
    """Make an object, and set its time back."""
    _begin(self, *arguments, **named)
    if "/young" not in self.name:
        self.last_modified -= timedelta(days=4)


if __name__ == "__main__":
    # The server has no setting for it.
    FakeKey.__init__ = begin_aged  # type: ignore[method-assign]
    main(sys.argv[1:])

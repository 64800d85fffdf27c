"""Tests over random examples draw the same ones in each run, so that CI tells of a change and not of its luck.

``LAKE_EXAMPLES=40 scripts/test ...`` draws that many, and others each time.
"""

from __future__ import annotations

import os

from hypothesis import settings

# A slow example on a busy machine is no failure.
settings.register_profile("fixed", derandomize=True, deadline=None)
if "LAKE_EXAMPLES" not in os.environ:
    settings.load_profile("fixed")

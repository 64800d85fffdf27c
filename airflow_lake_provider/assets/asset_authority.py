"""The authority of a table's asset URI."""

from __future__ import annotations

import re

from airflow_lake_provider.contracts.errors import InvalidConnectionError

_AUTHORITY = re.compile(r"[A-Za-z0-9._-]+")


def checked_authority(authority: str) -> str:
    """Return ``authority``.

    :raises InvalidConnectionError: unless it has only letters, digits, ``.``, ``_`` and ``-``.
    """
    if not _AUTHORITY.fullmatch(authority):
        raise InvalidConnectionError(
            f"asset authority {authority!r} does not fit into an asset URI; use letters, digits, '.', '_' and '-'"
        )
    return authority

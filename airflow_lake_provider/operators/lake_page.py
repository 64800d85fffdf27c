"""Entries that tasks of maintenance leave in XCom for the lake page."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

_log = logging.getLogger(__name__)


def push_entries(context: Context, entries: Iterable[tuple[str, Any]]) -> None:
    """Put entries into XCom in their order; what is only shown fails no task."""
    try:
        for key, entry in entries:
            context["ti"].xcom_push(key=key, value=entry)
    except Exception:  # noqa: BLE001
        _log.warning("The lake page will not show this run: its entry could not be put into XCom", exc_info=True)

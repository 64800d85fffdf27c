"""Entries that tasks of maintenance leave for the lake page in XCom, and a link to the page."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from airflow_lake_provider.contracts.json_codec import storable
from airflow_lake_provider.contracts.lake_page import PAGE

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

_log = logging.getLogger(__name__)


def push_entries(context: Context, entries: Iterable[tuple[str, Any]]) -> None:
    """Put entries into XCom in their order; what is only shown fails no task."""
    try:
        for key, entry in entries:
            context["ti"].xcom_push(key=key, value=storable(entry))
    except Exception:  # noqa: BLE001  # a page is not worth a night
        _log.warning("The lake page will not show this run: its entry could not be put into XCom", exc_info=True)


class LakePageLink(BaseOperatorLink):
    """Link of a task to the lake page: to the page of its table, or of all tables where it has several."""

    name = "Lake page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002  # of Airflow
        """Return the address of the page, which opens it within Airflow's UI where its user may see plugins."""
        base_url = conf.get("api", "base_url", fallback="/").rstrip("/")
        table = getattr(operator, "table", None)
        names = {"conn": getattr(operator, "lake_conn_id", None), "table": table}
        asked = {name: value for name, value in names.items() if isinstance(value, str) and "{{" not in value}
        page = f"{base_url}{PAGE}/open"
        return f"{page}?{urlencode(asked)}" if "table" in asked else page

"""Links of a task: to the pages of its Spark application, at Spark and at YARN, and to the lake page.

Airflow shows what the worker left in XCom, so nothing is looked up when a page is opened. The lake page shows entries
that tasks of maintenance leave there, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from airflow_lake_provider.contracts.json_codec import storable
from airflow_lake_provider.contracts.lake_page import PAGE
from airflow_lake_provider.hooks.lake_spark_submit import SparkApplication, SparkTarget
from airflow_lake_provider.operators.outcome import ReportLink

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

    Base = SparkSubmitOperator
else:
    Base = object

_log = logging.getLogger(__name__)


class SparkApplicationLink(BaseOperatorLink):
    """Link to the pages of a Spark application: the driver's while it runs, the history server's afterwards."""

    name = "Spark application"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002  # of Airflow
        """Return the address at the history server; empty where there is none, as the driver's pages are gone."""
        return operator.history_page if isinstance(operator, LinkedApplication) else ""


class YarnApplicationLink(BaseOperatorLink):
    """Link to the page of an application at YARN's resource manager."""

    name = "YARN application"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002  # of Airflow
        """Return the address; empty where the application did not run on YARN, or nobody knows its address."""
        return operator.yarn_page if isinstance(operator, LinkedApplication) else ""


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


class LinkedApplication(Base):
    """Part of an operator that links its application."""

    operator_extra_links = (ReportLink(), SparkApplicationLink(), YarnApplicationLink(), LakePageLink())
    # None until the application is about to be submitted, and until it is known.
    _links_of: tuple[SparkTarget, Context] | None = None
    _application: SparkApplication | None = None

    def link_to(self, target: SparkTarget, context: Context) -> None:
        """Note where the application will run, and whose XCom takes the links."""
        self._links_of = target, context

    def show_application(self, application: SparkApplication) -> None:
        """Put the links of an application into XCom while it runs; Airflow does so only when a task has ended."""
        self._application = application
        pages = {
            SparkApplicationLink().xcom_key: application.ui_url or self.history_page,
            YarnApplicationLink().xcom_key: self.yarn_page,
        }
        for key, page in pages.items():
            if page and self._links_of is not None:
                _keep(self._links_of[1], key, page)

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for an application of the cluster, which may be one that an earlier try has started."""
        if self._application is None:
            self.show_application(SparkApplication(id=str(external_id)))
        super().poll_until_complete(external_id, context)

    @property
    def history_page(self) -> str:
        """Address of the application at the history server; empty where that is not known."""
        if self._links_of is None or self._application is None or self._links_of[0].history_url is None:
            return ""
        return f"{self._links_of[0].history_url}/history/{self._application.id}"

    @property
    def yarn_page(self) -> str:
        """Address of the application at YARN; empty where that is not known."""
        if self._links_of is None or self._application is None or self._links_of[0].yarn_url is None:
            return ""
        is_yarn = self._application.id.startswith("application_")
        return f"{self._links_of[0].yarn_url}/cluster/app/{self._application.id}" if is_yarn else ""


def push_entries(context: Context, entries: Iterable[tuple[str, Any]]) -> None:
    """Put entries into XCom in their order; what is only shown fails no task."""
    try:
        for key, entry in entries:
            context["ti"].xcom_push(key=key, value=storable(entry))
    except Exception:  # noqa: BLE001  # a page is not worth a night
        _log.warning("The lake page will not show this run: its entry could not be put into XCom", exc_info=True)


def _keep(context: Context, key: str, page: str) -> None:
    try:
        context["ti"].xcom_push(key=key, value=page)
    # A link that is missing fails no task.
    except Exception:  # noqa: BLE001
        _log.warning("The link to %s could not be kept", page, exc_info=True)

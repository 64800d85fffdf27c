"""Outcome of a task where Airflow shows it: in the label of its instance, as an XCom of its own, by a link.

Tasks cannot write notes in Airflow 3.3 (apache/airflow#61066).
"""

from __future__ import annotations

import logging
from collections.abc import Sized
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from airflow_lake_provider.contracts.reports.job import JobReport

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import Logger, TaskInstanceKey

_log = logging.getLogger(__name__)
# Variable of the task's context, which a ``map_index_template`` of the author's may read, and key of the XCom.
CONTEXT_NAME = "lake_outcome"
XCOM_KEY = "outcome"
# Characters that Airflow's database keeps of a label.
_LONGEST = 250
# Label of an instance: the tables of its job, and once it has ended its outcome, too.
LABEL = f"{{{{ (lake_label if lake_label is defined else task.place())[:{_LONGEST}] }}}}"
_SHORTEST_PLACE = 50
_COUNTS = {
    "rows_inserted": "inserted",
    "rows_appended": "appended",
    "rows_written": "written",
    "rows_replaced": "replaced",
    "rows_updated": "updated",
    "rows_deleted": "deleted",
    "dead_letters": "put aside",
    "files_rewritten": "files rewritten",
    "files_added": "files written",
    "failed_groups": "file groups left",
    "manifests_rewritten": "manifests merged",
    "snapshots_expired": "snapshots expired",
    "data_files_deleted": "data files deleted",
    "snapshots_rolled_back": "snapshots rolled back",
    "run_keys_added": "runs published",
}


class ReportLink(BaseOperatorLink):
    """Link to the task's XCom, where its report is."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002  # of Airflow
        """Return the address of the page with the XCom of one task instance."""
        parts = {"dags": ti_key.dag_id, "runs": ti_key.run_id, "tasks": ti_key.task_id}
        if ti_key.map_index >= 0:
            parts["mapped"] = str(ti_key.map_index)
        path = "/".join(f"{name}/{quote(value, safe='')}" for name, value in parts.items())
        return f"{conf.get('api', 'base_url', fallback='/').rstrip('/')}/{path}/xcom"


def in_short(report: JobReport) -> str:
    """Return the outcome and what was changed: ``applied, 1,200 inserted, 3 deleted``."""
    counts = {words: _number(getattr(report, name, 0)) for name, words in _COUNTS.items()}
    changed = [f"{count:,} {words}" for words, count in counts.items() if count]
    return ", ".join([report.outcome.value, *changed])


def place_of(table: str, branch: str | None) -> str:
    """Return the table as outcomes name it, with the branch that is written in place of main."""
    return table if branch in (None, "main") else f"{table} on branch {branch}"


def log_outcome(log: Logger, report: JobReport, branch: str, seconds: float) -> None:
    """Write the lines of a report into a task's log."""
    for warning in report.warnings:
        log.warning("%s: %s", report.table, warning)
    # The last line, which Airflow's page of a log shows first.
    log.info("%s: %s, in %.0f s: %s", place_of(report.table, branch), in_short(report), seconds, report.reason)


def show_outcome(context: Context, place: str, outcome: str) -> None:
    """Put an outcome into the instance's label and XCom.

    :param context: of the task, from which Airflow renders the label once the task has ended.
    :param place: of :func:`place_of`.
    :param outcome: of :func:`in_short`, or the name of an error.
    """
    values: dict[str, Any] = context  # type: ignore[assignment]  # Airflow's keys are typed, those of authors are not
    values[CONTEXT_NAME] = outcome
    # What fails after its report was read is shown once more.
    if values.get("map_index_template") in (None, LABEL):
        values["map_index_template"] = LABEL
        # Names of many tables are long, and how it ended is not.
        room = max(_SHORTEST_PLACE, _LONGEST - len(f": {outcome}"))
        shown = place if len(place) <= room else f"{place[: room - 4]} ..."
        values["lake_label"] = (f"{shown}: {outcome}" if place else outcome)[:_LONGEST]
    try:
        context["ti"].xcom_push(key=XCOM_KEY, value=outcome)
    # What is only shown fails no task.
    except Exception:  # noqa: BLE001
        _log.warning("The outcome %s could not be put into XCom", outcome, exc_info=True)


def _number(count: object) -> int:
    if isinstance(count, int):
        return count
    return len(count) if isinstance(count, Sized) else 0

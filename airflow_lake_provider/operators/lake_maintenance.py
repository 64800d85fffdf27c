"""LakeMaintenanceOperator: the jobs of a plan; its verdict; and both with the plan as one group, lake_maintenance.

The verdict notifies each owner of tables that need a person.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, TaskGroup, TriggerRule
from airflow.sdk.definitions.xcom_arg import PlainXComArg
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_lake_provider.contracts.argument_validation import names
from airflow_lake_provider.contracts.author_object import refuse_template
from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, MissingTableError
from airflow_lake_provider.contracts.reports.history_entry import DONE, FAILED, NOTHING_DUE
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.hooks.maintenance_leases import MaintenanceLeases
from airflow_lake_provider.hooks.own_tables import name_of_own_table
from airflow_lake_provider.maintenance.costs import SHORT_JOB, SHORT_JOB_BYTES
from airflow_lake_provider.maintenance.history_entries import history_entries
from airflow_lake_provider.maintenance.outcome_entry import outcome_entry, outcome_key
from airflow_lake_provider.maintenance.outcomes import OUTCOMES, TaskOutcome, counted, outcome_of, outcomes_of_run
from airflow_lake_provider.maintenance.trend import TRENDS
from airflow_lake_provider.operators.flat_reports import flat_reports
from airflow_lake_provider.operators.group_arguments import SHARED, given_to
from airflow_lake_provider.operators.lake_application import LakeApplicationOperator
from airflow_lake_provider.operators.links import LakePageLink, push_entries
from airflow_lake_provider.operators.maintenance_plan import (
    LEFT,
    NOT_RUN,
    SUMMARY,
    LakeMaintenancePlanOperator,
    asking_run,
    history_run,
)
from airflow_lake_provider.operators.outcome import LABEL, show_outcome
from airflow_lake_provider.operators.rendered_arguments import NumbersOfDigits

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from airflow_lake_provider.operators.table_task import TableTask

_log = logging.getLogger(__name__)
_MOST_TRENDS = 200
_MOST_NAMED = 10
# Of a notification; the log of the task has all of it.
_MOST_LINES = 50
_LONGEST_LINE = 300
_DROPPED = "the table was dropped or renamed after it was planned"
# Arguments of the group that are the plan's; those of both are named where they are passed.
_OF_PLAN = (
    *("tables", "only_changed", "policy_file", "policy", "dry_run", "max_core_seconds", "max_bytes", "max_tables"),
    *("job_core_seconds", "job_tables", "history"),
)
_OF_BOTH = ("lake_conn_id", "allowed_tables")


class LakeMaintenanceOperator(LakeApplicationOperator):
    """Carry out one job of a plan: tasks on many tables in one Spark application, with a report for each.

    ``LakeMaintenanceOperator.partial(task_id="run").expand_kwargs(plan.output)`` runs the jobs of a
    :class:`.LakeMaintenancePlanOperator`. A report has one of the outcomes ``done``, ``nothing-due``, ``conflict``,
    ``unsupported`` and ``failed``. As of every :class:`.LakeApplicationOperator`, one bad task stops no other.

    :param expected: of the plan: for each task its level, the table's score, core-seconds and reasons.
    :param parallelism: tasks that run at a time; those of one table run one after another.
    :param of_application: arguments of :class:`.LakeApplicationOperator`.
    :raises InvalidSpecError: the arguments are malformed; of a task, its report says so.
    :raises LakeProviderError: an error of a task that a retry may mend, while tries are left.
    """

    def __init__(
        self, *, expected: Sequence[Mapping[str, Any]] = (), parallelism: int = 2, **of_application: Any
    ) -> None:
        super().__init__(parallelism=parallelism, **of_application)
        self.expected = expected

    @property
    def is_short(self) -> bool:  # type: ignore[override]  # known once the plan is rendered
        """Tell whether the plan expects little work of the job; without a plan nobody knows."""
        seconds: float = sum(each.get("core_seconds", math.inf) for each in self.expected)
        size: float = sum(each.get("bytes_rewritten", math.inf) for each in self.expected)
        return bool(self.expected) and seconds <= SHORT_JOB and size <= SHORT_JOB_BYTES

    def table_tasks(self, context: Context) -> list[TableTask]:
        """Return the tasks; each second try begins with the last table.

        A table that ends the driver, such as by its memory, so keeps no other from being maintained.
        """
        tasks = super().table_tasks(context)
        order = {task.table: place for place, task in enumerate(tasks)}
        is_second = context["ti"].try_number % 2 == 0
        return sorted(tasks, key=lambda task: order[task.table], reverse=True) if is_second else tasks

    def result(self, tasks: list[TableTask], context: Context) -> list[dict[str, Any]]:
        """Return the reports, each with the moment at which its task had ended at the latest."""
        for task in self._dropped(tasks):
            task.take(JobReport(table=task.table, outcome=Outcome.NOTHING_DUE, reason=_DROPPED))
        ended_at = datetime.now(UTC).isoformat()
        return [{**each, "ended_at": each.get("ended_at") or ended_at} for each in super().result(tasks, context)]

    def _dropped(self, tasks: list[TableTask]) -> list[TableTask]:
        """Return the tasks of tables that are gone, and that the catalog does not list any more."""
        missing = [task for task in tasks if isinstance(task.error, MissingTableError)]
        within = {TableName.parse(task.table).namespace for task in missing}
        try:
            listed = {str(each) for namespace in within for each in self.lake.list_tables(namespace)}
        # What the others have committed is told all the same.
        except LakeProviderError as error:
            self.log.warning("Whether tables were dropped is not known: %s", error)
            return []
        return [task for task in missing if task.table not in listed]

    def outcome(self, task: TableTask) -> str:
        """Return the outcome of a task as those of maintenance are called."""
        error = "" if task.error is None else type(task.error).__name__
        return outcome_of(super().outcome(task), error)


class LakeMaintenanceVerdictOperator(NumbersOfDigits, BaseOperator):
    """Say what became of each task of a run of maintenance, and fail where a person has to look.

    It stands behind plan and run, and runs whatever became of the run: nothing was due, or an application was lost with
    all its reports. Tasks without a report count as failed.

    :param jobs: XCom of the :class:`.LakeMaintenancePlanOperator`: ``plan.output`` (templated).
    :param reports: XCom of the mapped :class:`LakeMaintenanceOperator`: ``run.output`` (templated).
    :param fail_on: outcomes that make the run red: ``failed``, and on request ``unsupported`` or ``conflict``.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog of the history (templated).
    :param history: table of the maintenance history, or ``off``; None takes ``[lake] maintenance_history``. Writing it
        fails no task.
    :param notifier: called once for each owner of tables that make the run red; any notifier of Airflow's, or a
        function. It gets the context with ``lake_conn_id``, ``lake_owner``, ``lake_outcomes`` and ``lake_message`` in
        it. One that fails changes nothing.
    :param trigger_rule: by default it also runs where applications failed or nothing was due.
    :param of_operator: arguments of BaseOperator.
    :raises InvalidSpecError: ``fail_on`` names none of the outcomes, ``jobs`` is no output of a task, or the notifier
        cannot be called.
    :raises AirflowFailException: naming the tasks that failed, with their errors.
    """

    template_fields: Sequence[str] = ("jobs", "reports", "lake_conn_id")
    ui_color = "#d9ecf7"
    operator_extra_links = (LakePageLink(),)

    def __init__(
        self,
        *,
        jobs: XComArg,
        reports: XComArg,
        fail_on: Sequence[str] = (FAILED,),
        lake_conn_id: str = LakeCatalogHook.default_conn_name,
        history: str | None = None,
        notifier: Callable[[Any], Any] | None = None,
        trigger_rule: str = TriggerRule.ALL_DONE,
        **of_operator: Any,
    ) -> None:
        super().__init__(trigger_rule=trigger_rule, **of_operator)
        if not isinstance(jobs, PlainXComArg):
            raise InvalidSpecError(f"jobs must be the output of a LakeMaintenancePlanOperator, got {jobs!r}")
        self.plan_task_id = jobs.operator.task_id
        self.jobs = jobs
        self.reports = reports
        self.lake_conn_id = lake_conn_id
        refuse_template(history, "history")
        if history is not None:
            name_of_own_table(history)
        self.history = history
        if notifier is not None and not callable(notifier):
            raise InvalidSpecError(
                f"notifier must be callable, such as one of Airflow's, got a {type(notifier).__name__}"
            )
        self.notifier = notifier
        self.fail_on = names(fail_on, "fail_on", "outcomes")
        if unknown := [each for each in self.fail_on if each not in OUTCOMES]:
            raise InvalidSpecError(f"fail_on takes {', '.join(map(repr, OUTCOMES))}, got {unknown[0]!r}")

    def execute(self, context: Context) -> None:
        """Tell of the outcomes, and remember them."""
        hook = LakeCatalogHook(self.lake_conn_id)
        try:
            outcomes = self.outcomes(context)
            self._remember(hook, outcomes, context)
        finally:
            MaintenanceLeases(hook).give_back(asking_run(context, self.plan_task_id, datetime.now(UTC)).run_key)
        for each in outcomes:
            if each.outcome not in (DONE, NOTHING_DUE):
                say = self.log.error if each.outcome in self.fail_on else self.log.warning
                say("%s: %s", each, each.reason)
        red = [each for each in outcomes if each.outcome in self.fail_on]
        left = self._left(context)
        summary = counted(outcomes, left)
        self.log.info("%s%s", summary, f"; the log of {self.plan_task_id} says what waits, and why" if left else "")
        show_outcome(context, "maintenance", summary)
        if red and self.notifier is not None:
            _notify_owners(self.notifier, context, red, self.owner, self.lake_conn_id)
        if red:
            named = "; ".join(map(str, red[:_MOST_NAMED]))
            raise AirflowFailException(f"{summary}: {named}")

    def _left(self, context: Context) -> dict[str, int]:
        """Return of how many tables the plan has left due work to a later run, by its words."""
        summary = context["ti"].xcom_pull(task_ids=self.plan_task_id, key=SUMMARY)
        return {word: summary[word] for word in LEFT if summary.get(word)} if summary else {}

    def _remember(self, hook: LakeCatalogHook, outcomes: Sequence[TaskOutcome], context: Context) -> None:
        """Append the outcomes to the history of maintenance, and put them and the trends of their tables into XCom."""
        try:
            history, run = MaintenanceHistory(hook, self.history), history_run(context, outcomes)
            # XCom that is there when a task fails stays, and a red night is looked at most.
            entry = outcome_entry(run, outcomes, self.lake_conn_id, hook.connection.asset_authority)
            push_entries(context, [(outcome_key(entry), entry)])
            if history.record(history_entries(run, outcomes)):
                tables = list(dict.fromkeys(each.table for each in outcomes))
                context["ti"].xcom_push(key=TRENDS, value=history.trends(tables[:_MOST_TRENDS]))
        # What is only remembered fails no task.
        except Exception:
            self.log.warning("The outcomes could not be remembered", exc_info=True)

    def outcomes(self, context: Context) -> list[TaskOutcome]:
        """Return the outcome of every task of the run: the one place where all of them are known.

        :raises AirflowSkipException: the plan was skipped, or was a dry run.
        :raises AirflowFailException: the plan failed.
        """
        jobs: Any = self.jobs
        reports: Any = self.reports
        ti: Any = context["ti"]
        if jobs is None:
            states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[self.plan_task_id], run_ids=[ti.run_id])
            state = states.get(ti.run_id, {}).get(self.plan_task_id)
            if state == "skipped":
                raise AirflowSkipException(f"{self.plan_task_id} was skipped")
            raise AirflowFailException(f"{self.plan_task_id} made no plan, its state is {state}; its log says why")
        not_run = ti.xcom_pull(task_ids=self.plan_task_id, key=NOT_RUN)
        if not_run is None:
            raise AirflowSkipException(f"{self.plan_task_id} was a dry run; its log says what it would do")
        # All at once: Airflow logs an error for each look behind the last one.
        return outcomes_of_run(jobs, flat_reports(reports[:] if reports is not None else ()), not_run)


def _notify_owners(
    notifier: Callable[[Any], Any],
    context: Any,
    outcomes: Sequence[TaskOutcome],
    default_owner: str,
    lake_conn_id: str,
) -> None:
    """Call a notifier once for each owner; one that fails is a warning.

    It gets the context of the task with ``lake_conn_id``, ``lake_owner``, ``lake_outcomes`` and ``lake_message``
    beside it.

    :param outcomes: that owners are told of.
    :param default_owner: of tables whose policy names none.
    :param lake_conn_id: connection to the catalog of the tables; two catalogs may have tables of one name.
    """
    by_owner: dict[str, list[TaskOutcome]] = {}
    for outcome in outcomes:
        by_owner.setdefault(outcome.owner or default_owner, []).append(outcome)
    for owner, theirs in sorted(by_owner.items()):
        values = {
            **context,
            "lake_conn_id": lake_conn_id,
            "lake_owner": owner,
            "lake_outcomes": theirs,
            "lake_message": _message(theirs, lake_conn_id),
        }
        try:
            # Airflow's notifiers render their templates in place, so that the next owner would get this one's.
            copy(notifier)(values)
        # Whatever it raises: the outcomes are what they are. Its text may have what it sends by, so the name is enough.
        except Exception as error:  # noqa: BLE001
            _log.warning("%s could not be told of %d outcomes: %s", owner, len(theirs), type(error).__name__)


def _message(outcomes: Sequence[TaskOutcome], lake_conn_id: str) -> str:
    lines = [f"{each}: {each.reason}"[:_LONGEST_LINE] for each in outcomes[:_MOST_LINES]]
    more = len(outcomes) - len(lines)
    return "\n".join([f"connection {lake_conn_id}:", *lines, *([f"and {more} more"] if more else [])])


def lake_maintenance(
    group_id: str,
    *,
    fail_on: Sequence[str] = (FAILED,),
    notifier: Callable[[Any], Any] | None = None,
    **arguments: Any,
) -> TaskGroup:
    """Return a task group that keeps tables healthy: a plan, its jobs in few Spark applications, and the verdict.

    :param group_id: of the group; its tasks are ``<group_id>.plan``, ``<group_id>.run`` and ``<group_id>.verdict``.
    :param fail_on: of :class:`LakeMaintenanceVerdictOperator`.
    :param notifier: likewise.
    :param arguments: of :class:`.LakeMaintenancePlanOperator` and of :class:`LakeMaintenanceOperator`, by their names.
        ``pool``, ``retries`` and what else both have are those of the Spark applications. All three have the
        ``default_args`` of the DAG, its owner, its queue and who is told of failures.
    :raises InvalidSpecError: an argument cannot be.
    """
    if "task_id" in arguments:
        raise InvalidSpecError(f"leave out task_id: the tasks are '{group_id}.plan', '.run' and '.verdict'")
    of_all = given_to((*_OF_BOTH, *SHARED), arguments)
    of_plan, of_verdict = (given_to(names, arguments) for names in (_OF_PLAN, ("lake_conn_id", "history", *SHARED)))
    of_run = {name: value for name, value in arguments.items() if name not in _OF_PLAN} | of_all
    with TaskGroup(group_id) as group:
        plan = LakeMaintenancePlanOperator(task_id="plan", **of_all, **of_plan)
        run = LakeMaintenanceOperator.partial(task_id="run", map_index_template=LABEL, **of_run).expand_kwargs(
            plan.output
        )
        if not (plan.do_xcom_push and run.partial_kwargs.get("do_xcom_push", True)):
            raise InvalidSpecError(
                f"do_xcom_push must be true: {group_id}.run takes the XCom of {group_id}.plan, and {group_id}.verdict "
                "that of both"
            )
        # That of ``default_args``, too.
        plan.run_pool = run.pool
        LakeMaintenanceVerdictOperator(
            task_id="verdict", jobs=plan.output, reports=run.output, fail_on=fail_on, notifier=notifier, **of_verdict
        )
    return group

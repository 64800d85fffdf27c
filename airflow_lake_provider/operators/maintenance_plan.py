"""LakeMaintenancePlanOperator: what a run of maintenance does, decided from metadata alone.

History and leases know the run by keys that each retry of a task has again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import conf

from airflow_lake_provider.assets.lake_table import changed_tables
from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.argument_validation import (
    flag,
    listed,
    number,
    optional,
    path_text,
    positive,
    share,
    size,
    text,
)
from airflow_lake_provider.contracts.author_object import is_open, refuse_template
from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, MissingTableError
from airflow_lake_provider.contracts.json_codec import storable
from airflow_lake_provider.contracts.reports.history_entry import FAILED
from airflow_lake_provider.contracts.table_name import TablePatterns
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.hooks.maintenance_history import MaintenanceHistory
from airflow_lake_provider.hooks.maintenance_leases import MaintenanceLeases
from airflow_lake_provider.hooks.own_tables import name_of_own_table, with_own_tables
from airflow_lake_provider.hooks.table_plans import PlannedTables, plan_tables
from airflow_lake_provider.hooks.table_policy import PolicyReader
from airflow_lake_provider.maintenance.fleet_entries import fleet_entries
from airflow_lake_provider.maintenance.fleet_run import FleetRun, fleet_run
from airflow_lake_provider.maintenance.history_entries import HistoryRun
from airflow_lake_provider.maintenance.leases import MaintenanceLease, leased_run, without_leased
from airflow_lake_provider.maintenance.packing import Budget
from airflow_lake_provider.maintenance.policy import dag_layer
from airflow_lake_provider.operators.allowed_tables import table_patterns
from airflow_lake_provider.operators.links import LakePageLink, push_entries
from airflow_lake_provider.operators.outcome import show_outcome
from airflow_lake_provider.operators.rendered_arguments import NumbersOfDigits
from airflow_lake_provider.operators.retry_delays import RetryDelays, as_task_failure, refusing_for_good

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_lake_provider.maintenance.outcomes import TaskOutcome
    from airflow_lake_provider.maintenance.plan import TablePlan

N = TypeVar("N", int, float)
# Keys of XCom beside the jobs.
NOT_RUN, SUMMARY = "not_run", "summary"
# Words of the summary for tables whose due work a run leaves to a later one.
LEFT = ("deferred", "waiting")
# An hour of one core: half an hour of the two cores that the benchmarks have.
_CORE_SECONDS_OF_A_JOB = 3600.0
_TABLES_OF_A_JOB = 100
_MOST_OVERLAPS = 20
# Airflow's own.
_MOST_MAPPED = 1024
# Longer than most nights of maintenance; a run that is not over by then loses commits at worst.
LEASE = timedelta(hours=6)


class LakeMaintenancePlanOperator(NumbersOfDigits, RetryDelays):
    """Plan the maintenance of tables in the worker, without Spark, and return its jobs.

    Each job is a mapping of arguments for ``LakeMaintenanceOperator.partial(...).expand_kwargs(plan.output)``. Where
    nothing is due the list is empty, and Airflow skips the mapped task. The log says why of each table that is due or
    broken. The result follows from the tables' state alone: made again, it has what is still due.

    :param tables: name or patterns, ``["shop.*", "!shop.tmp_*"]`` (templated). One that is named and does not exist is
        reported and stops no other; a pattern without a match is a warning. Where nothing matches, the task fails.
    :param only_changed: in a run that asset events triggered, plan for no other tables than theirs, so not for history
        and leases either. Each of ``tables`` in any other run.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog (templated).
    :param policy_file: YAML file with policies, relative to the bundle of the DAG or to the folder of DAGs (templated).
        None takes ``[lake] policy_file``, or else ``lake_policy.yaml`` where it exists.
    :param policy: settings that the DAG names itself, such as ``{"compaction": {"level": "minor"}}`` (templated).
    :param dry_run: say what would be done, and return no job (templated).
    :param allowed_tables: patterns, one of which each table has to match as well; None for any table. Not a template,
        so that no form can change it.
    :param max_core_seconds: budget of a run by the estimates of the plans, without starts of Spark; None for no limit.
    :param max_bytes: of data files that a run rewrites: ``"500GB"`` or a number, 0 for none; None for no limit.
    :param max_tables: that a run does anything to; None for no limit.
    :param job_core_seconds: of one Spark application; a table that takes more has one of its own.
    :param job_tables: most tables of one Spark application.
    :param run_pool: pool of the mapped task. Tables whose policy names another pool are left out with that reason:
        Airflow cannot map a pool. None takes tables of any.
    :param history: table of the maintenance history, or ``off``; None takes ``[lake] maintenance_history``. Tables that
        keep failing by it rest.
    :param of_operator: arguments of BaseOperator.
    :raises InvalidSpecError: a pattern is none, or file or DAG has what no setting takes.
    :raises UnsupportedError: the format of the connection's tables cannot be judged without Spark.
    :raises MissingTableError: no table matches.
    :raises LakeProviderError: the catalog cannot be opened, or does not list its tables.
    """

    template_fields: Sequence[str] = ("tables", "lake_conn_id", "policy_file", "policy", "dry_run")
    ui_color = "#d9ecf7"
    operator_extra_links = (LakePageLink(),)

    def __init__(
        self,
        *,
        tables: str | Sequence[str] = "*",
        only_changed: bool = False,
        lake_conn_id: str = LakeCatalogHook.default_conn_name,
        policy_file: str | None = None,
        policy: Mapping[str, Any] | None = None,
        dry_run: bool | str = False,
        allowed_tables: Sequence[str] | None = None,
        max_core_seconds: float | None = None,
        max_bytes: int | str | None = None,
        max_tables: int | None = None,
        job_core_seconds: float = _CORE_SECONDS_OF_A_JOB,
        job_tables: int = _TABLES_OF_A_JOB,
        run_pool: str | None = None,
        history: str | None = None,
        **of_operator: Any,
    ) -> None:
        # A list has no names, by which Airflow would push several outputs.
        super().__init__(**{**of_operator, "multiple_outputs": False})
        self.tables = tables
        self.only_changed = only_changed
        self.lake_conn_id = lake_conn_id
        self.policy_file = policy_file
        self.policy = policy
        self.history = history
        # Airflow's own method of that name prints templates, and has no caller.
        self.dry_run = dry_run  # type: ignore[method-assign, assignment]
        limits = {"max_core_seconds": max_core_seconds, "max_bytes": max_bytes, "max_tables": max_tables}
        of_jobs = {"job_core_seconds": job_core_seconds, "job_tables": job_tables}
        with refusing_for_good():
            for name, value in {**limits, **of_jobs, "history": history, "run_pool": run_pool}.items():
                refuse_template(value, name)
            if history is not None:
                name_of_own_table(history)
            self.only_changed = flag(only_changed, "only_changed")
            self.allowed_tables = table_patterns(allowed_tables)
            self.budget = Budget(
                core_seconds=optional(_at_least_nothing(share))(max_core_seconds, "max_core_seconds"),
                bytes=optional(_bytes_of_budget)(max_bytes, "max_bytes"),
                tables=optional(_at_least_nothing(number))(max_tables, "max_tables"),
            )
            self.job_core_seconds = _at_least_nothing(share)(job_core_seconds, "job_core_seconds")
            self.job_tables = positive(job_tables, "job_tables")
            self.run_pool = optional(text)(run_pool, "run_pool")
            self._refuse_early()

    def _refuse_early(self) -> None:
        """Refuse what cannot be right, of the arguments that have no template."""
        if not is_open(self.tables):
            TablePatterns.parse(self.tables, self.allowed_tables)
        if not is_open(self.policy):
            dag_layer(self.policy)
        if not is_open(self.policy_file):
            optional(text)(path_text(self.policy_file, "policy_file"), "policy_file")
        if not is_open(self.dry_run):
            flag(self.dry_run, "dry_run")

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Look at the tables, and return the jobs of this run."""
        now = datetime.now(UTC)
        self.tables = listed(self.tables)  # type: ignore[assignment]  # checked with the patterns
        try:
            is_dry_run = flag(self.dry_run, "dry_run")
            planned, run = self._plan(context, now, is_dry_run=is_dry_run)
        except LakeProviderError as error:
            show_outcome(context, str(self.tables), type(error).__name__)
            raise as_task_failure(error) from None
        self._tell(planned, run)
        push_entries(context, self._entries(planned, run, context, now, is_dry_run=is_dry_run))
        summary = _summary(planned, run)
        words = ", ".join(f"{count} {name}" for name, count in summary.items() if count)
        self.log.info("%s%s", "dry run: " if is_dry_run else "", words)
        show_outcome(context, str(self.tables), f"dry run: {words}" if is_dry_run else words)
        context["ti"].xcom_push(key=SUMMARY, value=summary)
        if is_dry_run:
            # So the verdict judges nothing, and nothing is remembered.
            return []
        context["ti"].xcom_push(key=NOT_RUN, value=storable(run.not_run))
        jobs: list[dict[str, Any]] = storable(run.as_kwargs)
        return jobs

    def _plan(self, context: Context, now: datetime, *, is_dry_run: bool) -> tuple[PlannedTables, FleetRun]:
        hook = LakeCatalogHook(text(self.lake_conn_id, "lake_conn_id"))
        # It has another path for each version of its DAGs; what dag.test() runs may be in none.
        bundle = getattr(context["ti"], "bundle_instance", None)
        folder = None if bundle is None else Path(bundle.path)
        policies = PolicyReader(hook, policy_file=self.policy_file, policy=self.policy, bundle=folder)
        patterns = TablePatterns.parse(self.tables, self.allowed_tables)
        history = MaintenanceHistory(hook, self.history)
        events = _triggering_events(context) if self.only_changed else []
        if events:
            planned = _plan_changed(patterns, policies, now, history, events)
        else:
            asked = with_own_tables(patterns, hook, [history.table, MaintenanceLeases(hook).table])
            planned = plan_tables(asked, policies, now, history=history, missing_are_broken=True)
        if not events and not any(patterns.matches(each.table) for each in planned.plans):
            limit = f" and {', '.join(self.allowed_tables)}" if self.allowed_tables else ""
            raise MissingTableError(
                f"connection {hook.lake_conn_id!r}: no table matches {self.tables}{limit}; correct the patterns"
            )
        if not is_dry_run:
            planned = _with_looks_that_are_remembered(planned, history)

        def run_of(plans: Sequence[TablePlan]) -> FleetRun:
            return fleet_run(
                plans,
                overlaps=planned.overlaps,
                pool=self.run_pool,
                budget=self.budget,
                core_seconds=self.job_core_seconds,
                most_tables=self.job_tables,
                most_jobs=conf.getint("core", "max_map_length", fallback=_MOST_MAPPED),
            )

        leases = MaintenanceLeases(hook)
        if is_dry_run:
            return planned, run_of(without_leased(planned.plans, leases.current()))
        asking = asking_run(context, self.task_id, now)
        return planned, leased_run(planned.plans, run_of, lambda names: leases.take(names, asking))

    def _entries(
        self, planned: PlannedTables, run: FleetRun, context: Context, now: datetime, *, is_dry_run: bool
    ) -> Iterator[tuple[str, Any]]:
        yield from fleet_entries(
            run,
            planned.looks,
            at=now,
            conn_id=self.lake_conn_id,
            authority=LakeCatalogHook(self.lake_conn_id).connection.asset_authority,
            tables=[self.tables] if isinstance(self.tables, str) else self.tables,
            allowed=self.allowed_tables,
            of_changed=self.only_changed and bool(_triggering_events(context)),
            is_dry_run=is_dry_run,
        )

    def _tell(self, planned: PlannedTables, run: FleetRun) -> None:
        """Say of each table that is due or broken what is done and why; count the others."""
        for overlap in planned.overlaps[:_MOST_OVERLAPS]:
            self.log.warning("%s: %s; %s", overlap.table, overlap, overlap.remedy)
        if (more := len(planned.overlaps) - _MOST_OVERLAPS) > 0:
            self.log.warning("%d more overlaps of locations", more)
        if run.beyond_budget is not None:
            self.log.warning("%s: its last action of this run is dearer than the whole budget", run.beyond_budget)
        for each in run.deferred:
            self.log.warning("%s: %s waits: %s", each.table, ", ".join(each.actions), each.why)
        for plan in run.waiting:
            for left in (each for each in plan.not_planned if each.is_waiting):
                self.log.warning("%s: %s waits: %s %s", plan.table, left.action, left.why, left.instead)
        for report in run.not_run:
            say = self.log.error if report["outcome"] == FAILED else self.log.warning
            parts = ("table", "action", "outcome", "error", "reason")
            say("%s: %s %s: %s: %s", *(report[part] for part in parts))
        self._tell_reasons(run)

    def _tell_reasons(self, run: FleetRun) -> None:
        rest: Counter[str] = Counter()
        for plan in run.plans:
            for action in plan.actions:
                level = f" ({action.level})" if action.level else ""
                why = " ".join((*(reason.sentence for reason in action.reasons), *action.notes))
                self.log.info("%s: %s%s: %s", plan.table, action.action, level, why)
            if not plan.actions and plan.error is None:
                reasons = {each.why for each in plan.not_planned}
                rest[reasons.pop() if len(reasons) == 1 else "Nothing is due."] += 1
        for why, count in rest.most_common():
            self.log.info("%d tables: %s", count, why)


def _plan_changed(
    patterns: TablePatterns, policies: PolicyReader, now: datetime, history: MaintenanceHistory, events: Sequence[Any]
) -> PlannedTables:
    """Plan the tables of asset events; one that was dropped since then is no fault."""
    hook = policies.hook
    authorities = (hook.lake_conn_id, hook.connection.asset_authority)
    changed = [each for each in changed_tables(events, hook.lake_conn_id, authorities) if patterns.matches(each)]
    if not changed:
        return PlannedTables(plans=())
    # A name has no character of a pattern, and what the author leaves out stays left out.
    named = replace(patterns, included=tuple(changed))
    planned = plan_tables(named, policies, now, history=history, missing_are_broken=True)
    return replace(planned, plans=tuple(each for each in planned.plans if not each.is_missing))


def _with_looks_that_are_remembered(planned: PlannedTables, history: MaintenanceHistory) -> PlannedTables:
    """Return plans without looks for orphan files where these could not be remembered, and would come in each run."""
    looks = {"remove-orphans"}
    if not any(each.action in looks for plan in planned.plans for each in plan.actions) or history.prepare():
        return planned
    why = "The look could not be remembered: the table of the maintenance history takes no rows."
    instead = "Allow its namespace and commits to it, or name another table in [lake] maintenance_history; see the log."
    return replace(planned, plans=tuple(plan.without(looks, why, instead) for plan in planned.plans))


def _at_least_nothing(read: Callable[[Any, str], N]) -> Callable[[Any, str], N]:
    """Return a reader of numbers that refuses those below 0, with which a run would never do anything."""

    def checked(value: object, name: str) -> N:
        if (given := read(value, name)) < 0:
            raise InvalidSpecError(f"{name} must be 0 or more, got {value!r}; None is no limit")
        return given

    return checked


def _bytes_of_budget(value: object, name: str) -> int:
    """Return a number of bytes; 0, which no file has, is a budget that rewrites nothing."""
    return 0 if value == 0 and not isinstance(value, bool) else size(value, name, least=0)


def _triggering_events(context: Context) -> list[Any]:
    """Return the asset events that triggered the run, each as often as it has a name."""
    return [event for events in context.get("triggering_asset_events", {}).values() for event in events]


def _summary(planned: PlannedTables, run: FleetRun) -> dict[str, int]:
    outcomes = Counter(report["outcome"] for report in run.not_run)
    return {
        "tables": len(run.plans),
        "due": sum(bool(plan.actions) for plan in run.plans),
        "jobs": len(run.jobs),
        "core-seconds": round(sum(job.core_seconds for job in run.jobs)),
        **dict(zip(LEFT, (len(run.deferred), len(run.waiting)), strict=True)),
        "overlapping": len({name for each in planned.overlaps for name in (each.table, each.other)}),
        **outcomes,
    }


def history_run(context: Context, outcomes: Iterable[TaskOutcome]) -> HistoryRun:
    """Return the run whose last task writes the history.

    A retry of that task, and a clearing of it alone, has the same outcomes and is the same run. It is another one once
    the plan or a job was run anew.

    :param outcomes: that are written.
    """
    ti: Any = context["ti"]
    moments = (f"{each.report.get('ended_at')} {each.expected.get('planned_at')} {each}" for each in outcomes)
    return HistoryRun(
        key=_identity(ti, ti.task_id).run_key("", tuple(moments)),
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        try_number=ti.try_number,
        at=datetime.now(UTC),
    )


def asking_run(context: Context, plan_task_id: str, now: datetime) -> MaintenanceLease:
    """Return the lease that a run asks for, of no table yet.

    :param plan_task_id: of the run's plan, by which its last task finds the leases again.
    :param now: UTC.
    """
    ti: Any = context["ti"]
    return MaintenanceLease(
        table_name="",
        run_key=_identity(ti, plan_task_id).run_key("", ()),
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        acquired_at=now,
        expires_at=now + LEASE,
    )


def _identity(ti: Any, task_id: str) -> RunIdentity:
    return RunIdentity.of(ti.dag_id, ti.run_id, task_id, str(ti.map_index))

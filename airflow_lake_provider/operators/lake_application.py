"""LakeApplicationOperator: several actions, on one or more tables, in one Spark application; and its verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, TaskGroup
from airflow.sdk.exceptions import AirflowFailException

from airflow_lake_provider.contracts.argument_validation import positive
from airflow_lake_provider.contracts.author_object import is_open, refuse_template
from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.reports.history_entry import FAILED
from airflow_lake_provider.contracts.reports.job import MetadataChangeReport
from airflow_lake_provider.contracts.specs.job import JobSpec
from airflow_lake_provider.contracts.specs.spec_codec import written_task
from airflow_lake_provider.operators.append import AppendAction
from airflow_lake_provider.operators.compaction import CompactionAction
from airflow_lake_provider.operators.delete_rows import DeleteRowsAction
from airflow_lake_provider.operators.flat_reports import flat_reports, names_of_tasks, without_report
from airflow_lake_provider.operators.group_arguments import SHARED, given_to
from airflow_lake_provider.operators.incremental import IncrementalAction
from airflow_lake_provider.operators.orphan_files import OrphanFilesAction
from airflow_lake_provider.operators.outcome import log_outcome, show_outcome
from airflow_lake_provider.operators.overwrite_partitions import OverwritePartitionsAction
from airflow_lake_provider.operators.publish_branch import PublishBranchAction
from airflow_lake_provider.operators.rendered_arguments import NumbersOfDigits
from airflow_lake_provider.operators.retry_delays import refusing_for_good
from airflow_lake_provider.operators.rewrite_manifests import RewriteManifestsAction
from airflow_lake_provider.operators.rollback import RollbackAction
from airflow_lake_provider.operators.row_expiry import RowExpiryAction
from airflow_lake_provider.operators.snapshot_expiry import SnapshotExpiryAction
from airflow_lake_provider.operators.spark_application import SparkApplicationOperator
from airflow_lake_provider.operators.statistics import StatisticsAction
from airflow_lake_provider.operators.table_task import TableTask
from airflow_lake_provider.operators.table_upgrade import TableUpgradeAction
from airflow_lake_provider.operators.tags import CreateTagAction, DropTagAction
from airflow_lake_provider.operators.task_clashes import without_clashes
from airflow_lake_provider.operators.task_name import (
    name_by_author,
    name_of,
    numbered,
    table_of,
    told_apart_by_order,
)
from airflow_lake_provider.operators.update_rows import UpdateRowsAction
from airflow_lake_provider.operators.upsert import UpsertAction
from airflow_lake_provider.operators.worker_action import WorkerAction

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

_ACTIONS: dict[type[JobSpec], type[WorkerAction[Any]]] = {
    action.spec_type: action
    for action in (
        UpsertAction,
        AppendAction,
        OverwritePartitionsAction,
        IncrementalAction,
        DeleteRowsAction,
        UpdateRowsAction,
        RowExpiryAction,
        CompactionAction,
        RewriteManifestsAction,
        StatisticsAction,
        SnapshotExpiryAction,
        OrphanFilesAction,
        RollbackAction,
        PublishBranchAction,
        CreateTagAction,
        DropTagAction,
        TableUpgradeAction,
    )
}
_RULES = ("any", "all", "never")
_MOST_NAMED = 10


class LakeApplicationOperator(SparkApplicationOperator):
    """Carry out several tasks in one Spark application, and return a report for each.

    One bad task does not stop the others. While an error may pass by a retry and tries are left, the operator is
    retried, and does only what is missing. Else it succeeds once every task has a report: Airflow drops the asset
    events and the XCom of a task that fails. :func:`lake_application` puts a verdict behind it, which is red.

    :param tasks: what each single operator takes, with its action: ``{"action": "upsert", "table": "shop.orders",
        "source": "in/*.parquet", "keys": ["id"]}`` (templated, where the operator's argument is). A ``name``, which
        is no template, tells a task from others of its action and table. Actions are
        ``upsert``, ``append``, ``overwrite-partitions``, ``incremental``, ``delete-rows``, ``update-rows``,
        ``expire-rows``, ``compaction``, ``rewrite-manifests``, ``compute-statistics``, ``snapshot-expiry``,
        ``remove-orphans``, ``rollback``, ``publish-branch``, ``create-tag``, ``drop-tag`` and ``upgrade``.
    :param parallelism: tasks that run at a time. Those of one table run one after another, in the order given.
    :param of_application: arguments of :class:`.SparkApplicationOperator`.
    :raises InvalidSpecError: the arguments are malformed; of a task, its report says so.
    :raises LakeProviderError: an error of a task that a retry may mend, while tries are left.
    """

    template_fields: Sequence[str] = ("tasks", *SparkApplicationOperator.template_fields)
    _name_of_task = "tasks[{}]"  # For messages, with a place for its number.
    _unrendered: Any = None

    def __init__(
        self,
        *,
        tasks: Sequence[Mapping[str, Any] | JobSpec | XComArg] | XComArg,
        parallelism: int = 1,
        **of_application: Any,
    ) -> None:
        # A list has no names, by which Airflow would push several outputs; it fails once the commits are made.
        super().__init__(**{**of_application, "multiple_outputs": False})
        with refusing_for_good():
            refuse_template(parallelism, "parallelism")
            self.parallelism = positive(parallelism, "parallelism")
            self._given = tasks
            # While a DAG is parsed its author can mend a task. An instance of a mapped one has other tasks beside it.
            self.tasks = _written(tasks, self._name_of_task, keeps_refused=self.mapped_task is not None)

    @property
    def has_own_tables(self) -> bool:
        """Each run may have other tables."""
        return True

    def note_xcom(self, seen_oids: set[int]) -> None:
        """Note what a mapped task has from XCom: specs that were made of it are no templates, nor what was refused."""
        super().note_xcom(seen_oids)
        if id(self._given) in seen_oids:
            seen_oids.add(id(self.tasks))
        if isinstance(self.tasks, list):
            seen_oids.update(id(task) for task in self.tasks if isinstance(task, Mapping))

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        if parent is self:
            self._unrendered = self.tasks
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
        # What comes from XCom, too, is shown as a task shows itself: not with what may name whom to forget.
        if parent is self and isinstance(self.tasks, Sequence) and not isinstance(self.tasks, str):
            self.tasks = [_shown(task, self._name_of_task.format(number)) for number, task in enumerate(self.tasks)]

    def place(self) -> str:
        """Return the tables, as far as they are known."""
        given = self.tasks if isinstance(self.tasks, (list, tuple)) else []
        tables = list(dict.fromkeys(table_of(task) for task in given))
        more = f" and {len(tables) - _MOST_NAMED} more" if len(tables) > _MOST_NAMED else ""
        return ", ".join(tables[:_MOST_NAMED]) + more

    def table_tasks(self, context: Context) -> list[TableTask]:
        """Return a task for each that the author gives.

        :raises InvalidSpecError: they are no list.
        """
        if not isinstance(self.tasks, Sequence) or isinstance(self.tasks, str):
            raise _no_list(self.tasks)
        given = list(self.tasks)
        named = [(task, self._name_of_task.format(number)) for number, task in enumerate(given)]
        written = without_clashes([_written_or_refused(task, name) for task, name in named], _is_planned_first)
        unrendered = self._unrendered if isinstance(self._unrendered, list) else given
        names = list(numbered(map(name_of, given, written, unrendered)))
        for name in dict.fromkeys(told_apart_by_order(names, written)):
            self.log.warning("tasks %r: their order alone tells them apart; give each a 'name' of its own", name)
        return [self._task(*task, context) for task in zip(given, written, names, strict=True)]

    def _task(self, given: Any, spec: JobSpec | InvalidSpecError, part: tuple[str, ...], context: Context) -> TableTask:
        table, name = table_of(given), name_by_author(given, spec)
        if isinstance(spec, InvalidSpecError):
            task = TableTask(WorkerAction(self.tables), self.task_run(context, part), table, name=name)
            task.take(spec)
            return task
        task = TableTask(_ACTIONS[type(spec)](self.tables), self.task_run(context, part), table, name=name)
        task.make_spec(lambda: spec, self.allowed_tables)
        return task

    def result(self, tasks: list[TableTask], context: Context) -> list[dict[str, Any]]:
        """Tell of the reports and return one for each task, in their order; of one that failed, why.

        :raises LakeProviderError: of a task, while a retry may mend it.
        """
        for task in tasks:
            task.check_report()
        failed = [(task, task.error) for task in tasks if task.error is not None]
        passing = [error for _, error in failed if error.retry_may_help]
        if passing and not self.task_run(context).is_last_try:
            self._leave_to_retry(tasks, context)
            # The one that has to wait longest.
            raise max(passing, key=lambda error: error.retry_after or timedelta(0))
        self.tell(tasks, context)
        for task, error in failed:
            self._tell_failure(task, error)
        counts = Counter(map(self.outcome, tasks))
        summary = ", ".join(f"{count} {word}" for word, count in counts.items()) or "no tasks"
        self.log.info("%d tasks: %s", len(tasks), summary)
        show_outcome(context, self.place(), summary)
        return [_plain(task, self.outcome(task)) for task in tasks]

    def outcome(self, task: TableTask) -> str:
        """Return how a task ended, in a word."""
        return FAILED if task.error is not None or task.report is None else task.report.outcome.value

    def _leave_to_retry(self, tasks: list[TableTask], context: Context) -> None:
        """Say what became of the tasks of a try that is not the last; the retry tells of what is committed."""
        for task in tasks:
            if task.error is not None:
                self._tell_failure(task, task.error)
            elif task.report is not None:
                log_outcome(self.log, task.report, task.branch, self.seconds())
                is_publication = isinstance(task.report, MetadataChangeReport) and task.report.committed
                if task.report.run_key is None and not is_publication:
                    # The retry finds nothing left to do and nothing that it could count.
                    self.count(task, task.report)
        self.leave_application(context)

    def _tell_failure(self, task: TableTask, error: LakeProviderError) -> None:
        self.log.error("%s: %s: %s", task.key, type(error).__name__, error)
        # A report has told of the conflicts.
        self.metrics(task.table).tell_failure(error, None if task.report else task.spec)


class LakeVerdictOperator(NumbersOfDigits, BaseOperator):
    """Fail where tasks of a :class:`LakeApplicationOperator` failed, so that the DAG run is red.

    :param reports: XCom of the operator, or a list of that of several: ``[first.output, second.output]`` (templated).
        One that left none failed; ``trigger_rule="all_done"`` lets the verdict run then.
    :param fail_when: ``"any"`` fails when a task failed, ``"all"`` when no task ended well, ``"never"`` not at all.
    :param of_operator: arguments of BaseOperator.
    :raises InvalidSpecError: ``fail_when`` is none of these, or ``reports`` are no reports.
    :raises AirflowFailException: naming the tasks that failed, with their errors.
    """

    template_fields: Sequence[str] = ("reports",)
    ui_color = "#d9ecf7"

    def __init__(self, *, reports: XComArg | Sequence[Any], fail_when: str = "any", **of_operator: Any) -> None:
        super().__init__(**of_operator)
        self.reports = reports
        self._names = names_of_tasks(reports)
        if fail_when not in _RULES:
            raise InvalidSpecError(f"fail_when must be one of {', '.join(map(repr, _RULES))}, got {fail_when!r}")
        self.fail_when = fail_when

    def execute(self, context: Context) -> None:  # noqa: ARG002  # of Airflow
        """Look at the outcomes."""
        if self.reports is None:
            why = "the application has left no reports; the log of its task says why"
            if self.fail_when != "never":
                raise AirflowFailException(why)
            self.log.error("%s", why)
            return
        with refusing_for_good():
            reports = list(flat_reports(self.reports))
        failed = [report for report in reports if report["outcome"] == FAILED]
        for report in failed:
            self.log.error("%s: %s: %s", _what(report), report["error"], report["reason"])
        missing = [f"{name} left no report" for name in without_report(self.reports, self._names)]
        for each in missing:
            self.log.error("%s; its log says why", each)
        count, of_all = len(failed) + len(missing), len(reports) + len(missing)
        is_red = {"any": bool(count), "all": bool(count) and count == of_all, "never": False}
        if is_red[self.fail_when]:
            errors = [f"{_what(report)}: {report['error']}" for report in failed]
            named = "; ".join([*errors, *missing][:_MOST_NAMED])
            raise AirflowFailException(f"{count} of {of_all} tasks failed: {named}")
        self.log.info("%d of %d tasks failed", count, of_all)


def lake_application(group_id: str, *, fail_when: str = "any", **arguments: Any) -> TaskGroup:
    """Return a task group of a :class:`LakeApplicationOperator` and of the verdict behind it.

    :param group_id: of the group; its tasks are ``<group_id>.run`` and ``<group_id>.verdict``.
    :param fail_when: of :class:`LakeVerdictOperator`.
    :param arguments: of :class:`LakeApplicationOperator`; its owner, its queue and who is told of failures, of both.
    :raises InvalidSpecError: an argument cannot be.
    """
    if "task_id" in arguments:
        raise InvalidSpecError(f"leave out task_id: the tasks are '{group_id}.run' and '{group_id}.verdict'")
    shared = given_to(SHARED, arguments)
    with TaskGroup(group_id) as group:
        run = LakeApplicationOperator(task_id="run", **arguments)
        if not run.do_xcom_push and fail_when != "never":
            raise InvalidSpecError(f"do_xcom_push must be true: {group_id}.verdict judges the XCom of {group_id}.run")
        LakeVerdictOperator(task_id="verdict", reports=run.output, fail_when=fail_when, **shared)
    return group


def _what(report: Mapping[str, Any]) -> str:
    name = f" ({report['name']})" if "name" in report else ""
    return f"{report['action']} of {report['table']}{name}"


def _no_list(tasks: object) -> InvalidSpecError:
    way_out = "; one that a template makes needs a DAG with render_template_as_native_obj=True"
    got = f"a {type(tasks).__name__}{way_out if isinstance(tasks, str) else ''}"
    return InvalidSpecError(f"tasks must be a list of tasks, got {got}")


def _written(tasks: Any, name: str, *, keeps_refused: bool) -> Any:
    """Return tasks as specs, as far as they are known while a DAG is parsed.

    :param name: of a task, for messages, with a place for its number.
    :param keeps_refused: leave a task that cannot be as it is, for its report.
    """
    if isinstance(tasks, str) or not isinstance(tasks, Sequence):
        if not is_open(tasks):
            raise _no_list(tasks)
        return tasks
    named = [(task, name.format(number)) for number, task in enumerate(tasks)]
    return [_written_or_given(task, name, keeps_refused=keeps_refused) for task, name in named]


def _written_or_given(task: object, name: str, *, keeps_refused: bool) -> object:
    written = task if _is_open(task) else _written_or_refused(task, name)
    if isinstance(written, InvalidSpecError):
        if not keeps_refused:
            raise written
        return task
    return written


def _shown(task: object, name: str) -> object:
    """Return a task that shows itself, or one that is refused for what it lacks, without a predicate in clear."""
    spec = _written_or_refused(task, name)
    if isinstance(spec, JobSpec):
        return spec
    if not isinstance(task, Mapping):
        return task
    return {key: "***" if key == "where" else value for key, value in task.items()}


def _written_or_refused(given: object, name: str) -> JobSpec | InvalidSpecError:
    try:
        return written_task(given, name)
    except InvalidSpecError as error:
        return error


def _is_open(task: object) -> bool:
    """Return whether a task itself comes from XCom; what is in it may, and its action may not."""
    return not isinstance(task, (JobSpec, Mapping)) and is_open(task)


def _is_planned_first(spec: JobSpec) -> bool:
    return _ACTIONS[type(spec)].is_answered_here(spec)


def _plain(task: TableTask, outcome: str) -> dict[str, Any]:
    action = task.spec.action if task.spec is not None else task.run.part[0].partition(" ")[0]
    named = {"action": action} if task.name is None else {"action": action, "name": task.name}
    if task.error is not None:
        error = {"outcome": outcome, "error": type(task.error).__name__, "reason": str(task.error)}
        return {**named, "table": task.table, **error}
    return {**named, **to_plain(task.report), "outcome": outcome}

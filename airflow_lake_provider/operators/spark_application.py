"""The one flow of every operator that may start Spark: specs, submission, reports, XCom, asset events.

One application carries out the tasks of a job; most operators have one task.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_lake_provider.contracts.argument_validation import flag, optional, path_text, text
from airflow_lake_provider.contracts.author_object import refuse_template
from airflow_lake_provider.contracts.errors import InvalidSpecError, JobFailedError, LakeProviderError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import EVERY_TASK, JobFailure
from airflow_lake_provider.contracts.specs.spec_codec import Job
from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook, SparkTarget
from airflow_lake_provider.operators.allowed_tables import table_patterns
from airflow_lake_provider.operators.asset_events import announce
from airflow_lake_provider.operators.catalog_tables import CatalogTables
from airflow_lake_provider.operators.deferral import DeferrableApplication, DeferredJob, now
from airflow_lake_provider.operators.driver_exit import DriverEnd
from airflow_lake_provider.operators.driver_start import DriverStart, spark_release
from airflow_lake_provider.operators.links import LinkedApplication
from airflow_lake_provider.operators.metrics import JobMetrics
from airflow_lake_provider.operators.openlineage import lineage
from airflow_lake_provider.operators.outcome import log_outcome, place_of, show_outcome
from airflow_lake_provider.operators.rendered_arguments import RenderedArguments, unknown_conf
from airflow_lake_provider.operators.report_file import reports_of
from airflow_lake_provider.operators.retry_delays import RetryDelays, as_task_failure, refusing_for_good
from airflow_lake_provider.operators.spark_arguments import SparkArguments
from airflow_lake_provider.operators.spark_log_file import open_spark_log, pointed_to, pointer
from airflow_lake_provider.operators.spark_submission import SparkSubmission, spark_submit_arguments
from airflow_lake_provider.operators.table_task import TableTask, answer_without_spark, open_tasks, untold_repeats
from airflow_lake_provider.operators.task_run import TaskRun
from airflow_lake_provider.submission.spark_log import SparkLog

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

_OURS = ("application", "application_args", "conn_id")
TaskResult = JobReport | JobFailure | LakeProviderError


class SparkApplicationOperator(
    RenderedArguments, LinkedApplication, DeferrableApplication, RetryDelays, SparkArguments, SparkSubmitOperator
):
    """Carry out a job's tasks, in one Spark application where metadata is not enough.

    Subclasses say which tasks there are and what becomes of their reports; everything else is here.

    :param allowed_tables: patterns such as ``shop.*``, one of which each table has to match as it was rendered; None
        for any table. Not a template, so that no form can change it.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog (templated).
    :param spark_conn_id: Spark connection (templated).
    :param report_location: fsspec path shared by worker and driver in cluster mode; default: ``[lake]`` setting.
    :param deferrable: wait in the triggerer for an application that YARN's REST API follows; True where that cannot be
        is refused. None takes ``[operators] default_deferrable`` where it can be.
    :param of_spark_submit: arguments of SparkSubmitOperator; ``conf``, ``py_files``, ``packages``, ``jars``, ``files``,
        ``env_vars`` and ``properties_file`` are merged with ours.
    :raises InvalidSpecError: an argument is malformed, or is ours: ``application``, ``application_args``.
    """

    template_fields: Sequence[str] = (
        "lake_conn_id",
        "spark_conn_id",
        *(field for field in SparkSubmitOperator.template_fields if field not in _OURS),
    )
    ui_color = "#d9ecf7"
    branch: str | None = None
    parallelism: int = 1  # Tasks of a job that run at a time.
    is_short: bool = False  # Whether compiling would be a large part of the job's work.

    @refusing_for_good()
    def __init__(
        self,
        *,
        lake_conn_id: str = "lake_default",
        spark_conn_id: str = "spark_default",
        report_location: str | ObjectStoragePath | None = None,
        deferrable: bool | None = None,
        allowed_tables: Sequence[str] | None = None,
        **of_spark_submit: Any,
    ) -> None:
        if refused := [name for name in _OURS if name in of_spark_submit]:
            raise InvalidSpecError(
                f"{type(self).__name__} sets {', '.join(refused)} itself; the Spark connection is spark_conn_id, and "
                "an application of your own belongs to SparkSubmitOperator"
            )
        super().__init__(conn_id=spark_conn_id, **of_spark_submit)
        self.lake_conn_id = lake_conn_id
        self.spark_conn_id = spark_conn_id
        refuse_template(report_location, "report_location")
        location = path_text(report_location, "report_location")
        self.report_location = None if location is None else text(location, "report_location")
        self.allowed_tables = table_patterns(allowed_tables)
        self.deferrable = optional(flag)(deferrable, "deferrable")
        self._catalog: CatalogTables | None = None
        self._attempt: SparkSubmission | None = None
        self._driver = DriverStart()
        self._end = DriverEnd()
        self._spark_log = SparkLog()
        self._submitted = False
        self._is_followed = False  # True when an application is there whose report is this task's.
        self._started = 0.0
        self._tasks: list[TableTask] = []

    @property
    @abstractmethod
    def has_own_tables(self) -> bool:
        """Tell whether another instance or run of the Airflow task has other tables."""

    @abstractmethod
    def place(self) -> str:
        """Return the words that messages name the job's tables by."""

    @abstractmethod
    def table_tasks(self, context: Context) -> list[TableTask]:
        """Return the tasks of the job, with their specs or with what is wrong in their arguments."""

    @abstractmethod
    def result(self, tasks: list[TableTask], context: Context) -> Any:
        """Tell of the reports and return what becomes XCom.

        :raises LakeProviderError: the Airflow task fails by it.
        """

    @property
    def tables(self) -> CatalogTables:
        """The tables of the catalog, which stays open until :meth:`forget_catalog`."""
        conn_id = text(self.lake_conn_id, "lake_conn_id")
        if self._catalog is None or self._catalog.lake_conn_id != conn_id:
            self._catalog = CatalogTables(conn_id)
        return self._catalog

    @property
    def lake(self) -> LakeCatalogHook:
        """The catalog's hook."""
        return self.tables.lake

    def forget_catalog(self) -> None:
        """Open the catalog anew at its next use: after hours, a token and a connection of a database are over."""
        if self._catalog is not None:
            self._catalog.forget()

    def task_run(self, context: Context, part: tuple[str, ...] = ()) -> TaskRun:
        """Return who runs; with a part, which names it, one of several tasks."""
        return TaskRun(context, self.retries or 0, part)

    def execute(self, context: Context) -> Any:
        """Carry out the tasks and return their reports as plain JSON data, snapshot ids as text."""

        def run(tasks: list[TableTask]) -> None:
            answer_without_spark(tasks, may_follow=self.may_follow(context))
            try:
                if waiting := open_tasks(tasks):
                    self._run_in_spark(waiting, context)
            except LakeProviderError as error:
                for task in open_tasks(tasks):
                    task.take(error)

        self._started = now()
        self.log.info(
            "%s of %s by connection %s: its last line says the outcome", self.task_type, self.place(), self.lake_conn_id
        )
        if (unknown := unknown_conf(self, context)) is not None:
            self.log.warning("%s", unknown)
        return self._carry_out(run, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Return the reports of an application that the triggerer has waited for.

        :param event: of YarnApplicationTrigger.
        """
        job = DeferredJob.of_event(event)
        self._started = job.started
        return self._carry_out(lambda tasks: self._resume(tasks, job, context, overdue=event["overdue"]), context)

    def _carry_out(self, run: Callable[[list[TableTask]], None], context: Context) -> Any:
        self.forget_catalog()
        try:
            self.read_spark_arguments()
            tasks = self._tasks = self.table_tasks(context)
            run(tasks)
            return self.result(tasks, context)
        except LakeProviderError as error:
            self.show_failure(error, context)
            raise as_task_failure(pointed_to(error, self._spark_log)) from None
        # Airflow's own, such as of a task that took too long; it does not derive from Exception.
        except (Exception, AirflowTaskTimeout) as error:
            show_outcome(context, self.place(), type(error).__name__)
            raise

    def show_failure(self, error: LakeProviderError, context: Context) -> None:
        """Show why the Airflow task fails."""
        show_outcome(context, place_of(self.place(), self.branch), type(error).__name__)

    def tell(self, tasks: Sequence[TableTask], context: Context) -> None:
        """Tell of the reports that tasks have: log, asset events, metrics."""
        reports: dict[tuple[str, str], list[JobReport]] = {(task.table, task.branch): [] for task in tasks if task.spec}
        reported = [(task, task.report) for task in tasks if task.report is not None]
        for task, report in reported:
            log_outcome(self.log, report, task.branch, self.seconds())
            reports.setdefault((task.table, task.branch), []).append(report)
        announce(self, reports, context, untold=untold_repeats(tasks))
        # After what may fail: the retry that finds the commits counts them.
        for task, report in reported:
            self.count(task, report)
        self.task_run(context).note_told(task.error for task in tasks)

    def count(self, task: TableTask, report: JobReport) -> None:
        """Tell the metrics of a report."""
        self.metrics(task.table, task.branch).tell_report(report, self.seconds(), is_repeated=task.is_repeated)

    def seconds(self) -> float:
        """Return the seconds of the Airflow task so far."""
        return now() - self._started

    def metrics(self, table: str, branch: str | None = None) -> JobMetrics:
        """Return the metrics of the tasks of a table."""
        tags = {"table": table, "lake_conn_id": str(self.lake_conn_id), "operator": self.task_type}
        return JobMetrics(tags=tags, on_main=branch in (None, "main"))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:  # noqa: ARG002  # of Airflow
        """Return inputs and outputs for the official OpenLineage provider; it asks for them after a failure, too."""
        tasks = [(task.spec, task.new_report) for task in self._tasks if task.spec is not None]
        return lineage(self.lake, tasks) if tasks else None

    def on_kill(self) -> None:
        """End the application and remove its secrets, which the hook does."""
        if self._hook is None:
            self._close_attempt()
        else:
            # Of a tracked application the official operator tells YARN alone, and what is staged there stays.
            self._hook.on_kill()

    def _run_in_spark(self, tasks: list[TableTask], context: Context) -> None:
        """Submit an application for the tasks that are open, and take its reports."""
        target = self.target_of_submission()
        self.link_to(target, context)
        self.name_keys(context)
        may_defer = self.may_defer(target)
        for task in tasks:
            task.look_before_submission(spark_release(self))
        if not (sent := open_tasks(tasks)):
            return
        self.task_run(context).note_submission()
        self._spark_log = open_spark_log(context)
        self._attempt = SparkSubmission.open(
            Job({task.key: task.sent for task in sent}, parallelism=self.parallelism),
            self.lake.connection,
            target,
            properties_file=self.properties_file,
            report_location=self.report_location,
            run=self.task_run(context).identity(),
        )
        try:
            if may_defer:
                self._deferred = DeferredJob.before(self._attempt.report_path, self._started, self._tasks)
            reports = self._submit(self._attempt, context)
        finally:
            self._close_attempt()
            self.forget_catalog()
        self._take(sent, reports)

    def _resume(self, tasks: list[TableTask], job: DeferredJob, context: Context, *, overdue: bool) -> None:
        """Take the result of an application that an earlier process of this task has submitted."""
        self.link_to(SparkTarget.read(self.spark_conn_id, self._deploy_mode), context)
        self.name_keys(context)
        self._hook = self._get_hook()
        self._hook.follow(job.application_id, job.staged_in)
        if overdue:
            raise AirflowTaskTimeout(
                f"{self.place()}: {job.application_id} runs for longer than {self.execution_timeout}"
            )
        for task in tasks:
            if task.key in job.answers:
                task.take(job.answers[task.key])
            else:
                task.resume(frozenset(job.known_run_keys), fails_on_conflict=task.key in job.failing_on_conflict)
        reports = self._wait(lambda: self.poll_until_complete(job.application_id, context), job.report_path)
        self._submitted = not job.is_followed
        self._take(open_tasks(tasks), reports)

    def _take(self, tasks: list[TableTask], reports: dict[str, TaskResult]) -> None:
        for task in tasks:
            answer = reports[task.key]
            if isinstance(answer, JobFailure):
                self.log.error("%s: traceback of the Spark job:\n%s", task.table, answer.traceback)
                task.take(answer.to_error())
            elif isinstance(answer, JobReport):
                task.take(answer)
            else:
                # Reconnected to an application of an earlier try: what it committed was there before this try.
                task.resolve_lost_report(answer, self.lake, of_any_try=not self._submitted, is_over=self._is_over)

    def _submit(self, attempt: SparkSubmission, context: Context) -> dict[str, TaskResult]:
        """Submit and wait; return the driver's reports by task, or why there is none."""
        ended_well = False

        def run() -> None:
            nonlocal ended_well
            super(SparkApplicationOperator, self).execute(context)
            ended_well = True

        reports = self._wait(run, attempt.report_path)
        is_heard = not any(isinstance(answer, LakeProviderError) for answer in reports.values())
        # Where no task ended well, few of the classes were loaded.
        if is_heard and self._end.is_by_itself and any(isinstance(answer, JobReport) for answer in reports.values()):
            self._driver.accept(is_whole=ended_well or self._end.is_in_order)
        return reports

    def _wait(self, run: Callable[[], None], report_path: str) -> dict[str, TaskResult]:
        lost = f"spark-submit ended well, but there is no report at {report_path}"
        try:
            run()
        except LakeProviderError:
            raise  # Of ours, before anything was submitted.
        # Whatever a deployment raises, the driver's own report says more.
        except Exception as error:
            if isinstance(error, ValueError) and not self._is_followed:
                # How the official operator refuses arguments that do not go together; a retry would hear it again.
                raise InvalidSpecError(f"{self.place()}: {error}") from error
            self._end.error = str(error)
            lost = f"there is no report of the Spark application: {error}"
            if not self._is_followed:
                # A report that is there is one of an earlier run of this task.
                raise JobFailedError(f"{self.place()}: nothing was submitted: {error}") from error
        reports = reports_of([task.key for task in self._tasks], report_path)
        is_lost = EVERY_TASK not in reports and not all(task.key in reports for task in open_tasks(self._tasks))
        self._is_over = not (is_lost and self._end.error)
        if is_lost and isinstance(self._hook, LakeSparkSubmitHook):
            # A driver that could not say what happened could not clean up either.
            self._hook.remove_files_of_lost_driver()
        return {
            task.key: self._end.explained(
                reports.get(task.key, reports.get(EVERY_TASK)), f"table {task.table} in {self.lake_conn_id}", lost
            )
            for task in open_tasks(self._tasks)
        }

    def get_job_status(self, external_id: Any, context: Context) -> str:
        """Ask for the state of an application that an earlier try has submitted."""
        self._is_followed = True
        return str(super().get_job_status(external_id, context))

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for an application, which ``on_kill`` ends though an earlier try submitted it."""
        self._is_followed = True
        if isinstance(self._hook, LakeSparkSubmitHook):
            self._hook.follow(str(external_id))
        if self._deferred is not None and not self._submitted:
            # What an earlier try committed was there before this one.
            self._deferred = replace(self._deferred, known_run_keys=(), is_followed=True)
        super().poll_until_complete(external_id, context)

    def _get_hook(self) -> LakeSparkSubmitHook:
        submitted = self
        if self._attempt is not None:
            # On a copy: what belongs to one submission must not stay in the author's arguments.
            submitted = copy.copy(self)
            self._driver = self._attempt.start_or_obstacle(self, is_short=self.is_short)
            for name, value in spark_submit_arguments(self._attempt, self, self._driver).items():
                setattr(submitted, name, value)
            self.application = submitted.application
        return LakeSparkSubmitHook.adopt(
            super(SparkApplicationOperator, submitted)._get_hook(),
            self._before_submit,
            self.show_application,
            before_kill=self._close_attempt,
            java_options=self._driver.options,
            on_line=self._end.heed,
            environment=self._driver.environment,
            spark_log=self._spark_log,
        )

    def _before_submit(self) -> None:
        """Note that this try has an application of its own, whose report is not an older one."""
        self.refuse_submission()
        if self._attempt is not None:
            self._attempt.prepare(self._driver)
        self._submitted = self._is_followed = True
        for sentence in filter(None, (pointer(self._spark_log), *self._driver.waits())):
            self.log.info("%s", sentence)

    def _close_attempt(self) -> None:
        """Remove the files of this try, secrets among them."""
        if self._attempt is not None:
            self._attempt.close()
            self._driver.release()

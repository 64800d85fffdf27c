"""The one flow of every operator that may start Spark: spec, submission, report, XCom, asset event."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_lake_provider.contracts.argument_validation import text
from airflow_lake_provider.contracts.errors import (
    InvalidSpecError,
    JobFailedError,
    LakeProviderError,
)
from airflow_lake_provider.contracts.job_report import JobFailure, JobReport, Outcome
from airflow_lake_provider.contracts.job_spec import SpecFrame
from airflow_lake_provider.contracts.json_codec import to_plain
from airflow_lake_provider.contracts.run_key import RunIdentity
from airflow_lake_provider.hooks.lake_spark_submit import LakeSparkSubmitHook, SparkTarget
from airflow_lake_provider.operators.allowed_tables import refuse_other_tables, table_patterns
from airflow_lake_provider.operators.asset_events import announce
from airflow_lake_provider.operators.author_objects import AuthorObjects
from airflow_lake_provider.operators.catalog_tables import CatalogTables
from airflow_lake_provider.operators.deferral import DeferrableApplication, DeferredJob, now
from airflow_lake_provider.operators.driver_end import DriverEnd
from airflow_lake_provider.operators.driver_start import DriverStart
from airflow_lake_provider.operators.failures import as_task_failure
from airflow_lake_provider.operators.links import LinkedApplication
from airflow_lake_provider.operators.lost_report import LostReport
from airflow_lake_provider.operators.metrics import JobMetrics
from airflow_lake_provider.operators.openlineage import lineage
from airflow_lake_provider.operators.outcome import in_short, place_of, show_outcome
from airflow_lake_provider.operators.parse_time_validation import ParseTimeValidation
from airflow_lake_provider.operators.report_file import read_report
from airflow_lake_provider.operators.run_identity import IdentifiedRun, clearing
from airflow_lake_provider.operators.spark_log import open_spark_log, pointed_to, pointer
from airflow_lake_provider.operators.spark_submission import SparkSubmission
from airflow_lake_provider.operators.spark_submit_arguments import spark_submit_arguments
from airflow_lake_provider.operators.sql_files import SqlFiles
from airflow_lake_provider.operators.trusted_tables import refuse_untrusted
from airflow_lake_provider.operators.unknown_conf import unknown_conf
from airflow_lake_provider.operators.untemplated_arguments import optional_text
from airflow_lake_provider.submission.spark_installation import refuse_mixed_installation
from airflow_lake_provider.submission.spark_log import SparkLog

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from airflow_lake_provider.contracts.job_spec import JobSpec

SpecT = TypeVar("SpecT", bound="JobSpec")
_OURS = ("application", "application_args", "conn_id")


class LakeJobOperator(
    AuthorObjects,
    SqlFiles,
    CatalogTables,
    LinkedApplication,
    IdentifiedRun,
    ParseTimeValidation,
    DeferrableApplication,
    SparkSubmitOperator,
    Generic[SpecT],
):
    """Submit one action on one lake table and return its report.

    Subclasses say what they want in ``make_spec``; everything else is here.

    :param table: ``namespace.table`` (templated).
    :param allowed_tables: patterns such as ``shop.*``, one of which ``table`` has to match as it was rendered; None for
        any table. Not a template, so that no form can change it.
    :param lake_conn_id: connection of type ``iceberg`` that describes the catalog (templated).
    :param spark_conn_id: Spark connection (templated).
    :param report_location: fsspec path shared by worker and driver in cluster mode; default: ``[lake]`` setting.
    :param deferrable: wait in the triggerer for an application that YARN's REST API follows; True where that cannot be
        is refused. None takes ``[operators] default_deferrable`` where it can be.
    :param spark_arguments: arguments of SparkSubmitOperator; ``conf``, ``py_files``, ``packages``, ``jars``, ``files``,
        ``env_vars`` and ``properties_file`` are merged with ours.
    :raises InvalidSpecError: an argument is malformed or contradicts another one; ``application`` and
        ``application_args`` are refused, they are ours.
    :raises InvalidConnectionError: a connection is missing, incomplete or contradictory.
    :raises MissingTableError: the table is not in the catalog and may not be created.
    :raises UnsupportedError: the table or the engine cannot do what was asked.
    :raises CommitConflictError: other writers won every attempt; nothing changed.
    :raises UnknownOutcomeError: a commit was sent and its answer was lost; the retry finds out.
    :raises CatalogUnavailableError: the catalog did not answer.
    :raises JobFailedError: the Spark job ended in a way that nothing above describes.
    """

    template_fields: Sequence[str] = (
        "table",
        "lake_conn_id",
        "spark_conn_id",
        *(field for field in SparkSubmitOperator.template_fields if field not in _OURS),
    )
    ui_color = "#d9ecf7"
    # Written instead of main.
    branch: str | None = None

    def __init__(
        self,
        *,
        table: str,
        allowed_tables: Sequence[str] | None = None,
        lake_conn_id: str = "lake_default",
        spark_conn_id: str = "spark_default",
        report_location: str | None = None,
        deferrable: bool | None = None,
        **spark_arguments: Any,
    ) -> None:
        refused = [name for name in _OURS if name in spark_arguments]
        if refused:
            raise InvalidSpecError(
                f"{type(self).__name__} sets {', '.join(refused)} itself; the Spark connection is spark_conn_id, and "
                "an application of your own belongs to SparkSubmitOperator"
            )
        spark_arguments.setdefault("name", f"{type(self).__name__} {table}")
        super().__init__(conn_id=spark_conn_id, **spark_arguments)
        self.table = table
        self.lake_conn_id = lake_conn_id
        self.spark_conn_id = spark_conn_id
        self.report_location = optional_text(report_location, "report_location")
        self.allowed_tables = table_patterns(allowed_tables)
        self.deferrable = deferrable
        self._attempt: SparkSubmission | None = None
        self._driver = DriverStart()
        self._end = DriverEnd()
        # Of this try, once a driver is about to be started.
        self._spark_log = SparkLog()
        self._submitted = False
        # Whether there is an application whose report is this task's.
        self._is_followed = False
        self._started = 0.0
        self._spec: SpecT | None = None
        self._report: JobReport | None = None
        # Whether an earlier try has told what the report says.
        self._is_repeated = False

    def make_spec(self, frame: SpecFrame, context: Context | None) -> SpecT:
        """Translate the author's arguments into a spec.

        :param frame: what every spec has.
        :param context: None while a DAG is parsed; then templates are replaced by what stands for them.
        """
        raise NotImplementedError

    def run_of(self, context: Context) -> RunIdentity:
        """Return the identity of the run, as :meth:`run_identity` does."""
        return self.run_identity(context)

    def build_spec(self, context: Context) -> SpecT:
        """Translate the author's arguments, rendered, into a spec.

        :raises InvalidSpecError: they cannot be, or do not go together.
        """
        frame = SpecFrame(
            catalog=self.lake.connection.catalog_name,
            table_format=self.lake.connection.table_format,
            table=text(self.table, self.table_argument),
            run=self.run_of(context),
        )
        return self.make_spec(frame, context)

    def report_without_spark(self, spec: JobSpec) -> JobReport | None:  # noqa: ARG002  # for subclasses
        """Answer from metadata alone where that is enough; None to start Spark."""
        return None

    def refuse_from_metadata(self, spec: SpecT) -> None:
        """Refuse what the catalog shows to be impossible, before Spark is started."""

    def check_report(self, report: JobReport) -> None:
        """Raise where an outcome is a failure of the task."""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # the parent returns nothing
        """Run the action and return its report as plain JSON data, snapshot ids as text."""

        def report(spec: SpecT) -> JobReport:
            found = self.report_without_spark(spec)
            if found is not None:
                return found
            self.refuse_from_metadata(spec)
            refuse_untrusted(self.lake, spec)
            return self._run_in_spark(spec, context)

        self._started = now()
        self.log.info(
            "%s of %s by connection %s: its last line says the outcome", self.task_type, self.table, self.lake_conn_id
        )
        if (unknown := unknown_conf(self, context)) is not None:
            self.log.warning("%s", unknown)
        return self._tell_of(report, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return the report of an application that the triggerer has waited for.

        :param event: of YarnApplicationTrigger.
        """
        job = DeferredJob.of_event(event)
        self._started = job.started
        return self._tell_of(lambda spec: self._resume(spec, job, context, overdue=event["overdue"]), context)

    def _tell_of(self, report_of: Callable[[SpecT], JobReport], context: Context) -> dict[str, Any]:
        self.forget_catalog()
        try:
            self._conn_id = text(self.spark_conn_id, "spark_conn_id")
            refuse_other_tables(self.table, self.allowed_tables)
            spec = self._spec = self.build_spec(context)
            report = self._report = report_of(spec)
            self._is_repeated = self._is_told_before(report, context)
            show_outcome(context, place_of(report.table, self.branch), in_short(report))
            seconds = now() - self._started
            self._say(report, seconds)
            announce(self, report, context)
            # After what may fail: the retry that finds the commit counts it.
            self._metrics.tell_report(report, seconds, is_repeated=self._is_repeated)
            self.check_report(report)
        except LakeProviderError as error:
            self._metrics.tell_failure(error, None if self._report else self._spec)
            show_outcome(context, place_of(str(self.table), self.branch), type(error).__name__)
            raise as_task_failure(pointed_to(error, self._spark_log)) from None
        # Airflow's own, such as of a task that took too long; it does not derive from Exception.
        except (Exception, AirflowTaskTimeout) as error:
            show_outcome(context, str(self.table), type(error).__name__)
            raise
        plain: dict[str, Any] = to_plain(report)
        return plain

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:  # noqa: ARG002
        """Return inputs and outputs for the official OpenLineage provider; it asks for them after a failure, too."""
        if self._spec is None:
            return None
        report = self._report
        if report is not None and self._is_repeated:
            report = replace(report, committed=())
        return lineage(self.lake, self._spec, report)

    def on_kill(self) -> None:
        """End the application and remove its secrets, which the hook does."""
        if self._hook is None:
            self._close_attempt()
        else:
            # Of a tracked application the official operator tells YARN alone, and what is staged there stays.
            self._hook.on_kill()

    @property
    def _metrics(self) -> JobMetrics:
        tags = {"table": str(self.table), "lake_conn_id": str(self.lake_conn_id), "operator": self.task_type}
        return JobMetrics(tags=tags, on_main=not self.branch)

    def _is_told_before(self, report: JobReport, context: Context) -> bool:
        return report.outcome is Outcome.ALREADY_APPLIED and not self.is_retry(context)

    def _say(self, report: JobReport, seconds: float) -> None:
        for warning in report.warnings:
            self.log.warning("%s: %s", report.table, warning)
        # The last line, which Airflow's page of a log shows first.
        place = place_of(report.table, self.branch)
        self.log.info("%s: %s, in %.0f s: %s", place, in_short(report), seconds, report.reason)

    def _run_in_spark(self, spec: SpecT, context: Context) -> JobReport:
        refuse_mixed_installation()
        target = SparkTarget.read(self.spark_conn_id, self._deploy_mode)
        self.link_to(target, context)
        # A cleared task is not reconnected to the application that it had before: that one's work is done.
        for name in ("external_id_key", "_K8S_DRIVER_STATUS_KEY"):
            setattr(self, name, f"{getattr(type(self), name)} {clearing(context)}")
        may_defer = self.may_defer(target)
        lost_report = LostReport.before(self.lake, spec)
        self._spark_log = open_spark_log(context)
        self._attempt = SparkSubmission.open(
            spec,
            self.lake.connection,
            target,
            properties_file=self.properties_file,
            report_location=self.report_location,
        )
        try:
            if may_defer:
                known = tuple(sorted(lost_report.known))
                self._deferred = DeferredJob(
                    report_path=self._attempt.report_path, known_run_keys=known, started=self._started
                )
            found = self._submit(self._attempt, context)
        finally:
            self._close_attempt()
            self.forget_catalog()
        lost_report = replace(lost_report, lake=self.lake)
        # Reconnected to an application of an earlier try: what that one committed was there before this try.
        return self._outcome(found, lost_report if self._submitted else lost_report.of_any_try())

    def _resume(self, spec: SpecT, job: DeferredJob, context: Context, *, overdue: bool) -> JobReport:
        """Take the result of an application that an earlier process of this task has submitted."""
        self.link_to(SparkTarget.read(self.spark_conn_id, self._deploy_mode), context)
        self._hook = self._get_hook()
        self._hook.follow(job.application_id)
        if overdue:
            raise AirflowTaskTimeout(
                f"{self.table}: {job.application_id} runs for longer than {self.execution_timeout}"
            )
        found = self._wait(lambda: self.poll_until_complete(job.application_id, context), job.report_path)
        return self._outcome(found, LostReport(self.lake, spec, frozenset(job.known_run_keys)))

    def _submit(self, attempt: SparkSubmission, context: Context) -> JobReport | JobFailure | JobFailedError:
        """Submit and wait; return the driver's report, or why there is none."""
        ended_well = False

        def run() -> None:
            nonlocal ended_well
            super(LakeJobOperator, self).execute(context)
            ended_well = True

        found = self._wait(run, attempt.report_path)
        if isinstance(found, JobReport):
            # A JVM that fails after a job that did not has failed over the archive.
            self._driver.accept(is_whole=ended_well)
        return found

    def _wait(self, run: Callable[[], None], report_path: str) -> JobReport | JobFailure | JobFailedError:
        lost = f"spark-submit ended well, but there is no report at {report_path}"
        try:
            run()
        except LakeProviderError:
            # Of ours, before anything was submitted.
            raise
        # Whatever a deployment raises, the driver's own report says more.
        except Exception as error:
            if isinstance(error, ValueError) and not self._is_followed:
                # How the official operator refuses arguments that do not go together; a retry would hear it again.
                raise InvalidSpecError(f"{self.table}: {error}") from error
            self._end.said = str(error)
            lost = f"there is no report of the Spark application: {error}"
            if not self._is_followed:
                # A report that is there is one of an earlier run of this task.
                raise JobFailedError(f"{self.table}: nothing was submitted: {error}") from error
        found = read_report(report_path)
        if found is None and isinstance(self._hook, LakeSparkSubmitHook):
            # A driver that could not say what happened could not clean up either.
            self._hook.remove_files_of_lost_driver()
        return self._end.explained(found, f"table {self.table} in {self.lake_conn_id}", lost)

    def _outcome(self, found: JobReport | JobFailure | JobFailedError, lost_report: LostReport) -> JobReport:
        if isinstance(found, JobFailure):
            self.log.error("Traceback of the Spark job:\n%s", found.traceback)
            raise found.to_error()
        return found if isinstance(found, JobReport) else lost_report.resolve(found)

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
            self._deferred = replace(self._deferred, known_run_keys=())
        super().poll_until_complete(external_id, context)

    def _get_hook(self) -> LakeSparkSubmitHook:
        submitted = self
        if self._attempt is not None:
            # On a copy: what belongs to one submission must not stay in the author's arguments.
            submitted = copy.copy(self)
            self._driver = self._attempt.driver_start(self)
            for name, value in spark_submit_arguments(self._attempt, self, self._driver).items():
                setattr(submitted, name, value)
            self.application = submitted.application
        return LakeSparkSubmitHook.adopt(
            super(LakeJobOperator, submitted)._get_hook(),
            self._before_submit,
            self.show_application,
            after_kill=self._close_attempt,
            java_options=self._driver.options,
            on_line=self._end.heed,
            environment=self._driver.environment,
            spark_log=self._spark_log,
        )

    def _before_submit(self) -> None:
        """Note that this try has an application of its own, whose report is not an older one."""
        self._submitted = self._is_followed = True
        for sentence in filter(None, (pointer(self._spark_log), *self._driver.waits())):
            self.log.info("%s", sentence)
        if self._attempt is not None:
            self._attempt.forget_old_report()

    def _close_attempt(self) -> None:
        """Remove the files of this try, secrets among them."""
        if self._attempt is not None:
            self._attempt.close()
            self._driver.release()

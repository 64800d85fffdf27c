"""One task of a job: an action on one table, from its spec to its report or its error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.log import redact  # type: ignore[attr-defined]  # which masks the logs

from airflow_lake_provider.catalogs.secret_properties import hide_secrets
from airflow_lake_provider.contracts.errors import (
    CommitConflictError,
    InvalidSpecError,
    JobFailedError,
    LakeProviderError,
)
from airflow_lake_provider.contracts.reports.job import JobReport, Outcome
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.job import JobSpec, SpecFrame
from airflow_lake_provider.contracts.specs.load import LoadSpec
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.operators.allowed_tables import refuse_other_tables
from airflow_lake_provider.operators.lost_report import LostReport

if TYPE_CHECKING:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.operators.task_run import TaskRun
    from airflow_lake_provider.operators.worker_action import WorkerAction
    from airflow_lake_provider.submission.spark_installation import SparkRelease


_log = logging.getLogger(__name__)


@dataclass
class TableTask:
    """A task on the worker.

    :param spec: as it is sent; None where the arguments make none.
    :param report: None until there is one.
    :param error: why there will be none, or, beside a report, why its outcome is a failure.
    :param lost_report: what the table knew before a driver was started.
    :param branch: that is written.
    :param unmade: of a task that has resumed, why its spec cannot be made again.
    :param name: that its author gives it, among several; None without one.
    :param fails_on_conflict: whether that outcome is a failure, as the author says or said before the task was sent.
    """

    action: WorkerAction[Any]
    run: TaskRun
    table: str
    spec: JobSpec | None = None
    report: JobReport | None = None
    error: LakeProviderError | None = None
    lost_report: LostReport | None = None
    branch: str = "main"
    unmade: LakeProviderError | None = None
    name: str | None = None
    fails_on_conflict: bool = False

    @property
    def is_open(self) -> bool:
        """Tell whether there is neither report nor error."""
        return self.report is None and self.error is None

    @property
    def is_repeated(self) -> bool:
        """Tell whether an earlier run of the task has told what the report says."""
        report = self.report
        if report is None or report.outcome is not Outcome.ALREADY_APPLIED or self.run.may_be_untold:
            return False
        # The cluster may start a driver again within a try: the second meets the commit of the first.
        is_own = self.lost_report is not None and self.lost_report.has_made(report.run_key)
        return not is_own

    @property
    def new_report(self) -> JobReport | None:
        """The report, without commits that an earlier run has told of."""
        return replace(self.report, committed=()) if self.report is not None and self.is_repeated else self.report

    @property
    def sent(self) -> JobSpec:
        """Spec that a driver is sent."""
        return self.action.sent(self.known_spec)

    @property
    def known_spec(self) -> JobSpec:
        """The spec of a task that has one."""
        if self.spec is None:
            raise AssertionError(f"{self.table}: a task without a spec goes nowhere")
        return self.spec

    @property
    def key(self) -> str:
        """Name of the task in its job, the same for every try."""
        return " ".join(self.run.part) or "task"

    def take(self, result: JobReport | LakeProviderError) -> None:
        """Take what became of the task, without secrets: Airflow hides them in logs, and neither in XCom nor elsewhere.

        A driver's libraries name addresses, and some of these have a password in them.
        """
        if isinstance(result, JobReport) and result.table != self.table:
            # The task was rendered anew when it resumed, or by the retry that reconnected.
            result = InvalidSpecError(
                f"{self.table}: the application of this task was submitted for {result.table}, where its outcome is "
                f"{result.outcome.value!r}: {result.reason}. The DAG, or what its templates read, has changed since. "
                f"Nothing was done to {self.table}; clear the task to run it"
            )
        if isinstance(result, JobReport):
            warnings = tuple(map(_without_secrets, result.warnings))
            result = replace(result, reason=_without_secrets(result.reason), warnings=warnings)
            self.report, self.error = self._of_earlier_try(result), None
        else:
            hide_secrets(result, _without_secrets)
            self.report, self.error = None, result

    def make_spec(self, written: Callable[[], JobSpec], allowed_tables: Sequence[str] | None) -> None:
        """Make the spec that is sent of what the author wrote, rendered.

        :param written: makes it of the arguments.
        """

        def make() -> None:
            refuse_other_tables(self.table, allowed_tables)
            lake = self.action.tables.lake
            connection = lake.connection
            checked = written().checked_for(connection.table_format)
            self.branch = checked.target_branch
            if self.action.is_answered_here(checked):
                lake.table_format.refuse_without_worker(f"{self.table}: {checked.action}")
            for table in _tables_of(checked):
                refuse_other_tables(table, allowed_tables)
            spec = self.action.completed(checked, self.run)
            frame = SpecFrame(
                catalog=connection.catalog_name,
                table_format=connection.table_format,
                run=self.action.identity(spec, self.run),
            )
            self.spec = spec.framed(frame)
            self.fails_on_conflict = bool(getattr(spec, "fail_on_conflict", False))

        self._attempt(make)

    def answer_without_spark(self) -> None:
        """Answer from the metadata, or refuse what it shows to be impossible; of a format that workers read."""
        if not self.action.tables.lake.table_format.worker:
            return

        def answer() -> None:
            report = self.action.report_without_spark(self.known_spec)
            self.report = None if report is None else self._of_earlier_try(report)
            if self.report is None:
                self.action.refuse_from_metadata(self.known_spec)

        self._attempt(answer)
        self.refuse_untrusted()

    def refuse_untrusted(self) -> None:
        """Refuse what a catalog or a table says, and Spark would follow."""
        if self.is_open and self.action.tables.lake.table_format.worker:
            named = list(_tables_of(self.known_spec))
            self._attempt(lambda: self.action.tables.lake.refuse_for_spark(named))

    def look_before_submission(self, release: SparkRelease | None) -> None:
        """Note what the table knows of earlier tries, by which a lost report is found again.

        :param release: Spark that the task is submitted with, which may lack what it asks for; None where that cannot
            be told.
        """

        def look() -> None:
            # The newest one does all that a task may ask for.
            if release is not None and release.is_old:
                self.sent.refuse_spark(release.spark)
            self.lost_report = LostReport.before(self.action.tables.lake, self.sent, self.branch)

        self._attempt(look)

    def resume(self, run_keys: frozenset[str], *, fails_on_conflict: bool) -> None:
        """Be open for what the driver says that this task was sent to, also where its spec cannot be made again.

        :param run_keys: that the table knew before the submission.
        :param fails_on_conflict: as it was sent.
        """
        self.unmade, self.error = self.error, None
        if self.spec is None:
            self.fails_on_conflict = fails_on_conflict
        else:
            self.lost_report = LostReport(self.action.tables.lake, self.spec, self.branch, run_keys)

    def resolve_lost_report(
        self, lost: LakeProviderError, lake: LakeCatalogHook, *, of_any_try: bool, is_over: bool = False
    ) -> None:
        """Ask the table whether the task has committed.

        :param lost: why there is no report.
        :param lake: the catalog, opened anew.
        :param of_any_try: the application is of an earlier try, whose commit counts, too.
        :param is_over: whether the application has ended.
        """
        hide_secrets(lost, _without_secrets)
        if self.unmade is not None:
            # By this error alone, which says that nothing was done, nobody would look for what the driver did.
            self.error = JobFailedError(f"{lost} A retry would fail, too: {self.unmade}")
            return
        if of_any_try and is_over:
            # The earlier try may have answered it from the metadata, and sent the others alone.
            self.answer_without_spark()
            if not self.is_open:
                return

        def resolve() -> None:
            # The commits that the table has may be some of those of the run; the next try goes on behind them.
            if _goes_on(self.known_spec):
                raise lost
            lost_report = self.lost_report
            if lost_report is None:
                raise AssertionError(f"{self.table}: a task is looked at before it is sent")
            lost_report = replace(lost_report, lake=lake)
            self.report = (lost_report.of_any_try() if of_any_try else lost_report).resolve(lost)

        self._attempt(resolve)

    def check_report(self) -> None:
        """Take an outcome that is a failure for one."""
        is_conflict = self.report is not None and self.report.outcome is Outcome.CONFLICT
        if self.report is not None and is_conflict and self.fails_on_conflict:
            self.error = CommitConflictError(self.report.reason)

    def _of_earlier_try(self, answer: JobReport) -> JobReport:
        """Return what an earlier try has committed, where nothing is new since: its event may still be to be made."""
        if answer.outcome is not Outcome.NOTHING_NEW or self.spec is None or not self.run.may_be_untold:
            return answer
        with suppress(LakeProviderError):
            earlier = LostReport(self.action.tables.lake, self.spec, self.branch, frozenset())
            report = earlier.resolve(JobFailedError(f"{self.table}: no earlier try has committed"))
            reason = f"an earlier try has committed: {answer.reason}"
            return replace(report, outcome=Outcome.ALREADY_APPLIED, reason=reason, warnings=())
        return answer

    def _attempt(self, step: Callable[[], None]) -> None:
        if self.error is None:
            try:
                step()
            except LakeProviderError as error:
                self.error = error
            # One broken task stops no other; alone, it ends with Airflow's own words.
            except Exception as error:
                if not self.run.part:
                    raise
                _log.exception("%s could not go on", self.key)
                self.error = JobFailedError(f"{self.table}: {type(error).__name__}: {error}")


def _without_secrets(text: str) -> str:
    return str(redact(text))


def open_tasks(tasks: Iterable[TableTask]) -> list[TableTask]:
    """Return the tasks that have neither report nor error."""
    return [task for task in tasks if task.is_open]


def untold_repeats(tasks: Iterable[TableTask]) -> set[str]:
    """Return the run keys of reports that nobody has told of, those of repeats among them."""
    untold = (task.report for task in tasks if not task.is_repeated)
    return {report.run_key for report in untold if report is not None and report.run_key is not None}


def answer_without_spark(tasks: Iterable[TableTask], *, may_follow: bool = False) -> None:
    """Answer tasks from the metadata, in their order.

    What stands behind an open task of its table is to see the table after it, so it is left to the driver. Tags are
    planned here nevertheless: they stand behind other tags alone.

    :param may_follow: whether an application of an earlier try may have, or make, the answers of those that were sent.
    """
    changing: set[str] = set()
    for task in open_tasks(tasks):
        if (may_follow or task.table in changing) and not task.action.is_answered_here(task.known_spec):
            task.refuse_untrusted()
        else:
            task.answer_without_spark()
        changing |= {task.table} if task.is_open else set()


def _goes_on(spec: JobSpec) -> bool:
    """Tell whether one run may make several commits."""
    return isinstance(spec, LoadSpec) and any(each.catch_up for each in spec.source.inputs.values())


def _tables_of(spec: JobSpec) -> Iterator[str]:
    """Yield the lake tables that a job names: the one it writes, and those it reads."""
    yield spec.table
    if isinstance(spec, IncrementalSpec):
        yield spec.source
    source = spec.source if isinstance(spec, LoadSpec) else None
    if isinstance(spec, LoadSpec):
        put_aside = spec.dead_letter.table if spec.dead_letter else None
        yield from filter(None, (put_aside, spec.source.letters))
    keys = spec.keys_from if isinstance(spec, DeleteRowsSpec) else None
    for read in (source, keys):
        if read is not None:
            yield from dict.fromkeys(table.table for table in read.lake_tables.values())

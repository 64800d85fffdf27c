"""Wait for an application of YARN in the triggerer, with no worker's slot."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import conf

from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.contracts.reports.report_codec import JobFailure, reports_from_plain, reports_to_plain
from airflow_lake_provider.operators.stored_application import StoredApplication
from airflow_lake_provider.triggers.yarn_application import YarnApplicationTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_lake_provider.hooks.lake_spark_submit import SparkTarget
    from airflow_lake_provider.operators.table_task import TableTask

_STAGING = "spark.yarn.stagingDir"
# Variables by which Hadoop's shell finds what is staged, and may remove it. Others may be secret.
_OF_HADOOP = (
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_USER_NAME", "KRB5CCNAME", "KRB5_CONFIG"),
    *("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR"),
)


@dataclass(frozen=True, kw_only=True)
class DeferredJob:
    """Facts of a submission that its task needs when it resumes, in another process.

    :param report_path: where the driver leaves its reports.
    :param known_run_keys: of this Airflow task, that the tables knew before.
    :param started: when the task began, in seconds since 1970.
    :param answers: reports and errors that were there before Spark was started, by task.
    :param failing_on_conflict: tasks to which that outcome is a failure.
    :param is_followed: whether an earlier try has submitted the application.
    :param application_id: of YARN.
    :param staged_in: the folder of its files on YARN, where Spark has named it.
    """

    report_path: str
    known_run_keys: tuple[str, ...]
    started: float
    answers: Mapping[str, JobReport | LakeProviderError] = field(default_factory=dict)
    failing_on_conflict: tuple[str, ...] = ()
    is_followed: bool = False
    application_id: str = ""
    staged_in: str = ""

    @classmethod
    def before(cls, report_path: str, started: float, tasks: Sequence[TableTask]) -> DeferredJob:
        """Note what is known before the submission of the tasks that are open."""
        run_keys = {key for task in tasks if task.lost_report is not None for key in task.lost_report.run_keys}
        answers = {task.key: answer for task in tasks if (answer := task.error or task.report) is not None}
        return cls(
            report_path=report_path,
            known_run_keys=tuple(sorted(run_keys)),
            started=started,
            answers=answers,
            failing_on_conflict=tuple(task.key for task in tasks if task.fails_on_conflict),
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {
            "report_path": self.report_path,
            "known_run_keys": list(self.known_run_keys),
            "started": self.started,
            "answers": reports_to_plain({key: _answer(answer) for key, answer in self.answers.items()}),
            "failing_on_conflict": list(self.failing_on_conflict),
            "is_followed": self.is_followed,
            "application_id": self.application_id,
            "staged_in": self.staged_in,
        }

    @classmethod
    def of_event(cls, event: Mapping[str, Any]) -> DeferredJob:
        """Read what a trigger gave back."""
        job = event["job"]
        answers = reports_from_plain(job["answers"])
        return cls(
            report_path=job["report_path"],
            known_run_keys=tuple(job["known_run_keys"]),
            started=job["started"],
            answers={
                key: answer.to_error() if isinstance(answer, JobFailure) else answer for key, answer in answers.items()
            },
            failing_on_conflict=tuple(job.get("failing_on_conflict", ())),
            is_followed=bool(job.get("is_followed")),
            application_id=job["application_id"],
            staged_in=job.get("staged_in", ""),
        )


def _answer(answer: JobReport | LakeProviderError) -> JobReport | JobFailure:
    return answer if isinstance(answer, JobReport) else JobFailure.of(answer)


class DeferrableApplication(StoredApplication):
    """Part of an operator that waits for its application in the triggerer where it may."""

    # None: where Airflow's setting says so and it can be.
    deferrable: bool | None = None
    # None: the task waits in its worker.
    _deferred: DeferredJob | None = None

    def may_defer(self, target: SparkTarget) -> bool:
        """Return whether this task is to wait in the triggerer.

        :raises InvalidSpecError: the author asks for it where it cannot be.
        """
        obstacle = self._obstacle(target)
        if self.deferrable and obstacle:
            raise InvalidSpecError(f"{self.task_id}: deferrable=True needs {obstacle}")
        default = conf.getboolean("operators", "default_deferrable", fallback=False)
        return not obstacle and (default if self.deferrable is None else self.deferrable)

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for an application of the cluster: in the triggerer, or here."""
        if self._deferred is None:
            super().poll_until_complete(external_id, context)
            return
        staged_in = str(getattr(self._hook, "staged_in", ""))
        job = replace(self._deferred, application_id=str(external_id), staged_in=staged_in)
        limit = self.execution_timeout
        self.log.info("The triggerer waits for YARN application %s", external_id)
        # All that the task needs later comes with the event: dag.test() drops the kwargs of a deferral.
        self.defer(
            trigger=YarnApplicationTrigger(
                application_id=str(external_id),
                spark_conn_id=str(self._conn_id),
                poll_interval=float(self._status_poll_interval),
                deadline=None if limit is None else self._deferred.started + limit.total_seconds(),
                hook_arguments=self._hook_arguments(),
                job=job.to_plain(),
            ),
            method_name="execute_complete",
        )

    def _obstacle(self, target: SparkTarget) -> str | None:
        if not (target.cluster_mode and target.master.startswith("yarn")):
            mode = "cluster" if target.cluster_mode else "client"
            return f"a driver in YARN's cluster mode; the Spark connection says {target.master!r} in {mode} mode"
        if not self._yarn_track_via_rm_api:
            return "yarn_track_via_rm_api=True, by which the triggerer follows the application"
        if self._yarn_rm_auth is not None:
            return "no yarn_rm_auth, which cannot be handed to the triggerer; give keytab and principal"
        return None

    def _hook_arguments(self) -> dict[str, Any]:
        """Return arguments by which the triggerer reaches the application, none of them secret."""
        staging = {name: value for name, value in (self.conf or {}).items() if name == _STAGING}
        variables = {name: value for name, value in (self.env_vars or {}).items() if name in _OF_HADOOP}
        arguments = {
            "keytab": self.keytab,
            "principal": self.principal,
            "proxy_user": self.proxy_user,
            "spark_binary": self._spark_binary,
            "conf": staging,
            "env_vars": variables,
        }
        return {name: value for name, value in arguments.items() if value}


def now() -> float:
    """Return the seconds since 1970, which another machine counts alike."""
    return time.time()

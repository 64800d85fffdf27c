"""A task that waits until a lake table has a new snapshot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
)

from airflow_lake_provider.contracts.argument_validation import consumer_name, flag, label, optional, ref_name, text
from airflow_lake_provider.contracts.author_object import is_open
from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, MissingTableError, error_class
from airflow_lake_provider.contracts.table_name import TableName, table_name
from airflow_lake_provider.hooks.lock_free_cached_property import lock_free_cached_property
from airflow_lake_provider.operators.rendered_arguments import NumbersOfDigits
from airflow_lake_provider.operators.retry_delays import as_task_failure, refusing_for_good
from airflow_lake_provider.tables.detect_new_snapshot import EventThreshold, NewSnapshot, TableHead, decide
from airflow_lake_provider.tables.watermark import Since
from airflow_lake_provider.triggers.lake_snapshot import LakeSnapshotTrigger
from airflow_lake_provider.triggers.watch_settings import DEFAULT_CONNECTION, default_poll_interval

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.triggers.watermark_store import Log

ErrorT = TypeVar("ErrorT", bound=Exception)


class LakeSnapshotSensor(NumbersOfDigits, BaseSensorOperator):
    """Wait until rows of a table changed since a snapshot, a time or a consumer's cursor.

    Follows the branch's ancestry without Spark: compactions and other commits that change no rows do not count, a
    rollback does. A missing table is waited for. The payload of the event goes to XCom, see
    ``NewSnapshot.to_payload``; ids in it are text.

    :param table: ``namespace.table`` (templated).
    :param since: a snapshot id, ``snapshot:<id>`` where ids are no numbers, or a time with a zone as an object or
        ISO-8601 text (templated). Default the run's ``data_interval_start``; a run without one, such as an
        asset-triggered run, fails.
    :param consumer: instead of ``since``: the cursor of this consumer on the table (templated). A consumer that the
        table does not know has read nothing.
    :param lake_conn_id: connection of type ``iceberg`` (templated).
    :param branch: branch to look at (templated).
    :param min_added_rows: wait until the commits added this many rows together.
    :param poke_interval: between looks; None means ``[lake] snapshot_poll_interval`` seconds.
    :param deferrable: wait in the triggerer; default ``[operators] default_deferrable``.
    :param of_sensor: arguments of Airflow's ``BaseSensorOperator``.
    :raises InvalidSpecError: an argument is malformed, or there is nothing to wait from.
    :raises InvalidConnectionError: the connection is missing, incomplete or contradictory.
    :raises UnsupportedError: the table is of another format.
    """

    template_fields: Sequence[str] = ("table", "since", "consumer", "lake_conn_id", "branch")
    ui_color = "#d7eaf3"

    def __init__(
        self,
        *,
        table: str,
        since: str | int | datetime | None = None,
        consumer: str | None = None,
        lake_conn_id: str = DEFAULT_CONNECTION,
        branch: str = "main",
        min_added_rows: int = 0,
        poke_interval: timedelta | float | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **of_sensor: Any,
    ) -> None:
        interval = default_poll_interval() if poke_interval is None else poke_interval
        super().__init__(poke_interval=interval, **of_sensor)
        self.table = table
        self.since = since
        self.consumer = consumer
        self.lake_conn_id = lake_conn_id
        self.branch = branch
        with refusing_for_good():
            self._refuse_early()
            self.min_added_rows = EventThreshold(min_added_rows=min_added_rows).min_added_rows
            self.deferrable = flag(deferrable, "deferrable")

    def _refuse_early(self) -> None:
        """Refuse what cannot be right, of the arguments that have no template."""
        if not (is_open(self.since) or is_open(self.consumer)):
            self._refuse_both()
        if not is_open(self.table):
            table_name(self.table, "table")
        if self.since is not None and not is_open(self.since):
            Since.parse(self.since)
        if self.consumer is not None and not is_open(self.consumer):
            consumer_name(self.consumer, "consumer")
        if not is_open(self.branch):
            ref_name(text(self.branch, "branch"), "branch")
        if not is_open(self.lake_conn_id):
            text(self.lake_conn_id, "lake_conn_id")

    def _refuse_both(self) -> None:
        if self.since not in (None, "") and self.consumer not in (None, ""):
            raise InvalidSpecError(
                f"{self.table}: give either since or consumer, got {self.since!r} and {self.consumer!r}"
            )

    def execute(self, context: Context) -> Any:
        """Look at once; then poke, or defer."""
        if not self.deferrable:
            return super().execute(context)
        try:
            result = self.poke(context)
        except AirflowFailException as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise
        return result.xcom_value if result.is_done else self._defer(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once.

        :raises LakeProviderError: for what waiting does not mend; it fails the task without a retry.
        """
        try:
            answer = decide(
                self._poller.look(), self._start(context), threshold=EventThreshold(min_added_rows=self.min_added_rows)
            )
        except LakeProviderError as error:
            if not error.retry_may_help:
                raise self._ending(as_task_failure(error)) from error
            self.log.warning("%s: cannot look at the table and will try again: %s", self.table, error)
            return PokeReturnValue(False)
        if not isinstance(answer, NewSnapshot):
            self.log.info("%s: %s", self.table, answer.reason.value)
            return PokeReturnValue(False)
        payload = answer.to_payload(self.table, self._branch)
        self.log.info("%s: new snapshot %s", self.table, payload)
        return PokeReturnValue(True, payload)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002  Airflow's call
        """Return the payload the trigger found.

        :raises LakeProviderError: what the trigger could not wait out.
        :raises AirflowSensorTimeout: there was none in time.
        :raises AirflowTaskTimeout: there was none within ``execution_timeout``, which a retry may follow.
        """
        if event["status"] == "success":
            payload: dict[str, Any] = event["payload"]
            self.log.info("%s: new snapshot %s", self.table, payload)
            return payload
        if event["status"] == "timeout" and self._seconds < self.timeout:
            raise AirflowTaskTimeout(f"{self.table}: no new snapshot within {self._seconds:g} s of execution_timeout")
        if event["status"] == "timeout":
            raise self._ending(AirflowSensorTimeout(f"{self.table}: no new snapshot within {self.timeout:g} s"))
        name, message = event["error"], event["message"]
        if error_class(name).__name__ == name:
            raise self._ending(as_task_failure(error_class(name)(message)))
        raise self._ending(AirflowException(f"{self.table}: waiting for a snapshot failed: {name}: {message}"))

    def _ending(self, error: ErrorT) -> ErrorT:
        """Return an error; where it skips the task, Airflow's log has no word of it, so it is said here."""
        if self.soft_fail or self.never_fail:
            self.log.warning("The task is skipped by %s: %s", type(error).__name__, error)
        return error

    def _defer(self, context: Context) -> NoReturn:
        start = self._start(context)
        # All that the task needs later comes with the event: dag.test() drops the kwargs of a deferral.
        self.defer(
            timeout=timedelta(seconds=self.timeout),
            trigger=LakeSnapshotTrigger(
                table=self.table,
                lake_conn_id=self.lake_conn_id,
                branch=self._branch,
                since=start.to_text(),
                consumer=start.consumer,
                min_added_rows=self.min_added_rows,
                poll_interval=self.poke_interval,
                deadline=time.time() + self._seconds,
            ),
            method_name="execute_complete",
        )

    @property
    def _seconds(self) -> float:
        """Longest wait in the triggerer: Airflow keeps ``execution_timeout`` for tasks alone that hold a worker."""
        limit = self.execution_timeout
        return self.timeout if limit is None else min(self.timeout, limit.total_seconds())

    @lock_free_cached_property
    def _poller(self) -> _SingleLook:
        return _SingleLook(table=self.table, lake_conn_id=self.lake_conn_id, branch=self._branch, log=self.log)

    @property
    def _branch(self) -> str:
        """The branch once templates are rendered: an empty text leaves the argument out, as it does of operators."""
        return optional(ref_name)(self.branch, "branch") or "main"

    def _start(self, context: Context) -> Since:
        self._refuse_both()
        consumer = optional(label)(self.consumer, "consumer")
        if consumer is not None:
            # Any other has read nothing of any table, and each look would see something new.
            return Since(consumer=consumer_name(consumer, "consumer"))
        given = self.since if self.since not in (None, "") else context.get("data_interval_start")
        if given is None:
            raise InvalidSpecError(
                f"{self.table}: this run has no data_interval_start to wait from, as runs triggered by assets or by "
                "hand may have none; give since= a snapshot id or a time, or consumer="
            )
        return Since.parse(given)


class _SingleLook:
    """Read the head of one branch; the catalog is opened once and kept until it fails.

    :param table: ``namespace.table``.
    :param log: the trigger's or the sensor's.
    """

    def __init__(self, *, table: str, lake_conn_id: str, branch: str, log: Log) -> None:
        self.table = str(TableName.parse(table))
        self.lake_conn_id = lake_conn_id
        self.branch = branch
        self._log = log
        self._hook: LakeCatalogHook | None = None
        self._said_missing = False

    def look(self) -> TableHead:
        """Look once.

        :return: a head of None where the table or the branch is not there yet, which is said once at WARNING.
        :raises LakeProviderError: when the connection or the catalog fails.
        """
        # PyIceberg takes a second to import, and a DAG file that only names a trigger never looks.
        from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

        self._hook = self._hook or LakeCatalogHook(self.lake_conn_id)
        try:
            head = TableHead.of_table(self._hook.loaded(self.table), self.branch)
        except MissingTableError:
            self._say_missing(f"table {self.table}")
            return TableHead(head=None)
        except Exception:
            # The next look reads the connection anew: its credentials may be what changed.
            self._hook = None
            raise
        if head.head is None and (head.snapshots or self.branch != "main"):
            self._say_missing(f"branch {self.branch!r} of table {self.table}")
        else:
            self._said_missing = False
        return head

    def _say_missing(self, what: str) -> None:
        if not self._said_missing:
            self._log.warning("connection %r: %s does not exist yet; waiting for it", self.lake_conn_id, what)
        self._said_missing = True

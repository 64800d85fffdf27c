"""Looks at one branch of one table, for a sensor that pokes in its worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from airflow.sdk import conf

from airflow_lake_provider.contracts.errors import LakeProviderError, MissingTableError
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.tables.detect_new_snapshot import TableHead

if TYPE_CHECKING:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

DEFAULT_CONNECTION = "lake_default"


def default_poll_interval() -> float:
    """Return ``[lake] snapshot_poll_interval`` in seconds, 60 unless set."""
    return float(conf.getfloat("lake", "snapshot_poll_interval", fallback=60.0))


def may_pass(error: BaseException) -> bool:
    """Return whether the same look may succeed later."""
    if isinstance(error, LakeProviderError):
        return error.retry_may_help
    return isinstance(error, OSError)


class Log(Protocol):
    """Methods that are used of the logger of a trigger or a sensor, whose types differ."""

    def info(self, event: str, /, *args: Any) -> Any:
        """Say what goes on."""

    def warning(self, event: str, /, *args: Any) -> Any:
        """Say what somebody should look at."""


class SingleLook:
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
            head = TableHead.of(self._hook.loaded(self.table).facts, self.branch)
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

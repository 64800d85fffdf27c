"""Look at tables in threads, which share one opened catalog: a look that hangs blocks no triggerer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_lake_provider.tables.detect_new_snapshot import TableHead
from airflow_lake_provider.triggers.watch_settings import look_timeout

if TYPE_CHECKING:
    from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
    from airflow_lake_provider.tables.base import MetadataVersion


@dataclass(frozen=True)
class ChangedTable:
    """A table that changed since the look before.

    :param heads: by branch.
    :param version: of its metadata, to be compared with by the next look.
    """

    heads: Mapping[str, TableHead]
    version: MetadataVersion


class PollThreads:
    """Look at tables of one connection; its catalog is opened once and kept until :meth:`reopen`.

    Each look has a thread of its own, which does not keep the triggerer from ending: a look may hang for good.

    :param lake_conn_id: connection of type ``iceberg``.
    :raises InvalidSpecError: ``[lake] watch_look_timeout`` is not above 0.
    """

    def __init__(self, lake_conn_id: str) -> None:
        self._lake_conn_id = lake_conn_id
        self._hook: LakeCatalogHook | None = None
        self._opened_for = object()
        self._timeout = look_timeout()

    def start(
        self, table: str, branches: Iterable[str], seen: MetadataVersion | None
    ) -> asyncio.Future[ChangedTable | None]:
        """Look at a table in a thread.

        :param table: ``namespace.table``.
        :param branches: whose heads are wanted.
        :param seen: version of the look before.
        :return: a future of the running loop; of None where the version is still ``seen``.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ChangedTable | None] = loop.create_future()
        thread = threading.Thread(
            target=self._look, args=(loop, answer, table, tuple(branches), seen), name=f"look-{table}", daemon=True
        )
        thread.start()
        return answer

    def reopen(self) -> None:
        """Let the next look read the connection anew: its credentials may be what changed."""
        self.close()

    def close(self) -> None:
        """Close the catalog; the next look opens it again."""
        hook, self._hook, self._opened_for = self._hook, None, object()
        if hook is not None:
            threading.Thread(target=hook.opened.close, daemon=True).start()

    def _look(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: asyncio.Future[ChangedTable | None],
        table: str,
        branches: tuple[str, ...],
        seen: MetadataVersion | None,
    ) -> None:
        try:
            changed, error = self.look(table, branches, seen), None
        except BaseException as raised:  # noqa: BLE001  whatever it is, the loop must hear of it
            changed, error = None, raised
        try:
            loop.call_soon_threadsafe(_finish, answer, changed, error)
        except RuntimeError:
            return  # the loop was closed meanwhile

    def look(self, table: str, branches: tuple[str, ...], seen: MetadataVersion | None) -> ChangedTable | None:
        """Look at a table in this thread.

        :raises LakeProviderError: when the connection or the catalog fails.
        """
        loaded = self._opened().loaded_if_changed(table, seen)
        if loaded is None:
            return None
        current, version = loaded
        return ChangedTable({branch: TableHead.of_table(current, branch) for branch in branches}, version)

    def _opened(self) -> LakeCatalogHook:
        """Return the opened catalog.

        Looks that find none open it each for themselves, and one of them is kept. A look that waited for another one's
        opening would wait as long as that one. That may be for a catalog that fell silent.
        """
        from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook

        if (kept := self._hook) is not None:
            return kept
        wanted, hook = self._opened_for, LakeCatalogHook(self._lake_conn_id, timeout=self._timeout)
        _ = hook.opened
        # One that was opened with the connection of before a reopening serves this look alone.
        if self._hook is None and self._opened_for is wanted:
            self._hook = hook
        return hook


def _finish(
    answer: asyncio.Future[ChangedTable | None], changed: ChangedTable | None, error: BaseException | None
) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(changed)

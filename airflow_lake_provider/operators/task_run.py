"""Identity of a run: two runs that are one to a table, and the tries that are retries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.applied.source_position import default_source_name
from airflow_lake_provider.contracts.errors import InvalidSpecError, LakeProviderError, UnknownOutcomeError
from airflow_lake_provider.hooks.lock_free_cached_property import lock_free_cached_property

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.execution_time.context import TaskStateStoreAccessor

# Key of Airflow's store of the task's state, which clearing leaves: by it a try notes that it may commit, until a try
# has told of what was committed.
UNTOLD = "lake_untold"
# Key of the numbers of tries that have told: of each clearing those of the first one.
_REPORTED = "lake_reported"
# Beginning of keys by which a publication notes what main gains: afterwards no table tells who published it.
_GAINED = "lake_gained"


@dataclass(frozen=True)
class TaskRun:
    """One try of an instance of an Airflow task.

    :param retries: of the task, as its operator says.
    :param part: what names one of several jobs of the task; empty where it has one.
    """

    context: Context
    retries: int
    part: tuple[str, ...] = ()

    def identity(self, batch: tuple[str, ...] = (), *, cleared_is_new: bool = False) -> RunIdentity:
        """Return who runs: dag, run, task and map index, or the author's batch.

        :param batch: what names the batch, in place of the task.
        :param cleared_is_new: each run, and each clearing of its task, is somebody else; Airflow's retries are not.
        """
        instance = self.context["ti"]
        task = (instance.dag_id, instance.run_id, instance.task_id, str(instance.map_index), *self.part)
        who = (*batch, *task, self.clearing) if cleared_is_new else batch or task
        tries = self._tries_since_clearing if cleared_is_new else instance.try_number
        run_after = None if batch else self._begun_at(cleared_is_new=cleared_is_new)
        return RunIdentity.of(*who, try_number=tries, run_after=run_after)

    def _begun_at(self, *, cleared_is_new: bool) -> datetime:
        """Return a moment before which no try has committed, as late as it is known.

        Runs of a backfill, and those that catch up, begin long after the moment that they are of. A clearing sets the
        start of its run anew, and tries before it may be the same run.
        """
        run, instance = self.context["dag_run"], self.context["ti"]
        is_cleared = bool(self._clear_number) or self._tries_since_clearing < instance.try_number
        if run.start_date is None or (is_cleared and not cleared_is_new):
            return run.run_after
        return max(run.run_after, run.start_date)

    def source_name(self, table: str, *, is_kept: bool = True) -> str:
        """Return the name of a source that its author did not name.

        :param table: that is written, for the message.
        :param is_kept: whether the table keeps a position under the name.
        :raises InvalidSpecError: the task is mapped, so the name would be that of other sources as well.
        """
        instance = self.context["ti"]
        if is_kept and instance.map_index is not None and instance.map_index >= 0:
            raise InvalidSpecError(
                f"{table}: task {instance.task_id} is mapped, so its sources cannot share the name of the task; "
                "give each source a name by what it reads, for example Files(..., name='orders_eu'). Another list has "
                "other sources at the places of ti.map_index, and their files would count as new"
            )
        return default_source_name(instance.dag_id, instance.task_id)

    @lock_free_cached_property
    def may_be_untold(self) -> bool:
        """Tell whether nobody may have told of what an earlier try has committed, as that try failed afterwards."""
        if self.is_retry:
            return True
        # A job of many tables would ask for each that has nothing new.
        if self.context["ti"].try_number <= 1:
            return False
        with suppress(Exception):
            store = self._store
            return store is not None and store.get(UNTOLD) not in (None, self._this_try)
        return False

    def note_submission(self) -> None:
        """Note that this try may commit; a note of an earlier try stays."""
        # Without a note, a cleared task is one that has told of its commits.
        with suppress(Exception):
            store = self._store
            if store is not None and not store.get(UNTOLD):
                store.set(UNTOLD, self._this_try)

    def note_told(self, errors: Iterable[LakeProviderError | None] = ()) -> None:
        """Note that what the task has committed is told.

        :param errors: of its jobs. What one has committed is not told while it is not known; what the others have told
            a cleared task then tells again.
        """
        if any(isinstance(error, UnknownOutcomeError) for error in errors):
            return
        with suppress(Exception):
            store = self._store
            if store is not None and store.get(UNTOLD):
                store.delete(UNTOLD)
            if store is not None and self._max_tries:
                notes = self._reported(store)
                if all(clears != self._clear_number for *_, clears in notes):
                    this_try: Any = [self._max_tries, self.context["ti"].try_number, self._clear_number]
                    store.set(_REPORTED, [*notes, this_try])

    def note_publication(self, gained: Sequence[str]) -> None:
        """Note the snapshots that this try is about to give to main."""
        self.note_submission()
        with suppress(Exception):
            if (store := self._store) is not None:
                store.set(self._publication, list(gained))

    def untold_publication(self) -> tuple[str, ...]:
        """Return the snapshots that an earlier try was about to give to main, and of which nobody may have told."""
        with suppress(Exception):
            if self.may_be_untold and (store := self._store) is not None:
                gained = store.get(self._publication)
                return tuple(map(str, gained)) if isinstance(gained, list) else ()
        return ()

    @property
    def _publication(self) -> str:
        """Key of the note of a publication; a part may have letters that no address has."""
        return f"{_GAINED} {self.identity().who}"

    @property
    def _store(self) -> TaskStateStoreAccessor | None:
        """Airflow's store of the task's state; None of an Airflow that has none."""
        return self.context.get("task_state_store")

    @property
    def is_retry(self) -> bool:
        """Tell whether an earlier try of the same clearing failed; the first try after a clearing is none."""
        return self._tries_since_clearing > 1

    @property
    def _this_try(self) -> str:
        """Text that no other try has, whatever the author does to the retries meanwhile."""
        return f"try {self.context['ti'].try_number}"

    @property
    def is_last_try(self) -> bool:
        """Tell whether Airflow starts no other try by itself."""
        instance = self.context["ti"]
        return bool(instance.try_number > instance.max_tries)

    @property
    def clearing(self) -> str:
        """Text that a clearing of the task changes and a retry does not: max_tries only grows by clearing.

        A clearing after the author has lowered the retries may leave max_tries as it was. Then a try before it has
        told, and the run was cleared since.
        """
        earlier = self._told_before_clearing
        return f"up to try {self._max_tries}" + (f" after try {earlier}" if earlier is not None else "")

    @property
    def tries_of_application(self) -> str:
        """Text that names the tries of which one may follow the application of another.

        A clearing after the author has lowered the retries may leave max_tries as it was. A text that a retry does not
        share costs a submission, and the run key meets what was committed.
        """
        is_cleared = bool(self._clear_number) and self._first_try > 1
        return f"up to try {self._max_tries}" + (f" from try {self._first_try}" if is_cleared else "")

    @property
    def _told_before_clearing(self) -> int | None:
        """Number of the last try that has told before a clearing which max_tries does not show; None without one.

        Not that of the first try since: another change of the retries would give a retry another one.
        """
        store = self._store
        if self._first_try <= 1 or store is None:
            return None
        with suppress(Exception):
            earlier = [int(number) for _, number, clears in self._reported(store) if clears < self._clear_number]
            return max((number for number in earlier if number < self._first_try), default=None)
        return None

    def _reported(self, store: TaskStateStoreAccessor) -> list[Any]:
        """Return the numbers of tries that have told, but for those before a clearing that max_tries shows."""
        notes: Any = store.get(_REPORTED)
        return [note for note in notes if note[0] == self._max_tries] if isinstance(notes, list) else []

    @property
    def _max_tries(self) -> int:
        return int(self.context["ti"].max_tries)

    @property
    def _clear_number(self) -> int:
        """Number of times that the run was cleared, for any of its tasks."""
        return int(self.context["dag_run"].clear_number or 0)

    @property
    def _tries_since_clearing(self) -> int:
        return int(self.context["ti"].try_number - self._first_try + 1)

    @property
    def _first_try(self) -> int:
        """Number of the first try since the task was cleared, or since its run began."""
        # As TaskInstance counts: clearing sets max_tries to the tries so far and as many retries again.
        first_try = self._max_tries - self.retries + 1
        # It is yet to come only where the author has lowered the retries since.
        return first_try if 1 < first_try <= self.context["ti"].try_number else 1

"""Retries, clearings and backfills: which tries of a task are one run, and how old it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys
from airflow_lake_provider.contracts.errors import ForgottenRunError
from airflow_lake_provider.contracts.specs.row_changes import UpdateRowsSpec
from tests.unit.operators.row_operators import delete, update_rows, upsert
from tests.unit.operators.run_of_tests import RUN, StateStore

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("lake_connection")


def test_with_on_repeat_apply_a_cleared_task_is_somebody_new_and_a_retry_is_not(context: Context) -> None:
    def who(on_repeat: str, try_number: int, max_tries: int, **arguments: str) -> str:
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        return upsert(on_repeat=on_repeat, **arguments).build_spec(context).run.who

    assert who("apply", 1, 1) == who("apply", 2, 1) != who("apply", 3, 3)
    assert who("skip", 1, 1) == who("skip", 3, 3) != who("apply", 1, 1)
    first_run = who("apply", 1, 1, batch_id="b")
    context["ti"].run_id = "another run"
    assert who("apply", 1, 1, batch_id="b") != first_run


def test_the_tries_of_a_deletion_are_counted_from_its_clearing_and_those_of_an_update_from_the_run(
    context: Context,
) -> None:
    deletion, update = delete(retries=2), update_rows(retries=2)

    def tries(try_number: int, max_tries: int) -> tuple[int, int]:
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        return deletion.build_spec(context).run.try_number, update.build_spec(context).run.try_number

    # max_tries is 2 at first; clearing after the second try makes it 4.
    assert [tries(number, 2) for number in (1, 2, 3)] == [(1, 1), (2, 2), (3, 3)]
    assert [tries(number, 4) for number in (3, 4)] == [(1, 3), (2, 4)]


@pytest.mark.parametrize(
    ("started", "clear_number", "max_tries", "of_deletion", "of_update"),
    [
        # Airflow gives a run of a backfill the moment that its day would have had.
        ("2026-11-29", 0, 2, "2026-11-29", "2026-11-29"),
        # Tries of before a clearing may have committed before the new start; a cleared deletion is another run.
        ("2026-11-29", 1, 4, "2026-11-29", "2026-01-01"),
        ("2026-11-29", 1, 2, "2026-11-29", "2026-01-01"),
        ("2026-11-29", 0, 4, "2026-11-29", "2026-01-01"),
        ("2025-12-31", 0, 2, "2026-01-01", "2026-01-01"),
        (None, 0, 2, "2026-01-01", "2026-01-01"),
    ],
)
def test_a_run_of_a_backfill_is_as_old_as_its_start_unless_it_was_cleared(
    context: Context,
    started: str | None,
    clear_number: int,
    max_tries: int,
    of_deletion: str,
    of_update: str,
) -> None:
    def day(text: str) -> datetime:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)

    deletion, update = delete(retries=2), update_rows(retries=2)
    context["dag_run"].start_date = day(started) if started else None
    context["dag_run"].clear_number = clear_number
    context["ti"].try_number, context["ti"].max_tries = max_tries, max_tries
    assert deletion.build_spec(context).run.run_after == day(of_deletion)
    assert update.build_spec(context).run.run_after == day(of_update)


def test_a_retry_of_a_backfill_is_not_refused_for_runs_that_were_forgotten_before_it_began(context: Context) -> None:
    forgotten = RecentRunKeys(dropped_before=int(datetime(2026, 6, 1, tzinfo=UTC).timestamp()))
    update = update_rows(retries=2)
    context["ti"].try_number, context["ti"].max_tries = 2, 2
    with pytest.raises(ForgottenRunError):
        forgotten.refuse_forgotten(update.build_spec(context).run, "shop.orders")
    context["dag_run"].start_date = datetime(2026, 11, 29, tzinfo=UTC)
    forgotten.refuse_forgotten(update.build_spec(context).run, "shop.orders")


def test_an_update_is_recognised_when_its_task_is_cleared(context: Context) -> None:
    job = update_rows()
    assert job.build_spec(context) == UpdateRowsSpec(
        catalog="lake_default", table="shop.orders", run=RUN, assignments={"n": "n + 1"}, where="id = 3"
    )
    assert ("where" in job.template_fields, "assignments" in job.template_fields) == (True, False)


def test_the_first_try_after_a_clearing_is_no_retry(context: Context) -> None:
    def is_retry(try_number: int, max_tries: int) -> bool:
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        return upsert(retries=2).task_run(context).is_retry

    # max_tries is 2 at first; clearing after the second try makes it 4.
    assert [is_retry(number, 2) for number in (1, 2, 3)] == [False, True, True]
    assert [is_retry(number, 4) for number in (3, 4, 5)] == [False, True, True]


def test_a_try_after_the_author_has_lowered_the_retries_is_still_a_retry(context: Context) -> None:
    # max_tries stays at the retries that the task had when its run began.
    context["ti"].try_number, context["ti"].max_tries = 2, 3
    assert upsert(retries=0).task_run(context).is_retry


class TriesOfADeletion:
    """Tries of a deletion whose task has three retries when its run begins."""

    def __init__(self, context: Context) -> None:
        self.context = context
        context["ti"].max_tries = 3
        StateStore.of(context)

    def who(self, try_number: int, retries: int, clear_number: int = 0, *, tells: bool = False) -> str:
        self.context["ti"].try_number, self.context["dag_run"].clear_number = try_number, clear_number
        job = delete(retries=retries)
        run = job.build_spec(self.context).run
        if tells:
            job.task_run(self.context).note_told()
        return run.who


@pytest.mark.parametrize(("last", "retries"), [(1, 2), (2, 1), (3, 0)])
def test_a_task_that_is_cleared_after_its_author_has_lowered_the_retries_is_another_run(
    context: Context, last: int, retries: int
) -> None:
    tries = TriesOfADeletion(context)
    first = tries.who(1, 3)
    assert tries.who(last, 3, tells=True) == first
    # Its max_tries is the tries so far and the retries of now: what it was before.
    cleared = [tries.who(last + number, retries, 1, tells=True) for number in range(1, retries + 2)]
    assert len({first, *cleared}) == 2
    assert set(cleared) != {first}
    # Cleared once more, with the retries as they are.
    context["ti"].max_tries = 4 + retries
    assert tries.who(5, retries, 2) not in {first, *cleared}


def test_each_clearing_is_another_run_though_the_retries_are_lowered_before_each(context: Context) -> None:
    tries = TriesOfADeletion(context)
    first = tries.who(1, 3, tells=True)
    # The second try of this clearing follows a failure behind the report.
    second = [tries.who(number, 2, 1, tells=True) for number in (2, 3)]
    third = tries.who(4, 0, 2, tells=True)
    assert second[0] == second[1]
    assert len({first, *second, third}) == 3


def test_a_retry_after_a_clearing_is_the_same_run_though_the_retries_are_lowered_once_more(context: Context) -> None:
    tries = TriesOfADeletion(context)
    tries.who(2, 3, tells=True)
    assert tries.who(3, 1, 1) == tries.who(4, 0, 1)


@pytest.mark.parametrize(
    ("tells", "before", "since"),
    [
        pytest.param(False, 0, 1, id="a lost report, and another task was cleared"),
        pytest.param(True, 0, 0, id="a failure behind the report"),
        pytest.param(True, 1, 1, id="a failure behind the report, in a run that was cleared before"),
    ],
)
def test_a_retry_after_the_author_has_lowered_the_retries_is_the_same_run(
    context: Context, tells: bool, before: int, since: int
) -> None:
    tries = TriesOfADeletion(context)
    first = [tries.who(number, 3, before, tells=tells) for number in (1, 2)]
    assert {*first, tries.who(3, 1, since), tries.who(4, 0, since)} == set(first[:1])

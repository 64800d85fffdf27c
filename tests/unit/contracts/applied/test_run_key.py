"""Run keys: whose they are, what they cover, and what a table remembers of them. The oracle is a plain list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.applied.run_key import RecentRunKeys, RunIdentity
from airflow_lake_provider.contracts.errors import ForgottenRunError, InvalidSpecError
from airflow_lake_provider.contracts.table_properties import (
    MAX_VALUE_CHARACTERS,
    RECENT_RUN_KEYS,
    RUN_KEYS_DROPPED_BEFORE,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = st.integers(0, 250).map(lambda number: f"{number:016x}")
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # st.datetimes takes naive bounds


def remembered(adds: list[tuple[str, datetime]]) -> RecentRunKeys:
    keys = RecentRunKeys()
    for key, at in adds:
        keys = keys.add(key, at)
    return keys


def full(since: datetime = START) -> RecentRunKeys:
    """A list from which one entry was dropped, that of ``since``."""
    return remembered([(f"{number:016x}", since + timedelta(minutes=number)) for number in range(101)])


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, MOMENTS), max_size=320))
def test_any_sequence_of_adds_keeps_the_newest_within_the_limits(adds: list[tuple[str, datetime]]) -> None:
    keys = remembered(adds)
    newest_first = list(dict.fromkeys(key for key, _ in reversed(adds)))
    assert [key for key, _ in keys.entries] == newest_first[:100]
    assert all(len(value) <= MAX_VALUE_CHARACTERS for value in keys.to_properties().values())
    assert RecentRunKeys.read(keys.to_properties()) == keys


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, MOMENTS), max_size=320))
def test_every_dropped_key_was_committed_by_the_time_the_list_names(adds: list[tuple[str, datetime]]) -> None:
    last_commit = dict(adds)
    keys = remembered(adds)
    for key in last_commit.keys() - {key for key, _ in keys.entries}:
        assert keys.dropped_before is not None
        assert int(last_commit[key].timestamp()) <= keys.dropped_before


def test_what_was_dropped_is_only_named_once_something_was() -> None:
    assert RUN_KEYS_DROPPED_BEFORE not in remembered([("0" * 16, START)]).to_properties()
    assert full().to_properties()[RUN_KEYS_DROPPED_BEFORE] == str(int(START.timestamp()))


def test_a_table_without_the_properties_remembers_nothing() -> None:
    assert RecentRunKeys.read({}) == RecentRunKeys()
    assert RecentRunKeys.read({RECENT_RUN_KEYS: ""}) == RecentRunKeys()


def test_the_newest_key_of_an_identity_is_found_by_its_first_half() -> None:
    keys = remembered([("aaaaaaaa00000001", START), ("bbbbbbbb00000000", START), ("aaaaaaaa00000002", START)])
    assert keys.of_identity("aaaaaaaa") == "aaaaaaaa00000002"
    assert keys.of_identity("cccccccc") is None
    assert "bbbbbbbb00000000" in keys
    assert "bbbbbbbb00000001" not in keys


def retry(run_after: datetime | None = START, try_number: int = 2) -> RunIdentity:
    return RunIdentity.of("dag", "run", "task", "-1", try_number=try_number, run_after=run_after)


def test_a_retry_of_a_run_older_than_the_dropped_entries_is_refused_in_words() -> None:
    with pytest.raises(ForgottenRunError) as refused:
        full().refuse_forgotten(retry(START - timedelta(hours=1)), "shop.orders")
    for said in ("shop.orders", "dag run task -1", "attempt 2", "2025-12-31T23:00:00+00:00", START.isoformat()):
        assert said in str(refused.value)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(retry(START - timedelta(hours=1), try_number=1), id="first attempt"),
        pytest.param(retry(START + timedelta(seconds=1)), id="younger run"),
        pytest.param(RunIdentity.of("batch", "b-7", try_number=9), id="batch id without a time"),
    ],
)
def test_nothing_else_is_refused(run: RunIdentity) -> None:
    full().refuse_forgotten(run, "shop.orders")


def test_nothing_is_refused_while_nothing_was_dropped() -> None:
    remembered([("0" * 16, START)]).refuse_forgotten(retry(START - timedelta(days=99)), "shop.orders")


@settings(deadline=None)
@given(st.integers(0, 5_000_000), st.integers(0, 5_000_000))
def test_a_run_that_was_applied_and_forgotten_is_never_applied_again(start_us: int, took_us: int) -> None:
    """Commit times are kept in whole seconds; a run that committed in the second it began must be refused too."""
    run_after = START + timedelta(microseconds=start_us)
    with pytest.raises(ForgottenRunError):
        full(run_after + timedelta(microseconds=took_us)).refuse_forgotten(retry(run_after), "shop.orders")


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1), st.randoms())
def test_the_order_of_inputs_does_not_matter(inputs: list[str], random: object) -> None:
    shuffled = sorted(inputs, key=lambda _: random.random())  # type: ignore[attr-defined]  # st.randoms is untyped
    assert retry().run_key("{}", tuple(inputs)) == retry().run_key("{}", tuple(shuffled))


def test_a_corrected_input_changes_the_second_half_only() -> None:
    first, corrected = (retry().run_key("{}", ("s3://in/a.parquet", version)) for version in ("v1", "v2"))
    assert first[:8] == corrected[:8] == retry().who
    assert first[8:] != corrected[8:]
    assert retry().run_key('{"keys":["id"]}', ("s3://in/a.parquet", "v1"))[8:] != first[8:]


def test_another_attempt_has_the_same_key_and_another_map_index_another() -> None:
    assert retry(try_number=1).run_key("{}", ()) == retry(try_number=3).run_key("{}", ())
    assert RunIdentity.of("dag", "run", "task", "1").who != RunIdentity.of("dag", "run", "task", "2").who
    assert RunIdentity.of("a", "bc").who != RunIdentity.of("ab", "c").who


@pytest.mark.parametrize("parts", [(), ("",)])
def test_nobody_is_no_identity(parts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSpecError, match="batch id"):
        RunIdentity.of(*parts)

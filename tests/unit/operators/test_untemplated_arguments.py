"""Arguments of operators, as authors, templates and forms give them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pendulum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_lake_provider.contracts.argument_validation import choice, flag, names, number, size
from airflow_lake_provider.contracts.author.table_layout import TableLayout, table_layout
from airflow_lake_provider.contracts.durations import duration
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.load import OnRepeat


@pytest.mark.parametrize("member", OnRepeat)
def test_a_choice_is_taken_as_text_and_as_itself(member: OnRepeat) -> None:
    assert choice(OnRepeat, member.value, "on_repeat") is choice(OnRepeat, member, "on_repeat") is member


@settings(deadline=None)
@given(st.lists(st.text(min_size=1).filter(lambda name: name.strip() and "{" not in name)))
def test_names_stay_in_order(given_names: list[str]) -> None:
    assert names(given_names, "keys") == tuple(given_names)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("P5D", timedelta(days=5)),
        ("PT1H30M", timedelta(minutes=90)),
        ("P1W", timedelta(weeks=1)),
        (timedelta(seconds=1), timedelta(seconds=1)),
        (pendulum.duration(days=2), timedelta(days=2)),
    ],
)
def test_a_duration_is_a_timedelta_or_iso_text(value: timedelta | str, expected: timedelta) -> None:
    assert duration(value, "older_than") == expected


@settings(deadline=None)
@given(st.booleans(), st.sampled_from(["{}", " {}\n"]), st.sampled_from([str, str.lower, str.upper]))
def test_a_switch_is_itself_and_what_templates_make_of_it(
    value: bool, frame: str, written: Callable[[str], str]
) -> None:
    assert flag(value, "dry_run") is flag(frame.format(written(str(value))), "dry_run") is value


@settings(deadline=None)
@given(st.integers(0))
def test_a_number_is_itself_and_what_templates_make_of_it(value: int) -> None:
    assert number(value, "retain_last") == number(f" {value} ", "retain_last") == value


@pytest.mark.parametrize(
    ("given_size", "bytes_"),
    [
        (1, 1),
        ("134217728", 134_217_728),
        ("128MB", 134_217_728),
        ("128 MiB", 134_217_728),
        (" 128mb ", 134_217_728),
        ("1g", 1024**3),
        ("2TB", 2 * 1024**4),
        ("5b", 5),
    ],
)
def test_a_size_is_a_number_of_bytes_or_a_number_with_a_unit(given_size: int | str, bytes_: int) -> None:
    assert size(given_size, "target_file_size") == bytes_


@pytest.mark.parametrize("wrong", ["128 megabytes", "1.5GB", "0MB", 0, -1, True, 1.0, "", "MB", "9999999TB", None, [1]])
def test_a_size_that_is_none_is_refused_with_an_example(wrong: Any) -> None:
    with pytest.raises(InvalidSpecError, match="target_file_size must be a size such as '128MB'"):
        size(wrong, "target_file_size")


def test_a_layout_is_a_mapping_a_default_or_none() -> None:
    assert table_layout(True) == TableLayout()
    assert table_layout(False) is None
    assert table_layout({"partition_by": ["days(at)"], "target_file_size": 9}) == TableLayout(
        partition_by=("days(at)",), target_file_size=9
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: choice(OnRepeat, "maybe", "on_repeat"), ["on_repeat", "'skip', 'apply', 'fail'", "'maybe'"]),
        (lambda: choice(OnRepeat, ["skip"], "on_repeat"), ["on_repeat", "['skip']"]),  # type: ignore[arg-type]  # what is refused
        (lambda: names("id", "keys"), ["keys", "'id'"]),
        (lambda: names(["id", ""], "keys"), ["keys", "['id', '']"]),
        (lambda: duration("5 days", "older_than"), ["older_than", "'P5D'", "'5 days'"]),
        (lambda: duration("", "older_than"), ["older_than", "''"]),
        (lambda: duration("2026-01-01", "older_than"), ["'2026-01-01'"]),
        (lambda: duration("2026-01-01/2026-02-01", "older_than"), ["'2026-01-01/2026-02-01'"]),
        (lambda: duration("PT0S", "older_than"), ["positive", "'PT0S'"]),
        (lambda: duration(timedelta(days=-1), "older_than"), ["positive"]),
        (lambda: duration(5, "older_than"), ["got 5"]),
        (lambda: flag("yes", "dry_run"), ["dry_run", "'yes'"]),
        (lambda: flag("", "dry_run"), ["dry_run", "''"]),
        (lambda: flag(1, "dry_run"), ["dry_run", "1"]),
        (lambda: number("-1", "retain_last"), ["retain_last", "'-1'"]),
        (lambda: number("1.5", "retain_last"), ["'1.5'"]),
        (lambda: number(True, "retain_last"), ["True"]),
        (lambda: table_layout({"partitions": ["a"]}), ["['partitions']", "partition_by"]),
        (lambda: table_layout({"partition_by": "days(at)"}), ["partition_by", "'days(at)'"]),
        (lambda: table_layout({"file_format": "csv"}), ["'csv'"]),
    ],
)
def test_a_refusal_names_the_argument_and_what_was_given(make: Callable[[], Any], said: list[str]) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        make()
    assert all(words in str(refused.value) for words in said), str(refused.value)

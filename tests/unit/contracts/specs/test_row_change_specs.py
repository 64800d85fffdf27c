"""Specs of row changes: which rows is said once, and a run key cannot tell which."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec, UpdateRowsSpec

BASE: dict[str, Any] = {"catalog": "lake", "table": "shop.orders", "run": RunIdentity.of("dag", "run", "task", "-1")}
KEYS = Files(path="s3://in/forget.parquet", format="parquet")
SECRET = "id = 4711"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "either by where or by keys_from"),
        ({"where": SECRET, "keys_from": KEYS, "keys": ("id",)}, "either by where or by keys_from"),
        ({"where": " "}, "where is empty"),
        ({"where": SECRET, "keys": ("id",)}, "and where none"),
        ({"keys_from": KEYS}, "one or more different key columns"),
        ({"keys_from": KEYS, "keys": ("id", "id")}, "one or more different key columns"),
        ({"where": SECRET, "max_attempts": 0}, "max_attempts"),
    ],
)
def test_a_deletion_without_one_clear_choice_of_rows_is_refused(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidSpecError, match=why) as refused:
        DeleteRowsSpec(**BASE, **arguments)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"assignments": {}, "where": "id = 1"}, "one or more columns"),
        ({"assignments": {"n": " "}, "where": "id = 1"}, r"assignments\['n'\] must not be empty"),
        ({"assignments": {"n": "1", "N": "2"}, "where": "id = 1"}, "assignments names a column twice"),
        ({"assignments": {"n": "1"}, "where": ""}, "where is empty"),
        ({"assignments": {"n": "1"}, "where": "id = 1", "max_attempts": 0}, "max_attempts"),
    ],
)
def test_an_update_without_columns_or_rows_is_refused(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidSpecError, match=why):
        UpdateRowsSpec(**BASE, **arguments)


def test_the_run_key_of_a_deletion_does_not_depend_on_its_rows_and_that_of_an_update_does() -> None:
    one, other = (DeleteRowsSpec(**BASE, where=where) for where in (SECRET, "id = 4712"))
    assert one.digest_text() == other.digest_text()
    assert "4711" not in one.digest_text()
    first, second = (UpdateRowsSpec(**BASE, assignments={"n": "1"}, where=where) for where in (SECRET, "id = 4712"))
    assert first.digest_text() != second.digest_text()


def test_a_path_tells_its_format_by_its_ending() -> None:
    assert [Files(path).format for path in ("in/*.csv", "in/a.jsonl.gz", "in/a.parquet")] == ["csv", "json", "parquet"]
    for path in ("in/", "in/a.txt"):
        with pytest.raises(InvalidSpecError, match=f"{path!r} does not tell a format; give Files"):
            Files(path)

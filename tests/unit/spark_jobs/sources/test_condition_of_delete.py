"""The condition of a delete takes in rows that have nothing but their key."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec
from airflow_lake_provider.spark_jobs.sources.plain_rows import condition_of_delete
from airflow_lake_provider.spark_jobs.sources.raw_batch import RawBatch

NONE: Any = None
BY_TYPE = (
    "CASE WHEN _change_type = 'delete' THEN true WHEN coalesce(_change_type IN ('upsert', 'insert'), true) THEN false "
    "ELSE raise_error(concat('lake_other_change_type<', _change_type, '>')) END"
)


@pytest.mark.parametrize(
    ("delete_when", "tells", "is_bare", "condition"),
    [
        (None, False, False, None),
        ("n = 1", False, False, "n = 1"),
        (None, True, False, BY_TYPE),
        ("n = 1", True, False, "n = 1"),
        (None, True, True, BY_TYPE),
        ("n = 1 OR n = 2", True, True, "_change_type = 'delete' OR (n = 1 OR n = 2)"),
    ],
)
def test_a_row_that_has_its_key_alone_deletes_whatever_the_author_says(
    delete_when: str | None, tells: bool, is_bare: bool, condition: str | None
) -> None:
    spec = UpsertSpec(table="a.b", source=Files("/in/*.json"), keys=("id",), delete_when=delete_when)
    batch = RawBatch(rows=NONE, has_change_type=tells, has_bare_deletes=is_bare)
    assert condition_of_delete(spec, batch) == condition

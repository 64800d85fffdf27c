from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.merge_engines import Deduplicate
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.specs.row_changes import UpdateRowsSpec
from airflow_lake_provider.contracts.specs.upsert import UpsertSpec

JOB: dict[str, Any] = {"catalog": "lake", "table": "a.b", "run": RunIdentity.of("dag", "run", "task", "-1")}
FILES = Files(path="/in/*.parquet", format="parquet", name="files")


def test_a_property_that_is_the_catalogs_own_is_refused() -> None:
    with pytest.raises(InvalidSpecError, match="'location'"):
        TableLayout(properties={"Location": "s3://elsewhere"})


@pytest.mark.parametrize(
    "spec",
    [
        lambda: UpsertSpec(**JOB, source=FILES, keys=("id", "_File")),
        lambda: UpsertSpec(**JOB, source=FILES, keys=("id",), merge_engine=Deduplicate(deleted_column="_deleted")),
        lambda: UpdateRowsSpec(**JOB, assignments={"_ROW_ID": "1"}, where="id = 1"),
        lambda: IncrementalSpec(
            **JOB, source="a.c", consumer="c", keys=("_change_type",), to_snapshot="1", query="SELECT 1"
        ),
    ],
)
def test_an_argument_that_names_a_column_of_icebergs_own_is_refused(spec: Callable[[], object]) -> None:
    with pytest.raises(InvalidSpecError, match="which Iceberg reserves"):
        spec()

"""Path objects of pathlib and of Airflow's object storage, wherever an author gives a path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_lake_provider import Debezium, Files, Query
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.maintenance_plan import LakeMaintenancePlanOperator
from airflow_lake_provider.operators.orphan_files import LakeRemoveOrphanFilesOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.unit.operators.test_literal_arguments import NATIVE, UPSERT, rendered, spec_of

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("lake_connection", "spark_connection")

LOCAL = Path("/in/a.csv")
STORED = ObjectStoragePath("s3://bucket/in/a.csv")
OPEN = ObjectStoragePath("s3://bucket/{{ params.day }}/a.csv")
PATHS = [
    (LOCAL, "/in/a.csv"),
    (STORED, "s3://bucket/in/a.csv"),
    (OPEN, "s3://bucket/2026-11-30/a.csv"),
    (Path("/in/{{ params.day }}.csv"), "/in/2026-11-30.csv"),
]


@NATIVE
@pytest.mark.parametrize(("path", "expected"), PATHS, ids=str)
def test_a_path_object_is_its_text(context: Context, path: Any, expected: str, native: bool) -> None:
    mapping = {"type": "files", "path": path}
    for given in (path, Files(path), mapping, Query("SELECT * FROM source", over=path)):
        spec = spec_of(LakeUpsertOperator, {**UPSERT, "source": given}, context, native=native)
        assert spec.source.files.path == expected
    events = Debezium(path, table="orders")
    spec = spec_of(LakeUpsertOperator, {**UPSERT, "source": events}, context, native=native)
    assert spec.source.path == expected
    spec = spec_of(LakeDeleteRowsOperator, {**UPSERT, "keys_from": path}, context, native=native)
    assert spec.keys_from == Files(expected)
    named = Query("SELECT * FROM a", over={"a": path})
    spec = spec_of(LakeUpsertOperator, {**UPSERT, "source": named}, context, native=native)
    assert spec.source.inputs["a"] == Files(expected)


def test_what_airflow_shows_of_a_path_object_is_its_text() -> None:
    assert Files(OPEN).serialize()["path"] == "s3://bucket/{{ params.day }}/a.csv"  # type: ignore[arg-type]  # as authors do
    assert Files(LOCAL).serialize()["path"] == "/in/a.csv"  # type: ignore[arg-type]  # as authors do


@pytest.mark.parametrize(
    ("path", "expected"), [(Path("/reports"), "/reports"), (ObjectStoragePath("s3://b/reports"), "s3://b/reports")]
)
def test_a_location_of_reports_may_be_a_path_object(path: Any, expected: str) -> None:
    task = LakeCompactionOperator(task_id="t", table="shop.orders", report_location=path)
    assert task.report_location == expected


@pytest.mark.parametrize("make", [Files, lambda path: Query("SELECT 1", over=path)])
def test_a_path_object_with_what_only_airflow_knows_is_refused(make: Any) -> None:
    with pytest.raises(InvalidSpecError, match=r"connection 'aws' of Airflow.*give it without"):
        make(ObjectStoragePath("s3://aws@bucket/in/a.csv"))
    with pytest.raises(InvalidSpecError, match=r"'s3:/bucket/in/a\.csv', which pathlib made of two.*give a text"):
        make(Path("s3://bucket/in/a.csv"))


def test_a_file_of_policies_and_an_inventory_may_be_path_objects(context: Context) -> None:
    plan = rendered(LakeMaintenancePlanOperator, {"policy_file": Path("policies/lake.yaml")}, context)
    assert plan.policy_file == "policies/lake.yaml"
    orphans = {"table": "shop.orders", "inventory": OPEN}
    assert rendered(LakeRemoveOrphanFilesOperator, orphans, context).inventory == "s3://bucket/2026-11-30/a.csv"

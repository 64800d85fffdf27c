"""Tables whose head's manifest list, or one of its manifests, is gone or cut off: what says so, and the way back."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import BrokenMetadataError
from airflow_lake_provider.contracts.reports.job import JobReport
from airflow_lake_provider.hooks.table_health import table_health
from airflow_lake_provider.operators.compaction import LakeCompactionOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.rewrite_manifests import LakeRewriteManifestsOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.snapshot_expiry import LakeSnapshotExpiryOperator
from airflow_lake_provider.operators.statistics import LakeStatisticsOperator
from tests.unit.operators.run_of_tests import NO_SPARK

if TYPE_CHECKING:
    from airflow.sdk import Context

pytestmark = pytest.mark.usefixtures("lake_connection", "job_directory")

HARM: dict[str, Callable[[Path], object]] = {
    "is gone": Path.unlink,
    r"cannot be read \(EOFError\)": lambda file: file.write_bytes(b""),
}


@pytest.fixture
def twice(orders: Table, append: Callable[..., int]) -> Table:
    append(orders, 1)
    append(orders, 2)
    return orders


def harm(location: str, how: str) -> None:
    HARM[how](Path(location.removeprefix("file://")))


def list_of_head(table: Table) -> str:
    head = table.current_snapshot()
    assert head is not None
    return head.manifest_list


def answer(operator: type[LakeJobOperator[Any]], context: Context, **given: Any) -> JobReport:
    """Return the report of the worker alone."""
    (task,) = operator(task_id="t", table="shop.orders", **NO_SPARK, **given).table_tasks(context)
    task.answer_without_spark()
    if task.error is not None:
        raise task.error
    assert task.report is not None, "Spark would start"
    return task.report


@pytest.mark.parametrize("how", HARM)
@pytest.mark.parametrize(
    "operator",
    [LakeCompactionOperator, LakeSnapshotExpiryOperator, LakeRewriteManifestsOperator, LakeStatisticsOperator],
)
def test_a_plan_names_the_manifest_list_that_is_broken_and_the_way_back(
    operator: type[LakeJobOperator[Any]], how: str, twice: Table, context: Context
) -> None:
    harm(list_of_head(twice), how)
    with pytest.raises(BrokenMetadataError, match=rf"^shop\.orders: manifest list \S+ of snapshot \d+ {how}") as caught:
        answer(operator, context, dry_run=True)
    assert "move main back by LakeRollbackOperator" in str(caught.value)


@pytest.mark.parametrize("how", HARM)
@pytest.mark.parametrize("where", [None, "id > 0"])
def test_a_plan_names_the_manifest_that_is_broken(how: str, where: str | None, twice: Table, context: Context) -> None:
    head = twice.current_snapshot()
    assert head is not None
    harm(head.manifests(twice.io)[0].manifest_path, how)
    with pytest.raises(BrokenMetadataError, match=rf"^shop\.orders: manifest \S+ {how}"):
        answer(LakeCompactionOperator, context, dry_run=True, min_input_files=2, where=where)


@pytest.mark.parametrize("how", HARM)
def test_health_of_many_files_has_the_same_error(how: str, twice: Table, append: Callable[..., int]) -> None:
    for number in range(8):
        append(twice, number)
    harm(list_of_head(twice), how)
    (health,) = table_health("shop.orders")
    assert health.error is not None
    assert "manifest list" in health.error
    assert "LakeRollbackOperator" in health.error


@pytest.mark.parametrize("how", HARM)
def test_main_goes_back_from_a_head_whose_manifest_list_is_broken(how: str, twice: Table, context: Context) -> None:
    first = twice.snapshots()[0].snapshot_id
    harm(list_of_head(twice), how)
    report = answer(LakeRollbackOperator, context, snapshot_id=first)
    assert report.before is None
    assert report.after is not None
    assert (report.after.snapshot, report.after.rows) == (str(first), 1)
    (warning,) = [each for each in report.warnings if "manifest list" in each]
    assert warning.startswith("the counts of main's head are not known: shop.orders: manifest list")
    twice.refresh()
    assert twice.scan().to_arrow()["id"].to_pylist() == [1]


def turn_into_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("change", "why"),
    [(Path.unlink, r"manifest list \S+ of snapshot \d+ is gone"), (turn_into_a_folder, "IsADirectoryError")],
    ids=["gone", "a store that fails"],
)
def test_a_commit_that_was_made_fails_no_task_where_the_table_cannot_be_looked_at(
    change: Callable[[Path], object], why: str, twice: Table, context: Context
) -> None:
    first = twice.snapshots()[0]
    change(Path(first.manifest_list.removeprefix("file://")))
    report = answer(LakeRollbackOperator, context, snapshot_id=first.snapshot_id)
    assert (report.outcome.value, report.after) == ("done", None)
    assert re.search(f"the commit was made, and looking failed: .*{why}", report.warnings[-1])
    head = twice.refresh().current_snapshot()
    assert head is not None
    assert head.snapshot_id == first.snapshot_id

"""A REST catalog writes metadata itself: rollback, tags, publication and upgrade need no Spark, of any version."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.contracts.specs.metadata_changes import MetadataChange, RefMove
from airflow_lake_provider.hooks.lake_catalog import LakeCatalogHook
from airflow_lake_provider.operators.publish_branch import LakePublishBranchOperator
from airflow_lake_provider.operators.rollback import LakeRollbackOperator
from airflow_lake_provider.operators.table_upgrade import LakeTableUpgradeOperator
from airflow_lake_provider.operators.tags import LakeCreateTagOperator, LakeDropTagOperator
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.topologies.rest_catalog import rest_catalog
from tests.unit.operators.conftest import context

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["context"]
pytestmark = [pytest.mark.live, pytest.mark.slow]
# A Spark connection that is nowhere: whatever starts Spark fails.
ORDERS: dict[str, Any] = {"task_id": "t", "table": "shop.orders", "spark_conn_id": "nowhere"}


@pytest.fixture
def rest(
    tmp_path: Path, unused_tcp_port_factory: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Catalog]:
    """The REST catalog of ``lake_default``."""
    behind = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/behind.db", "jdbc.schema-version": "V1"}
    warehouse = f"file://{tmp_path}/warehouse"
    asked = {**behind, "token": "some-token", "warehouse": warehouse}
    with rest_catalog(unused_tcp_port_factory(), tmp_path / "requests.log", asked) as uri:
        extra = {"type": "rest", "warehouse": warehouse, "token": "some-token"}
        connection = {"conn_type": "iceberg", "host": uri, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(connection))
        yield LakeCatalogHook("lake_default").catalog


@pytest.fixture
def orders(rest: Catalog) -> Table:
    """A table of format version 2 with two snapshots, and a third on the branch ``load``."""
    rest.create_namespace("shop")
    table = rest.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    for number in (1, 2):
        table.append(pa.table({"id": [number]}))
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id or 0, "load").commit()
    table.append(pa.table({"id": [3]}), branch="load")
    return table.refresh()


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_a_table_is_upgraded_and_moved_back_and_forth_without_spark(orders: Table, context: Context) -> None:
    first, second, third = (str(found.snapshot_id) for found in orders.metadata.snapshots)

    def done(job: Any) -> str:
        report = job.execute(context)
        assert report["without_spark"] is (report["outcome"] == "done")
        return str(report["outcome"])

    assert done(LakeTableUpgradeOperator(**ORDERS)) == "done"
    assert (orders.refresh().format_version, ids(orders)) == (3, [1, 2])
    assert done(LakeTableUpgradeOperator(**ORDERS)) == "nothing-due"
    assert done(LakeCreateTagOperator(tag="before", snapshot_id=first, max_age="P1D", **ORDERS)) == "done"
    assert done(LakePublishBranchOperator(branch="load", drop_branch=True, **ORDERS)) == "done"
    assert ids(orders) == [1, 2, 3]
    assert done(LakeRollbackOperator(tag="before", expected_snapshot_id=third, **ORDERS)) == "done"
    assert ids(orders) == [1]
    assert done(LakeRollbackOperator(tag="before", expected_snapshot_id=third, **ORDERS)) == "already-applied"
    assert done(LakeDropTagOperator(tag="before", **ORDERS)) == "done"
    assert sorted(orders.refresh().metadata.refs) == ["main"]
    assert {str(found.snapshot_id) for found in orders.metadata.snapshots} == {first, second, third}


def test_a_commit_in_between_is_a_conflict(orders: Table) -> None:
    first, second, _ = (str(found.snapshot_id) for found in orders.metadata.snapshots)
    stale = orders.catalog.load_table("shop.orders")
    orders.append(pa.table({"id": [4]}))
    change = MetadataChange(
        table_uuid=str(orders.metadata.table_uuid),
        expected_refs={"main": second},
        moved_refs=(RefMove(name="main", kind="branch", snapshot=first),),
    )
    with pytest.raises(CommitConflictError, match="Nothing changed"):
        LakeCatalogHook("lake_default").commit_metadata(LoadedIcebergTable(stale), change)
    assert ids(orders) == [1, 2, 4]

"""``check_table`` says of real tables what the operators then do, or refuse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType

from airflow_lake_provider.contracts.capabilities import Verdict
from airflow_lake_provider.contracts.errors import InvalidConnectionError, UnsupportedError
from airflow_lake_provider.iceberg.table_check import NO_KEYS, check_table
from airflow_lake_provider.operators.delete_rows import LakeDeleteRowsOperator
from airflow_lake_provider.operators.lake_job import LakeJobOperator
from airflow_lake_provider.operators.upsert import LakeUpsertOperator
from tests.table_facts import facts
from tests.unit.operators.conftest import context
from tests.unit.operators.run_of_tests import NO_SPARK
from tests.unit.table_maker import COLUMNS, Make, as_version_3, make

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["context", "make"]
UPSERT, DELETE, INCREMENTAL = "LakeUpsertOperator", "LakeDeleteRowsOperator", "LakeIncrementalOperator"


def answers(table: Table, *keys: str) -> dict[tuple[str, str], Verdict]:
    return {(found.operator, found.use): found for found in check_table(facts(table), keys)}


def said(table: Table, operator: str, use: str, *keys: str) -> tuple[bool, str]:
    found = answers(table, *keys)[operator, use]
    return found.possible, found.reason


STRATEGIES = ("positions", "copy-on-write", "merge", "equality")
# As Iceberg reads them, whatever their case.
MERGE_ON_READ = dict.fromkeys(("write_delete_mode", "write_update_mode", "write_merge_mode"), "Merge-On-Read")
TABLES: list[tuple[int, dict[str, str], list[str], list[str]]] = [
    (1, {}, ["id"], ["copy-on-write", "merge"]),
    (1, MERGE_ON_READ, ["id"], ["copy-on-write"]),
    (2, {}, ["id"], ["positions", "copy-on-write", "merge", "equality"]),
    (2, MERGE_ON_READ, ["id"], ["positions", "copy-on-write", "merge", "equality"]),
    (3, {}, ["ID"], ["positions", "copy-on-write", "merge", "equality"]),
    (2, {"write_merge_mode": "copy-on-write"}, ["id"], ["copy-on-write", "merge"]),
    (2, {"encryption_key-id": "k"}, ["id"], ["merge"]),
    (2, {}, ["score"], ["positions", "copy-on-write", "merge"]),
]


@pytest.mark.parametrize(("version", "properties", "keys", "possible"), TABLES)
def test_each_strategy_is_told_as_an_upsert_takes_it(
    make: Make,
    context: Context,
    version: int,
    properties: dict[str, str],
    keys: list[str],
    possible: list[str],
) -> None:
    table = make("shop.target", version, **properties)
    found = answers(table, *keys)
    assert [name for name in STRATEGIES if found[UPSERT, f"strategy='{name}'"].possible] == possible
    arguments: dict[str, Any] = {"table": "shop.target", "source": "in/*.parquet", "keys": keys, **NO_SPARK}
    taken = [
        name for name in STRATEGIES if is_taken(LakeUpsertOperator(task_id=name, strategy=name, **arguments), context)
    ]
    assert taken == possible


def is_taken(job: LakeJobOperator[Any], context: Context) -> bool:
    """Tell whether a job gets as far as starting Spark, whose connection is nowhere."""
    try:
        job.execute(context)
    except UnsupportedError:
        return False
    except InvalidConnectionError:
        return True
    raise AssertionError("neither refused nor started")


@pytest.mark.parametrize(
    ("version", "properties"), [(1, {}), (1, MERGE_ON_READ), (2, {}), (3, {}), (2, {"encryption_key-id": "k"})]
)
def test_row_changes_are_told_as_a_deletion_takes_them(
    make: Make, context: Context, version: int, properties: dict[str, str]
) -> None:
    possible, reason = said(make("shop.target", version, **properties), DELETE, "where, keys_from")
    job = LakeDeleteRowsOperator(task_id="t", table="shop.target", where="id = 1", **NO_SPARK)
    assert possible is is_taken(job, context) is (not reason)


def test_what_auto_takes_is_told(make: Make) -> None:
    auto = "strategy='auto'"
    assert said(make("shop.a", 1), UPSERT, auto) == (True, "takes copy-on-write: format version 1 has no deletes")
    table = make("shop.b", 2)
    assert said(table, UPSERT, auto)[1].startswith("takes positions")
    with table.update_schema() as changed:
        changed.add_column("more", StringType())
    # Files are read by field id, so that a changed schema rules nothing out.
    assert said(table.refresh(), UPSERT, auto)[1].startswith("takes positions")
    assert said(table, UPSERT, "strategy='positions'")[0]


def test_a_table_without_deletes_that_asks_for_them_is_refused_with_what_to_do(make: Make, context: Context) -> None:
    table = make("shop.target", 1, **MERGE_ON_READ)
    reason = (
        "the table's write.merge.mode is Merge-On-Read, and format version 1 has no deletes; set it to copy-on-write, "
        "or upgrade the table with LakeTableUpgradeOperator"
    )
    assert said(table, UPSERT, "strategy='merge'") == (False, reason)
    assert said(table, UPSERT, "strategy='auto'") == (True, "takes copy-on-write: format version 1 has no deletes")
    upsert = LakeUpsertOperator(
        task_id="t", table="shop.target", source="a.parquet", keys=["id"], strategy="merge", **NO_SPARK
    )
    with pytest.raises(UnsupportedError, match=f"shop.target: strategy='merge' is not possible, {reason}; use 'auto'"):
        upsert.execute(context)


def test_auto_is_told_as_impossible_where_no_strategy_is_left(make: Make) -> None:
    table = make("shop.target", 1, **MERGE_ON_READ, **{"encryption_key-id": "k"})
    possible, reason = said(table, UPSERT, "strategy='auto'")
    assert not possible
    assert "an encrypted table's files" in reason
    assert "set it to copy-on-write" in reason


def test_keys_are_the_identifier_fields_or_have_to_be_named(lake_catalog: SqlCatalog, make: Make) -> None:
    assert said(make("shop.a"), UPSERT, "strategy='positions'") == (True, "by id")
    table = lake_catalog.create_table("shop.b", Schema(*COLUMNS.fields))
    assert said(table, UPSERT, "strategy='auto'") == (False, NO_KEYS)
    assert said(table, UPSERT, "strategy='auto'", "id")[0]
    assert "keys ['code'] are no top-level columns" in said(table, UPSERT, "strategy='merge'", "code")[1]


def test_equality_deletes_need_partitions_of_the_keys(lake_catalog: SqlCatalog, context: Context) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "day", DateType()), identifier_field_ids=[1]
    )
    fit = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))
    unfit = PartitionSpec(PartitionField(2, 1000, DayTransform(), "day_day"))
    assert said(lake_catalog.create_table("shop.fit", schema, partition_spec=fit), UPSERT, "strategy='equality'")[0]
    table = lake_catalog.create_table("shop.unfit", schema, partition_spec=unfit)
    possible, reason = said(table, UPSERT, "strategy='equality'")
    assert not possible
    assert "partitioned by day_day (day)" in reason
    job = LakeUpsertOperator(
        task_id="t", table="shop.unfit", source="in/*.parquet", keys=["id"], strategy="equality", **NO_SPARK
    )
    with pytest.raises(UnsupportedError, match=r"partitioned by day_day \(day\)"):
        job.execute(context)


def test_changes_need_version_3_and_row_ids(lake_catalog: SqlCatalog, make: Make) -> None:
    possible, reason = said(make("shop.a", 2), INCREMENTAL, "source")
    assert not possible
    assert "LakeTableUpgradeOperator" in reason
    assert said(make("shop.b", 3), INCREMENTAL, "source") == (True, "by id")
    upgraded = without_row_ids(lake_catalog, make("shop.c", 2))
    assert "rows get row ids with the next commit" in said(upgraded, INCREMENTAL, "source")[1]


def without_row_ids(catalog: SqlCatalog, table: Table) -> Table:
    """Return a table as an upgrade leaves it: its snapshots have no row ids."""
    upgraded = as_version_3(catalog, table)
    path = Path(upgraded.metadata_location.removeprefix("file://"))
    path.write_text(
        path.read_text()
        .replace('"first-row-id": 0, "added-rows": 1, ', "")
        .replace(', "first-row-id": 0, "added-rows": 1', "")
    )
    return catalog.load_table(upgraded.name())


def test_branches_rollback_expiry_and_upgrade_are_told(lake_catalog: SqlCatalog) -> None:
    import pyarrow as pa

    table = lake_catalog.create_table("shop.t", pa.schema([("id", pa.int64())]), properties={"gc.enabled": "false"})
    assert said(table, "LakeRollbackOperator", "snapshot_id, timestamp, tag")[0] is False
    rows = pa.table({"id": [1]})
    table.append(rows)
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id or 0, "load").commit()
    table.append(rows, branch="load")
    publish = ("LakePublishBranchOperator", "branch='load'")
    assert said(table.refresh(), *publish) == (True, "main gains 1 snapshots")
    table.append(rows)
    assert said(table.refresh(), *publish)[0] is False
    assert said(table, "LakeRollbackOperator", "snapshot_id, timestamp, tag")[0] is True
    assert said(table, "LakeSnapshotExpiryOperator", "older_than")[0] is False
    assert said(table, "LakeTableUpgradeOperator", "format_version=3")[0] is True


def test_a_table_whose_properties_choose_code_is_no_table_for_any_operator(make: Make) -> None:
    table = make("shop.orders", 2, **{"fs_file.impl": "x", "write_location-provider.impl": "x"})
    found = check_table(facts(table), ["id"])
    assert {each.operator for each in found if each.possible} == set()
    assert all("fs.file.impl, write.location-provider.impl" in each.reason for each in found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lake.position.inbox", "x"),
        ("lake.position.inbox", "{}"),
        ("lake.position.inbox", '{"generation":-1}'),
        ("lake.position.inbox", '{"generation":"²"}'),
        ("lake.position.inbox", '{"generation":' + "9" * 5000 + "}"),
        ("lake.position.inbox", '{"generation":1,"forgotten_until":99999999999999}'),
        ("lake.position.inbox", '{"generation":1,"side_file":["/etc/hostname",1,2]}'),
        ("lake.events.inbox", "x"),
        ("lake.key-changes.inbox", "7=1-2-3"),
        ("lake.source-epoch.inbox", "99999999999"),
    ],
)
def test_a_position_that_no_upsert_can_read_is_told_before_one_starts(make: Make, name: str, value: str) -> None:
    table = make("shop.a", 2)
    with table.transaction() as change:
        change.set_properties({"lake.position.inbox": '{"generation":1}', name: value})
    possible, reason = said(table, UPSERT, "strategy='auto'")
    assert not possible
    assert name in reason


def test_a_setting_that_iceberg_cannot_use_is_named_beforehand(make: Make) -> None:
    table = make("shop.unusable", **{"read_split_open-file-cost": "4M", "write_delete_mode": "merge"})
    for found in check_table(facts(table), ["id"]):
        assert not found.possible
        assert "property 'read.split.open-file-cost' is '4M', expected a whole number" in found.reason
        assert "property 'write.delete.mode' is 'merge', expected one of copy-on-write, merge-on-read" in found.reason

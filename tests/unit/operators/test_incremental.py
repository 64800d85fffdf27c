"""Incremental runs choose their range from the metadata of real tables, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from airflow_lake_provider.contracts.applied.positions import SnapshotPosition
from airflow_lake_provider.contracts.applied.source_position import SourcePosition, positions_in_summary
from airflow_lake_provider.contracts.errors import InvalidSpecError, MissingTableError
from airflow_lake_provider.contracts.specs.incremental import IncrementalSpec
from airflow_lake_provider.contracts.table_properties import SOURCE_POSITION
from airflow_lake_provider.operators.incremental import LakeIncrementalOperator
from airflow_lake_provider.planning.nothing_new import position_id
from tests.table_facts import facts
from tests.unit.operators.run_of_tests import NO_SPARK, RUN
from tests.unit.operators.submitted import report_without_spark
from tests.unit.table_maker import as_version_3

if TYPE_CHECKING:
    from airflow.sdk import Context


def incremental(**arguments: Any) -> LakeIncrementalOperator:
    given = {"source": "shop.orders", "target": "shop.revenue", "consumer": "revenue", "keys": ["id"]}
    return LakeIncrementalOperator(task_id="t", **{"query": "SELECT * FROM changes", **given, **NO_SPARK, **arguments})


def consumed(catalog: SqlCatalog, source: Table, snapshot: int) -> Table:
    """Make the target with the position that a run leaves."""
    name, position = position_id(facts(source), "revenue"), SourcePosition().moved(SnapshotPosition(str(snapshot)))
    target = catalog.create_table("shop.revenue", schema=pa.schema([("id", pa.int64())]))
    with target.transaction() as run:
        run.append(pa.table({"id": [1]}), snapshot_properties={SOURCE_POSITION: positions_in_summary({name: position})})
        run.set_properties(position.to_properties(name))
    return target


def test_an_incremental_run_reads_up_to_the_head_it_saw(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    append(orders, 1)
    head = append(orders, 2)
    job = incremental(from_snapshot="", full_refresh="False")
    spec = job.build_spec(context)
    assert spec == IncrementalSpec(
        catalog="lake_default",
        table="shop.revenue",
        run=RUN,
        source="shop.orders",
        consumer="revenue",
        keys=("id",),
        to_snapshot=str(head),
        query="SELECT * FROM changes",
    )
    assert report_without_spark(job, spec) is None


def test_at_the_head_of_the_source_there_is_nothing_to_start_spark_for(
    lake_catalog: SqlCatalog, orders: Table, append: Callable[..., int], context: Context
) -> None:
    head = append(orders, 1)
    consumed(lake_catalog, orders, head)
    plain = incremental().execute(context)
    assert (plain["outcome"], plain["to_snapshot"]) == ("nothing-new", str(head))
    assert "head of the source" in plain["reason"]


@pytest.mark.parametrize(
    ("asked", "is_new"), [({"full_refresh": "True"}, True), ({"from_snapshot": "17"}, True), ({}, False)]
)
def test_who_clears_a_run_that_ignores_the_position_is_somebody_new_and_a_retry_is_not(
    orders: Table, append: Callable[..., int], context: Context, asked: dict[str, str], is_new: bool
) -> None:
    append(orders, 1)
    job = incremental(**asked, retries=1)

    def who(try_number: int, max_tries: int) -> str:
        context["ti"].try_number, context["ti"].max_tries = try_number, max_tries
        return job.build_spec(context).run.who

    assert who(1, 1) == who(2, 1)
    assert (who(3, 3) != who(1, 1)) is is_new


@pytest.mark.parametrize(
    ("tag", "protects", "starts_spark"),
    [
        ("lake.consumer.revenue.reading", True, True),
        ("lake.consumer.revenue.reading", False, False),
        ("lake.consumer.other.reading", True, False),
        ("lake.consumer.revenue", True, False),
    ],
)
def test_a_run_that_was_cut_off_before_it_moved_its_tag_is_finished(
    lake_catalog: SqlCatalog,
    orders: Table,
    append: Callable[..., int],
    context: Context,
    tag: str,
    protects: bool,
    starts_spark: bool,
) -> None:
    head = append(orders, 1)
    consumed(lake_catalog, orders, head)
    orders.manage_snapshots().create_tag(head, tag).commit()
    job = incremental(protect_source=protects)
    assert (report_without_spark(job, job.build_spec(context)) is None) is starts_spark


def test_a_compaction_of_the_source_is_nothing_new(
    lake_catalog: SqlCatalog,
    orders: Table,
    append: Callable[..., int],
    compact: Callable[[Table], int],
    context: Context,
) -> None:
    consumed(lake_catalog, orders, append(orders, 1))
    compact(orders)
    assert incremental().execute(context)["outcome"] == "nothing-new"


@pytest.mark.parametrize(("on_change", "starts_spark"), [("fail", True), ("full", True), ("continue", False)])
def test_an_unchanged_source_does_not_hide_that_the_transform_was_changed(
    lake_catalog: SqlCatalog,
    orders: Table,
    append: Callable[..., int],
    context: Context,
    on_change: str,
    starts_spark: bool,
) -> None:
    target = consumed(lake_catalog, orders, append(orders, 1))
    job = incremental(on_transform_change=on_change)
    spec = job.build_spec(context)
    with target.transaction() as changed:
        changed.set_properties({"lake.transform.revenue": spec.transform_digest})
    assert report_without_spark(job, spec) is not None
    with target.transaction() as changed:
        changed.set_properties({"lake.transform.revenue": "0" * 32})
    assert (report_without_spark(job, spec) is None) is starts_spark


@pytest.mark.parametrize("asked", [{"full_refresh": True}, {"from_snapshot": "1"}])
def test_what_an_author_asks_for_again_is_read_again(
    lake_catalog: SqlCatalog, orders: Table, append: Callable[..., int], context: Context, asked: dict[str, Any]
) -> None:
    consumed(lake_catalog, orders, append(orders, 1))
    job = incremental(**asked)
    assert report_without_spark(job, job.build_spec(context)) is None


def test_a_source_without_a_snapshot_is_missing_and_worth_a_retry(orders: Table, context: Context) -> None:
    with pytest.raises(MissingTableError, match=r"shop\.orders: the source has no snapshot") as failed:
        incremental().execute(context)
    assert not isinstance(failed.value, AirflowFailException)


def test_a_second_target_of_one_consumer_is_refused_while_the_first_is_there(
    lake_catalog: SqlCatalog, orders: Table, append: Callable[..., int], context: Context
) -> None:
    consumed(lake_catalog, orders, append(orders, 1))

    def tagged_for(target: str) -> None:
        table = lake_catalog.load_table("shop.orders")
        path = Path(table.metadata_location.removeprefix("file://"))
        tagged = {"properties": {"lake.consumer.revenue.target": target}}
        # PyIceberg does not write this version.
        path.write_text(json.dumps({**json.loads(path.read_text()), **tagged}))

    def refuse(**arguments: Any) -> None:
        job = incremental(source_keys=["id"], **arguments)
        job.action(job.tables).refuse_from_metadata(job.build_spec(context))

    as_version_3(lake_catalog, orders)
    tagged_for("shop.revenue")
    with pytest.raises(InvalidSpecError, match=r"consumer 'revenue' of shop\.orders fills shop\.revenue already"):
        refuse(target="shop.other")
    for arguments in ({}, {"consumer": "second"}, {"protect_source": False}):
        refuse(**{"target": "shop.other" if arguments else "shop.revenue", **arguments})
    for strange in ("", "shop", "a;b", "shop.orders"):
        tagged_for(strange)
        refuse(target="shop.other")
    tagged_for("shop.revenue")
    # One table under another name is the same target, and a name without a table is none.
    lake_catalog.rename_table("shop.revenue", "shop.renamed")
    refuse(target="shop.renamed")
    refuse(target="shop.other")


def test_the_module_of_a_transform_is_shipped_where_the_worker_has_it(
    orders: Table, append: Callable[..., int], context: Context
) -> None:
    append(orders, 1)
    shipped = incremental(query=None, transform="airflow_lake_provider.contracts.errors:f").build_spec(context)
    assert "class LakeProviderError" in str(shipped.transform_code)
    for elsewhere in ("marts.revenue:rows", "nowhere:rows"):
        assert incremental(query=None, transform=elsewhere).build_spec(context).transform_code is None

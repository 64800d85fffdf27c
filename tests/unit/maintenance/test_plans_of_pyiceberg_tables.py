"""Plans of tables that PyIceberg has written, and predicates that leave a partition out, compared with its own scan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    UnknownTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, LongType, NestedField, StringType, StructType, TimestampType, TimestamptzType

from airflow_lake_provider.contracts.author.maintenance_policy import MaintenancePolicy
from airflow_lake_provider.contracts.specs.spec_codec import written_task
from airflow_lake_provider.maintenance.health import TableHealth, health_of
from airflow_lake_provider.maintenance.plan import TablePlan
from airflow_lake_provider.maintenance.planner import plan_of
from airflow_lake_provider.maintenance.policy import limits_of
from airflow_lake_provider.tables.iceberg.file_groups import FileRecord
from airflow_lake_provider.tables.iceberg.head_files import count_head
from airflow_lake_provider.tables.iceberg.live_files import LiveFiles
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "region", StringType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "local", TimestampType()),
    NestedField(5, "day", DateType()),
)
TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("region", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
    ]
)
MOMENTS = [datetime(2024, 2, 29, 23, 30), datetime(2025, 12, 31, 1), datetime(2026, 11, 26, 10)]  # noqa: DTZ001
# Named a field each; the last is one that no predicate is written for.
SPECS: dict[str, list[tuple[int, Transform[Any, Any], str]]] = {
    "text": [(2, IdentityTransform(), "region")],
    "number": [(1, IdentityTransform(), "id")],
    "date": [(5, IdentityTransform(), "day")],
    "day of a date": [(5, DayTransform(), "day_day")],
    "month of a date": [(5, MonthTransform(), "day_month")],
    "year": [(3, YearTransform(), "at_year")],
    "month": [(3, MonthTransform(), "at_month")],
    "day": [(3, DayTransform(), "at_day")],
    "hour": [(3, HourTransform(), "at_hour")],
    "hour without a zone": [(4, HourTransform(), "local_hour")],
    "text and day": [(2, IdentityTransform(), "region"), (4, DayTransform(), "local_day")],
}
SORTED_BY_ID, SORTED_BY_REGION = (
    SortOrder(SortField(column, IdentityTransform(), SortDirection.ASC)) for column in (1, 2)
)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    yield catalog
    catalog.close()


def rows(*regions: str | None) -> pa.Table:
    """Return a row of each region at each moment."""
    made = [
        {"id": number, "region": region, "at": moment.replace(tzinfo=UTC), "local": moment, "day": moment.date()}
        for region in regions
        for number, moment in enumerate(MOMENTS)
    ]
    return pa.Table.from_pylist(made, schema=TYPES)


def partitioned(catalog: SqlCatalog, fields: list[tuple[int, Transform[Any, Any], str]], **properties: str) -> Table:
    spec = PartitionSpec(
        *(
            PartitionField(source, 1000 + place, transform, name)
            for place, (source, transform, name) in enumerate(fields)
        )
    )
    return catalog.create_table("shop.orders", SCHEMA, partition_spec=spec, properties=properties)


def partition_of(path: str, table: Table) -> str:
    folder = path.removeprefix(f"{table.location()}/data/")
    return folder.rpartition("/")[0]


def internal(moment: datetime, region: str, number: int) -> list[Any]:
    """Return a row of the schema as Iceberg keeps it: micros and days since 1970."""
    micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001  # no zone has any part in it
    return [number, region, micros, micros, (moment.date() - date(1970, 1, 1)).days]


@pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS.keys())
def test_a_predicate_leaves_out_one_partition_and_no_other(
    fields: list[tuple[int, Transform[Any, Any], str]], catalog: SqlCatalog
) -> None:
    table = partitioned(catalog, fields)
    spec, loaded = table.spec(), LoadedIcebergTable(table)
    edges = [moment + step for moment in MOMENTS for step in (timedelta(0), timedelta(hours=1), timedelta(days=31))]
    records = [internal(moment, region, n) for n, moment in enumerate(edges) for region in ("eu", "us-1")]
    partitions = {}
    for row in records:
        values = [change.transform(SCHEMA.find_type(source))(row[source - 1]) for source, change, _ in fields]
        partitions[spec.partition_to_path(Record(*values), SCHEMA)] = Record(*values)
    assert len(partitions) > 1
    kinds = Schema(*spec.partition_type(SCHEMA).fields)
    for left_out in partitions:
        where = loaded.rows_outside(left_out)
        assert where is not None
        task = {"action": "compaction", "table": "shop.orders", "where": where}
        assert written_task(task, "task").to_mapping() == task
        # As a scan of PyIceberg prunes partitions by it.
        projected = inclusive_projection(SCHEMA, spec)(parse(where))
        may_match = expression_evaluator(kinds, projected, case_sensitive=True)
        assert [name for name, values in partitions.items() if not may_match(values)] == [left_out]


def test_rows_without_a_value_stay_outside(catalog: SqlCatalog) -> None:
    table = partitioned(catalog, SPECS["text"])
    table.append(rows("eu", None))
    loaded = LoadedIcebergTable(table)
    where = loaded.rows_outside("region=eu")
    assert [partition_of(file.path, table) for file in loaded.live_files(where).data] == ["region=null"]


# By the kind of the table's partitions: other digits, days that are none, and what would need quoting.
NOT_WRITTEN = {
    "text": ["region=null", "region=it's", "region=a%2Fb", "region=", "region", "other=eu", ""],
    "number": ["id=\u0661\u0662"],
    "date": ["day=\u0662\u0660\u0662\u0666-11-26", "day=9999-99-99", "day=2026-02-30", "day=0000-01-01"],
    "day": [
        "at_day=\u0662\u0660\u0662\u0666-11-26",
        "at_day=2026-11-2\u0666",
        "at_day=2026-1-2",
        "at_day=soon",
        "at_day=2026-11",
        "at_day=9999-12-31",
        "at_day=20261126",
    ],
}


@pytest.mark.parametrize(
    ("kind", "partition"), [(kind, each) for kind, texts in NOT_WRITTEN.items() for each in texts], ids=ascii
)
def test_no_predicate_is_written_for_what_would_need_quoting_or_is_no_value(
    kind: str, partition: str, catalog: SqlCatalog
) -> None:
    assert LoadedIcebergTable(partitioned(catalog, SPECS[kind])).rows_outside(partition) is None


@pytest.mark.parametrize("name", ["null", "TRUE", "false", "not", "and", "between", "select", "current_date", "nan"])
def test_no_predicate_is_written_for_a_column_whose_name_is_a_word_of_sql(name: str, catalog: SqlCatalog) -> None:
    table = catalog.create_table("shop.words", Schema(NestedField(1, name, LongType())))
    with table.update_spec() as update:
        update.add_field(name, IdentityTransform(), "part")
    assert LoadedIcebergTable(table.refresh()).rows_outside("part=1") is None


@pytest.mark.parametrize("is_struct", [True, False], ids=["a field of a struct", "a dot in a name"])
def test_a_predicate_is_written_for_a_nested_column_and_not_for_a_dot_in_a_name(
    is_struct: bool, catalog: SqlCatalog
) -> None:
    inner = NestedField(2, "b", LongType())
    schema = Schema(NestedField(1, "a", StructType(inner)) if is_struct else NestedField(2, "a.b", LongType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    where = LoadedIcebergTable(catalog.create_table("shop.dots", schema, partition_spec=spec)).rows_outside("part=1")
    assert where == ("(a.b <> 1 OR a.b IS NULL)" if is_struct else None)


def test_no_predicate_is_written_for_a_bucket(catalog: SqlCatalog) -> None:
    table = partitioned(catalog, [(1, BucketTransform(4), "id_bucket")])
    assert LoadedIcebergTable(table).rows_outside("id_bucket=3") is None


def health(table: Table, policy: MaintenancePolicy, now: datetime) -> TableHealth:
    return health_of(LoadedIcebergTable(table), now, limits_of(policy))


def plan(table: Table, now: datetime | None = None, **settings: Any) -> TablePlan:
    policy, moment = MaintenancePolicy.from_mapping(settings, "policy"), now or datetime.now(UTC)
    return plan_of(health(table, policy, moment), policy, moment)


def test_a_partition_that_is_written_to_is_left_alone_and_the_others_are_merged(catalog: SqlCatalog) -> None:
    table = partitioned(catalog, SPECS["text"])
    for _ in range(8):
        table.append(rows("north"))
    day_later = datetime.now(UTC) + timedelta(hours=2)
    # Only this append is within the hour, by the moment of the plan.
    for _ in range(2):
        table.append(rows("south"))
    at = max(snapshot.timestamp_ms for snapshot in table.snapshots()) / 1000
    (whole,) = plan(table, day_later).tasks
    assert "where" not in whole
    (action,) = plan(table, datetime.fromtimestamp(at, UTC), compaction={"hot_within": "PT0.001S"}).actions
    assert action.notes[0] == "Hot partitions are left alone: region=south."
    assert action.task["where"] == "(region <> 'south' OR region IS NULL)"
    assert action.effect.files_removed == 7


def test_a_dry_run_of_the_planned_task_finds_the_files_that_the_plan_has_counted(catalog: SqlCatalog) -> None:
    table = partitioned(catalog, SPECS["text"])
    for _ in range(8):
        table.append(rows("north", "south"))
    (action,) = plan(table, datetime.now(UTC) + timedelta(hours=2)).actions
    report = LoadedIcebergTable(table).plan_compaction(written_task(action.task, "task"))  # type: ignore[arg-type]  # it is one
    assert report.level == action.level
    assert report.bytes_rewritten == action.effect.bytes_rewritten
    assert (report.files_rewritten or 0) - (report.groups_rewritten or 0) == action.effect.files_removed == 14


def test_pairs_of_files_in_many_partitions_are_due_where_the_policy_merges_pairs(catalog: SqlCatalog) -> None:
    table = partitioned(catalog, SPECS["number"])
    for _ in range(2):
        table.append(
            pa.concat_tables([rows("a").slice(0, 1).set_column(0, "id", pa.array([n])) for n in range(12)]).cast(TYPES)
        )
    later = datetime.now(UTC) + timedelta(hours=2)
    assert plan(table, later).actions == ()
    (task,) = plan(table, later, compaction={"min_input_files": 2}).tasks
    assert task["min_input_files"] == 2


def test_snapshots_count_by_the_age_that_the_policy_names(catalog: SqlCatalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA)
    for _ in range(25):
        table.append(rows("a"))
    two_days_later = datetime.now(UTC) + timedelta(days=2)
    only: dict[str, Any] = {"compaction": {"enabled": False}, "manifests": {"enabled": False}}
    assert plan(table, two_days_later, **only).actions == ()
    (task,) = plan(table, two_days_later, **only, expiry={"older_than": "P1D", "retain_last": 3}).tasks
    assert task == {"action": "snapshot-expiry", "table": "lake.shop.orders", "older_than": "P1D", "retain_last": 3} | {
        "table": task["table"]
    }
    too_few = plan(table, two_days_later, expiry={"older_than": "P1D", "retain_last": 6})
    assert "19 snapshots are past their retention; the threshold is 20." in [step.why for step in too_few.not_planned]


def test_a_table_whose_files_may_be_those_of_others_is_not_expired(catalog: SqlCatalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA, properties={"gc.enabled": "false"})
    for _ in range(6):
        table.append(rows("a"))
    later = datetime.now(UTC) + timedelta(days=9)
    made = plan(table, later, expiry={"min_snapshots": 1}, orphans={"mode": "dry-run"})
    assert [each.action for each in made.actions] == ["compaction"]
    assert [each.action for each in made.not_planned if "gc.enabled is false" in each.why] == [
        "snapshot-expiry",
        "remove-orphans",
    ]


def test_a_setting_of_commits_that_nobody_can_read_rules_out_no_look_for_orphans(catalog: SqlCatalog) -> None:
    table = partitioned(catalog, [], **{"commit.retry.num-retries": "3000000000"})
    table.append(rows("eu"))
    ruled_out = [each.action for each in plan(table, orphans={"mode": "dry-run"}).not_planned if each.is_unsupported]
    assert "snapshot-expiry" in ruled_out
    assert "remove-orphans" not in ruled_out


def test_a_table_whose_partitions_iceberg_does_not_know_rules_out_the_look_for_orphans(catalog: SqlCatalog) -> None:
    table = partitioned(catalog, [(2, IdentityTransform(), "place")])
    table.append(rows("eu"))
    unknown = PartitionSpec(PartitionField(2, 1000, UnknownTransform("geohash"), "place"))
    table.metadata.partition_specs[0] = unknown
    (left_out,) = [each for each in plan(table, orphans={"mode": "dry-run"}).not_planned if "place" in each.why]
    assert (left_out.action, left_out.is_unsupported) == ("remove-orphans", True)


def test_a_tag_of_today_is_made_once(catalog: SqlCatalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA)
    table.append(rows("a"))
    noon = datetime(2026, 11, 26, 12, tzinfo=UTC)
    (task,) = plan(table, noon, tags={"daily": 7}).tasks
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, task["tag"]).commit()
    assert plan(table, noon, tags={"daily": 7}).actions == ()
    (next_day,) = plan(table, noon + timedelta(days=1), tags={"daily": 7}).tasks
    assert next_day["tag"] == f"daily-{date(2026, 11, 27)}"


@pytest.mark.parametrize(("step", "share"), [(10, 1.0), (9, 1.0), (1, 0.0)], ids=["apart", "touching", "overlapping"])
def test_files_of_a_table_with_a_sort_order_are_in_order_where_their_values_do_not_meet(
    step: int, share: float, catalog: SqlCatalog
) -> None:
    table = catalog.create_table("shop.orders", SCHEMA, sort_order=SORTED_BY_ID)
    for start in range(0, 8 * step, step):
        table.append(pa.table({"id": [start, start + 9]}))
    later = datetime.now(UTC) + timedelta(hours=2)
    files = health(table, MaintenancePolicy(), later).files
    assert files is not None
    assert (files.sorted_by, files.sorted_share) == ("id", share)
    (action,) = plan(table, later, compaction={"level": "full", "strategy": "sort"}).actions
    assert (action.level, action.task["strategy"]) == (("full", "sort") if share < 1 else ("minor", "binpack"))


@pytest.mark.parametrize(
    ("settings", "level"),
    [({"level": "full"}, "full"), ({}, None), ({"level": "full", "enabled": False}, None)],
    ids=["full", "auto", "off"],
)
def test_a_sort_of_the_whole_table_is_planned_though_no_file_is_small(
    settings: dict[str, Any], level: str | None, catalog: SqlCatalog
) -> None:
    table = catalog.create_table("shop.orders", SCHEMA, sort_order=SORTED_BY_ID)
    for start in range(8):
        table.append(pa.table({"id": [start, start + 9]}))
    later = datetime.now(UTC) + timedelta(hours=2)
    made = plan(table, later, compaction={"strategy": "sort", "target_file_size": 100, **settings})
    assert [each.level for each in made.actions] == ([level] if level else [])


@pytest.mark.parametrize(
    ("regions", "properties", "share"),
    [
        ([("a", "c"), ("d", "f"), ("g", "i")], {}, 1.0),
        ([("a", "z"), ("b", "y"), ("c", "x")], {}, 0.0),
        ([("a", "z"), ("b", "y"), ("c", "x")], {"write.metadata.metrics.default": "none"}, None),
        ([("a", "z"), ("b", "y"), ("c", "x")], {"write.metadata.metrics.default": "counts"}, None),
        ([(f"{'p' * 20}{n}", f"{'p' * 20}{n + 1}") for n in (1, 3, 5)], {}, None),
        ([(f"{'p' * 15}{n}x", f"{'p' * 15}{n + 1}y") for n in (1, 2, 3)], {}, None),
        ([(f"{'p' * 15}{n}x", f"{'p' * 15}{n + 1}y") for n in (1, 3, 5)], {}, 1.0),
        ([(f"a{'p' * 20}{n}", f"z{'p' * 20}{n}") for n in (1, 3, 5)], {}, 0.0),
        (
            [(f"{'p' * 20}{n}", f"{'p' * 20}{n + 1}") for n in (1, 3, 5)],
            {"write.metadata.metrics.default": "full"},
            1.0,
        ),
        ([("a", "c"), (None, None), ("d", "f")], {}, None),
    ],
    ids=range(10),
)
def test_an_order_that_the_bounds_do_not_show_is_not_known_and_no_sort_is_planned(
    regions: list[tuple[str | None, str | None]], properties: dict[str, str], share: float | None, catalog: SqlCatalog
) -> None:
    table = catalog.create_table("shop.orders", SCHEMA, sort_order=SORTED_BY_REGION, properties=properties)
    for low, high in regions:
        table.append(rows(low, high))
    later = datetime.now(UTC) + timedelta(hours=2)
    settings = {"level": "full", "strategy": "sort", "min_input_files": 2}
    files = health(table, MaintenancePolicy.from_mapping({"compaction": settings}, "policy"), later).files
    assert files is not None
    assert (files.sorted_by, files.sorted_share) == ("region", share)
    (action,) = plan(table, later, compaction=settings).actions
    assert action.level == ("full" if share == 0 else "minor")
    if share is None:
        assert "No sort: the order cannot be told." in " ".join(action.notes)


ranges = st.tuples(st.integers(0, 20), st.integers(0, 5)).map(lambda given: (given[0], given[0] + given[1]))


@given(st.lists(ranges, min_size=1, max_size=8))
def test_the_share_in_order_is_that_of_files_compared_one_by_one(bounds: list[tuple[int, int]]) -> None:
    files = [
        FileRecord(path=str(place), spec_id=0, partition=(), bytes=1, records=1, bounds=each)
        for place, each in enumerate(bounds)
    ]
    counted = count_head(
        [], lambda: LiveFiles(data=files, deletes=[]), lambda *_: "", (), target=9, manifest_target=9, sorted_by="id"
    )

    def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
        # Both hold a value inside of them; a range of one value meets what it lies inside of.
        return (
            max(one[0], other[0]) < min(one[1], other[1])
            or one[0] < other[0] == other[1] < one[1]
            or (other[0] < one[0] == one[1] < other[1])
        )

    apart = sum(not any(meet(a, b) for p, b in enumerate(bounds) if p != n) for n, a in enumerate(bounds))
    assert counted.sorted_share == pytest.approx(apart / len(bounds), abs=1e-4)

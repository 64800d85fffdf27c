"""Rows that other maintenance has lost: by expiries beside refs, and by compactions beside writers.

The numbers are of issues of apache/iceberg, unless a name says another project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from tests.spark.equality_delete import delete_by_equality, delete_by_values, upsert_by_equality
from tests.spark.maintained_table import CATALOG, MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import compact, expire, remove_orphans, rewrite_manifests
from tests.spark.orphaned_files import made_old
from tests.spark.upsert_flow import Flow

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("amount", pa.int64())])
Ids = frozenset[int]


@dataclass
class TableWithRefs:
    """A table with branches, tags and staged snapshots, and beside it the ids of each of its snapshots.

    Commits of rows are PyIceberg's, which shares nothing with Spark but the catalog.

    :param of_snapshot: ids by snapshot, as they were committed.
    :param named: files that a snapshot has ever named.
    """

    spark: SparkSession
    table: MaintainedTable = field(init=False)
    of_snapshot: dict[int, Ids] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=count)
    staged: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        properties = {"write.wap.enabled": "true", "write.delete.mode": "copy-on-write"}
        self.table = MaintainedTable(self.spark, version=2, properties=properties)
        self.append()

    def loaded(self) -> Table:
        return Flow(self.spark, self.table.name, Path()).catalog().load_table(self.table.name)

    def head(self, ref: str = "main") -> int:
        return self.loaded().metadata.refs[ref].snapshot_id

    def ids(self, ref: str = "main") -> Ids:
        refs = self.loaded().metadata.refs
        return self.of_snapshot[refs[ref].snapshot_id] if ref in refs else frozenset()

    def append(self, branch: str = "main") -> None:
        new, before = next(self.numbers), self.ids(branch)
        rows = pa.Table.from_pylist([{"id": new, "region": "north", "amount": new * 10}], schema=SCHEMA)
        self.loaded().append(rows, branch=branch)
        self._remember(self.head(branch), before | {new})

    def delete_oldest(self, branch: str = "main") -> None:
        before = self.ids(branch)
        if before:
            self.loaded().delete(f"id = {min(before)}", branch=branch)
            self._remember(self.head(branch), before - {min(before)})

    def create_ref(self, kind: str, ref: str) -> None:
        if ref in self.loaded().metadata.refs:
            new = f"{kind}{next(self.numbers)} AS OF VERSION {self.head(ref)}"
            self._alter(f"CREATE {kind} {new}")

    def drop_ref(self, ref: str) -> None:
        refs = self.loaded().metadata.refs
        if ref != "main" and ref in refs:
            self._alter(f"DROP {refs[ref].snapshot_ref_type.upper()} {ref}")

    def _alter(self, change: str) -> None:
        self.spark.sql(f"REFRESH TABLE {self.table.name}")
        self.spark.sql(f"ALTER TABLE {self.table.name} {change}")

    def stage(self) -> None:
        """Append one row to a snapshot that no ref names, as write-audit-publish does."""
        new, before, there = next(self.numbers), self.ids(), set(self._snapshots())
        self.spark.conf.set("spark.wap.id", f"audit {new}")
        try:
            self.table.append(new, 1)
        finally:
            self.spark.conf.unset("spark.wap.id")
        (added,) = set(self._snapshots()) - there
        self._remember(added, before | {new})
        self.staged[added] = new

    def publish(self) -> None:
        """Cherry-pick the oldest staged snapshot that is left."""
        left = [each for each in self.staged if each in self._snapshots()]
        if left:
            before, new = self.ids(), self.staged.pop(left[0])
            self.table.handle.java.manageSnapshots().cherrypick(left[0]).commit()
            self._remember(self.head(), before | {new})

    def roll_back(self) -> None:
        parent = self.loaded().metadata.snapshot_by_id(self.head()).parent_snapshot_id  # type: ignore[union-attr]  # a head
        if parent in self._snapshots():
            self.table.handle.java.manageSnapshots().rollbackTo(parent).commit()

    def compact(self) -> None:
        before = self.ids()
        compact(self.table, level=CompactionLevel.MAJOR, min_input_files=2)
        self._remember(self.head(), before)

    def expire(self, **arguments: Any) -> None:
        expire(self.table, expire_stage_branches_before=datetime.now(UTC) + timedelta(minutes=1), **arguments)

    def check(self) -> None:
        """Read each snapshot that is left, and look for files that none of them names."""
        table = self.loaded()
        for each in table.metadata.snapshots:
            ids = table.scan(snapshot_id=each.snapshot_id).to_arrow()["id"].to_pylist()
            assert sorted(ids) == sorted(self.of_snapshot[each.snapshot_id]), each
        live = {file for each in table.metadata.snapshots for file in _files(table, each)}
        there = {str(path) for path in self.table.files_on_disk()}
        assert live <= there
        assert not there & (self.named - live)

    def _snapshots(self) -> list[int]:
        return [each.snapshot_id for each in self.loaded().metadata.snapshots]

    def _remember(self, snapshot: int, ids: Ids) -> None:
        self.of_snapshot[snapshot] = ids
        table = self.loaded()
        self.named |= {file for each in table.metadata.snapshots for file in _files(table, each)}


def _files(table: Table, snapshot: Any) -> set[str]:
    return {
        entry.data_file.file_path.removeprefix("file://").removeprefix("file:")
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        if entry.status != ManifestEntryStatus.DELETED
    }


def test_an_expiry_beside_several_refs_keeps_their_files_as_13568_and_17304_deleted_them(spark: SparkSession) -> None:
    """apache/iceberg#13568, #13614, #17304: the incremental clean-up of an expiry deleted live files."""
    lake = TableWithRefs(spark)
    lake.append()
    lake.create_ref("BRANCH", "main")
    (branch,) = lake.loaded().metadata.refs.keys() - {"main"}
    lake.delete_oldest()
    lake.append(branch)
    lake.create_ref("TAG", branch)
    lake.delete_oldest(branch)
    lake.compact()
    lake.append()
    lake.expire(retain_last=1)
    assert len(lake.loaded().metadata.snapshots) == 3
    lake.check()


def test_files_below_a_parent_that_pyiceberg_has_expired_stay_and_what_it_left_goes(spark: SparkSession) -> None:
    """apache/amoro#4231; apache/iceberg-python#2604, #1200, #1065.

    The walk along parents ends where one is expired. Files that only manifests below had added, and merged manifests
    carry on, were deleted. PyIceberg itself leaves data files and orphans, and does not compact.
    """
    lake = TableWithRefs(spark)
    lake.append()
    middle = lake.head()
    lake.delete_oldest()
    lake.append()
    lake.append()
    before = lake.ids()
    assert rewrite_manifests(lake.table).outcome is Outcome.DONE
    lake._remember(lake.head(), before)
    lake.loaded().maintenance.expire_snapshots().by_id(middle).commit()
    lake.expire(retain_last=1)
    assert len(lake.loaded().metadata.snapshots) == 1
    assert set(lake.loaded().scan().to_arrow()["id"].to_pylist()) == before

    made_old(lake.table)
    remove_orphans(lake.table)
    lake.check()
    lake.compact()
    lake.expire(retain_last=1)
    lake.check()
    assert len(lake.table.files_on_disk()) == 1


def test_what_goes_from_the_middle_keeps_files_of_older_ones_as_10982_and_8255_deleted_them(
    spark: SparkSession,
) -> None:
    """apache/iceberg#10982, #8255: an expiry by id deleted files that older snapshots need."""
    lake = TableWithRefs(spark)
    lake.append()
    lake.create_ref("TAG", "main")
    lake.delete_oldest()
    lake.append()
    lake.compact()
    lake.expire(retain_last=1)
    assert len(lake.loaded().metadata.snapshots) == 2
    lake.check()


@pytest.mark.parametrize("is_behind", [False, True], ids=["fast-forward", "copied"])
def test_a_published_snapshot_keeps_its_files_when_the_staged_one_goes_as_744_deleted_them(
    spark: SparkSession, is_behind: bool
) -> None:
    """apache/iceberg#744: an expiry after a cherry-pick deleted the files of the published snapshot."""
    lake = TableWithRefs(spark)
    lake.stage()
    lake.stage()
    if is_behind:
        lake.append()
    lake.publish()
    lake.append()
    lake.expire(retain_last=1)
    assert len(lake.loaded().metadata.snapshots) == 1
    lake.check()


REFS = st.sampled_from(["main", *(f"{kind}{number}" for kind in ("BRANCH", "TAG") for number in range(1, 6))])
STEPS: list[st.SearchStrategy[tuple[str, tuple[Any, ...]]]] = [
    st.tuples(st.sampled_from(["append", "delete_oldest"]), st.just(("main",))),
    st.tuples(st.just("create_ref"), st.tuples(st.sampled_from(["BRANCH", "TAG"]), REFS)),
    st.tuples(st.just("drop_ref"), st.tuples(REFS)),
    st.tuples(st.sampled_from(["stage", "publish", "roll_back", "compact", "on_branches"]), st.just(())),
]


@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    steps=st.lists(st.one_of(STEPS), min_size=4, max_size=10),
    more=st.lists(st.one_of(STEPS), max_size=6),
    keep=st.integers(1, 2),
)
def test_each_snapshot_that_an_expiry_leaves_has_its_rows_and_no_file_is_left_over(
    spark: SparkSession, steps: list[Any], more: list[Any], keep: int
) -> None:
    lake = TableWithRefs(spark)
    for part in (steps, more):
        for name, arguments in part:
            if name == "on_branches":
                for ref, of_ref in lake.loaded().metadata.refs.items():
                    if of_ref.snapshot_ref_type == "branch":
                        lake.append(ref)
                        lake.delete_oldest(ref)
            else:
                getattr(lake, name)(*arguments)
        lake.expire(retain_last=keep)
        lake.check()


def delete_by_position(table: MaintainedTable, other: SparkSession) -> None:
    table.delete([3, 104], other)


def delete_by_key(table: MaintainedTable, other: SparkSession) -> None:
    delete_by_equality(other, _handle(table, other), [3, 104])
    del table.rows[3], table.rows[104]


def replace_by_key(table: MaintainedTable, other: SparkSession) -> None:
    """Delete by key and insert, in two commits."""
    delete_by_equality(other, _handle(table, other), [3])
    other.sql(f"INSERT INTO {table.name} VALUES (3, 'south', 7)")
    table.rows[3] = ("south", 7)


def upsert_as_flink(table: MaintainedTable, other: SparkSession) -> None:
    for amount in (-1, -2):
        upsert_by_equality(other, _handle(table, other), {3: ("south", amount), 104: ("south", amount)})
    table.rows |= {3: ("south", -2), 104: ("south", -2)}


def merge(table: MaintainedTable, other: SparkSession) -> None:
    source = "(SELECT * FROM VALUES (3L, -1L), (104L, -2L) AS s(id, amount)) s"
    other.sql(
        f"MERGE INTO {table.name} t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.amount = s.amount"
    )
    table.rows |= {3: ("north", -1), 104: ("north", -2)}


def overwrite(table: MaintainedTable, other: SparkSession) -> None:
    other.sql(f"INSERT OVERWRITE {table.name} VALUES (1, 'west', 7)")
    table.rows = {1: ("west", 7)}


def _handle(table: MaintainedTable, other: SparkSession) -> Any:
    """Return the table as a catalog object of its own loads it: that of the compaction does not see its commits."""
    return IcebergTable(other, CATALOG, TableName.parse(table.name)).java


WRITERS: dict[str, Callable[[MaintainedTable, SparkSession], None]] = {
    "a delete by position, as 2308 and 2865 lost it": delete_by_position,
    "a delete by key, as 10312 brought the row back": delete_by_key,
    "a delete by key and then an insert, as 10526 had the row twice": replace_by_key,
    "upserts of Flink": upsert_as_flink,
    "a merge, as trino 18393 had rows twice": merge,
    "an overwrite": overwrite,
}


@pytest.mark.parametrize(("version", "is_deleted_from"), [(2, False), (3, True)])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_is_written_beside_a_compaction_stays_written(
    spark: SparkSession, version: int, is_deleted_from: bool, write: Callable[[MaintainedTable, SparkSession], None]
) -> None:
    """apache/iceberg#2308, #2865, #10312, #10526; trinodb/trino#18393, #18412: writes beside it were lost."""
    table = MaintainedTable(spark, version=version)
    for first in (0, 100, 200):
        table.append(first, 10)
    if is_deleted_from:
        delete_by_equality(spark, table.handle.java, [5])
        del table.rows[5]
    progress = ProgressThatRuns("rewrite", lambda: write(table, table.other_session()))

    report = compact(table, progress, level=CompactionLevel.MAJOR, min_input_files=2)

    assert report.outcome is (Outcome.NOTHING_DUE if write is overwrite else Outcome.DONE)
    assert table.rows_read() == table.rows
    if write is upsert_as_flink and is_deleted_from:
        # Who commits deletes by key all day is in no compaction's way.
        assert report.attempts == 1


def test_a_compaction_applies_deletes_by_several_columns_whatever_query_has_read_them_before(
    spark: SparkSession,
) -> None:
    """apache/iceberg#13873, #15514: deletes that a query had cached in its own order of columns were not applied."""
    table = MaintainedTable(spark, version=2)
    table.append(0, 10)
    table.append(10, 10)
    delete_by_values(spark, table.handle.java, [{"id": id_, "amount": id_ * 10} for id_ in (3, 12)])
    del table.rows[3], table.rows[12]
    spark.sql(f"REFRESH TABLE {table.name}")
    assert spark.sql(f"SELECT sum(amount) FROM {table.name}").collect()[0][0] == sum(
        amount for _, amount in table.rows.values()
    )

    compact(table, level=CompactionLevel.MAJOR, min_input_files=2)

    assert table.rows_in_data_files() == table.rows

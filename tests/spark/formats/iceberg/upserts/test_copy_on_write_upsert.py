"""The strategy that writes files anew: what it leaves, what it keeps of other rows, and when it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_lake_provider.contracts.author.merge_engines import Deduplicate
from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import CommitConflictError, UnknownOutcomeError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import metadata_swap, snapshot_commit
from airflow_lake_provider.spark_jobs.formats.iceberg.table import strategy_requirements
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.equality_delete import delete_by_equality
from tests.spark.hostile_tables import write_metadata_of
from tests.spark.upsert_flow import Flow, InterruptedProgress, NewFlow, row


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    return new_flow(strategy=UpsertStrategy.COPY_ON_WRITE)


def of_version(version: str) -> TableLayout:
    return TableLayout(properties={"format-version": version})


def as_spark_reads(flow: Flow) -> dict[int, tuple[Any, ...]]:
    found = flow.spark.table(flow.table).collect()
    keyed = {each["id"]: (each["name"], each["n"]) for each in found}
    assert len(keyed) == len(found), f"keys occur twice in {found}"
    return keyed


def lineage(flow: Flow) -> dict[int, tuple[int, int]]:
    """Row id and sequence number of the last update, by id."""
    found = flow.spark.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {flow.table}").collect()
    return {each[0]: (each[1], each[2]) for each in found}


def paths(flow: Flow, what: str = "data") -> set[str]:
    """Live files as the table's metadata has them: of ``data``, or what the ``delete`` files are on."""
    column = "referenced_data_file" if what == "delete" else "file_path"
    return {found[0] for found in flow.spark.sql(f"SELECT {column} FROM {flow.table}.{what}_files").collect()}


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_rows_are_replaced_deleted_and_added_and_no_delete_file_is_left(flow: Flow, version: str) -> None:
    flow.arrive("1.jsonl", *(row(number, "a", number) for number in range(20)))
    report = flow.apply("run 1", create=of_version(version))
    assert (report.strategy, report.rows_inserted) == ("copy-on-write", 20)
    flow.arrive("2.jsonl", row(1, "b"), row(2, "", op="d"))
    flow.apply("run 2", strategy=UpsertStrategy.COPY_ON_WRITE if version == "1" else UpsertStrategy.POSITIONS)
    flow.arrive("3.jsonl", row(2, "back"), row(3, "c"), row(4, "", op="d"), row(77, "", op="d"), row(60, "new"))
    report = flow.apply("run 3")
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (2, 1, 1)
    expected = {number: ("a", number) for number in range(20) if number != 4}
    expected |= {1: ("b", 0), 2: ("back", 0), 3: ("c", 0), 60: ("new", 0)}
    assert flow.rows() == as_spark_reads(flow) == expected
    assert paths(flow, "delete") == set()


def test_rows_in_row_groups_without_a_key_of_the_batch_are_kept(flow: Flow) -> None:
    small = {"row-group-size-bytes": "1000", "row-group-check-min-record-count": "50"}
    small |= {"row-group-check-max-record-count": "50"}
    layout = TableLayout(properties={f"write.parquet.{name}": value for name, value in small.items()})
    flow.arrive("1.jsonl", *(row(number, f"a {number}", number) for number in range(3_000)))
    flow.apply("run 1", create=layout)
    groups = [pq.read_metadata(flow.folder() / name).num_row_groups for name in flow.data_files()]
    assert max(groups) > 4
    flow.arrive("2.jsonl", row(1_500, "b"))
    report = flow.apply("run 2")
    assert (report.strategy, report.rows_updated) == ("copy-on-write", 1)
    expected = {number: (f"a {number}", number) for number in range(3_000)}
    assert flow.rows() == as_spark_reads(flow) == {**expected, 1_500: ("b", 0)}


ENGINES = [
    Deduplicate(),
    Deduplicate(deletes="ignore", ignore_stale=True),
    Deduplicate(deletes="soft", ignore_stale=True),
]


@pytest.mark.parametrize("engine", ENGINES, ids=["any order", "ignore_stale", "soft deletes"])
@pytest.mark.parametrize("twice", [False, True], ids=["", "a key is there twice"])
def test_rows_whose_key_the_table_has_are_not_counted_as_inserted(flow: Flow, engine: Deduplicate, twice: bool) -> None:
    flow.arrive("1.jsonl", *(row(number, "a", 5) for number in range(1, 8)))
    flow.apply("run 1", merge_engine=engine, order_by=("n",))
    if twice:
        flow.spark.sql(f"INSERT INTO {flow.table} SELECT * FROM {flow.table} WHERE id IN (1, 2)")
    newer, stale = [row(1, "b", 9), row(3, "", 9, op="d")], [row(2, "b", 1), row(4, "", 1, op="d")]
    flow.arrive("2.jsonl", *newer, *stale, row(50, "new", 1), row(51, "new", 9), row(52, "", 9, op="d"))
    before = set(flow.spark.table(flow.table).select("id").toArrow()["id"].to_pylist())
    report = flow.apply("run 2", merge_engine=engine, order_by=("n",))
    after = set(flow.spark.table(flow.table).select("id").toArrow()["id"].to_pylist())
    assert report.strategy == "copy-on-write"
    assert report.rows_inserted == len(after - before) >= 2


def test_rows_that_are_carried_over_are_no_changes(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(10, 14)))
    flow.apply("run 1", create=TableLayout(partition_by=("truncate(10, id)",)))
    flow.arrive("2.jsonl", row(10, "b"), *(row(number, "a") for number in range(20, 24)), row(40, "a"))
    flow.apply("run 2")
    # By now some rows have their lineage written in their file, others inherit it.
    before, files = lineage(flow), paths(flow)
    start = str(flow.loaded().metadata.current_snapshot_id)
    flow.arrive("3.jsonl", row(11, "c"), row(20, "", op="d"), row(30, "c"), row(41, "", op="d"))
    flow.apply("run 3")
    after = lineage(flow)
    assert {path.partition("id_trunc=")[2][:2] for path in files & paths(flow)} == {"40"}
    kept = before.keys() - {11, 20}
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert after[11][0] == before[11][0]
    assert after[11][1] == after[30][1] > max(updated for _, updated in before.values())
    assert after[30][0] not in {row_id for row_id, _ in before.values()}
    changes = read_changes(flow.spark, flow.table, start, None).collect()
    assert sorted((each["id"], each["_change_type"]) for each in changes) == [
        (11, "upsert"),
        (20, "delete"),
        (30, "upsert"),
    ]


def test_a_key_that_moves_to_another_partition_is_gone_from_its_old_one(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"), row(3, "b"))
    flow.apply("run 1", create=TableLayout(partition_by=("name",)))
    flow.arrive("2.jsonl", row(1, "b", 7), row(4, "d"))
    flow.apply("run 2")
    assert flow.rows() == {1: ("b", 7), 2: ("a", 0), 3: ("b", 0), 4: ("d", 0)}
    flow.spark.sql(f"ALTER TABLE {flow.table} ADD PARTITION FIELD bucket(2, id)")
    flow.arrive("3.jsonl", row(1, "c"), row(3, "", op="d"), row(4, "c"))
    flow.apply("run 3")
    assert flow.rows() == as_spark_reads(flow) == {1: ("c", 0), 2: ("a", 0), 4: ("c", 0)}


def test_deletes_that_files_share_stay_in_force_where_a_file_stays(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"), row(3, "a"))
    flow.apply("run 1", create=of_version("2"))
    flow.arrive("2.jsonl", row(11, "a"), row(12, "a"))
    flow.apply("run 2")
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('write.delete.granularity' = 'partition')")
    flow.spark.sql(f"DELETE FROM {flow.table} WHERE id IN (1, 11)")
    flow.arrive("3.jsonl", row(2, "b"))
    flow.apply("run 3")
    assert flow.rows() == as_spark_reads(flow) == {2: ("b", 0), 3: ("a", 0), 12: ("a", 0)}
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('format-version' = '3')")
    flow.arrive("4.jsonl", row(12, "c"), row(2, "c"))
    flow.apply("run 4")
    assert flow.rows() == as_spark_reads(flow) == {2: ("c", 0), 3: ("a", 0), 12: ("c", 0)}
    assert len({row_id for row_id, _ in lineage(flow).values()} - {None}) == 3


def test_equality_deletes_of_other_writers_stay_in_force(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(1, 5)))
    flow.apply("run 1")
    jvm: Any = flow.spark._jvm
    java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(flow.spark._jsparkSession, flow.table)
    delete_by_equality(flow.spark, java, keys=[2, 3])
    flow.arrive("2.jsonl", row(1, "b"), row(2, "b"))
    report = flow.apply("run 2")
    assert (report.rows_inserted, report.rows_updated) == (1, 1)
    assert as_spark_reads(flow) == {1: ("b", 0), 2: ("b", 0), 4: ("a", 0)}


def test_columns_that_the_batch_lacks_keep_their_values_on_a_branch(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 5), row(2, "b", 6))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "c"), row(3, "d"))
    kept: dict[str, Any] = {"exclude_columns": ("op", "n"), "missing_columns": MissingColumns.KEEP}
    flow.apply("run 2", branch="audit", **kept)
    assert flow.apply("run 2", branch="audit", **kept).outcome is Outcome.ALREADY_APPLIED
    assert flow.rows("audit") == {1: ("c", 5), 2: ("b", 6), 3: ("d", None)}
    assert flow.rows() == {1: ("a", 5), 2: ("b", 6)}


Foreign = tuple[Callable[[Flow], Any], int, dict[int, tuple[Any, ...]]]
# What happens meanwhile, in which attempt the batch is applied, and what is left of it.
FOREIGN: dict[str, Foreign] = {
    "append of another key": (lambda f: f.spark.sql(f"INSERT INTO {f.table} VALUES (9, 'z', 9)"), 1, {9: ("z", 9)}),
    "append of a key of the batch": (lambda f: f.spark.sql(f"INSERT INTO {f.table} VALUES (2, 'z', 9)"), 2, {}),
    "update of another row of the file": (lambda f: f.spark.sql(f"UPDATE {f.table} SET n = 8 WHERE id = 3"), 2,
                                          {3: ("a", 8)}),
}  # fmt: skip


@pytest.mark.parametrize("foreign", FOREIGN)
def test_only_appends_of_other_keys_spare_reading_again_what_is_committed_in_between(flow: Flow, foreign: str) -> None:
    act, attempts, theirs = FOREIGN[foreign]
    flow.arrive("1.jsonl", row(1, "a"), row(3, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"), row(2, "b"))
    progress = InterruptedProgress(at="commit", then=lambda: act(flow))
    report = flow.apply("run 2", progress=progress)
    assert (report.outcome, report.attempts) == (Outcome.APPLIED, attempts)
    assert flow.rows() == as_spark_reads(flow) == {3: ("a", 0)} | theirs | {1: ("b", 0), 2: ("b", 0)}
    assert flow.commits_of(report.run_key) == 1


def test_files_of_a_refused_commit_are_deleted(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))
    there: list[set[str]] = []

    def meanwhile() -> None:
        flow.spark.sql(f"UPDATE {flow.table} SET n = 8 WHERE id = 2")
        there.append(flow.data_files())

    with pytest.raises(CommitConflictError, match="may have changed since they were read"):
        flow.apply("run 2", progress=InterruptedProgress(at="commit", then=meanwhile), max_attempts=1)
    known = {Path(found[0]).name for found in flow.spark.sql(f"SELECT file_path FROM {flow.table}.all_files").collect()}
    assert flow.data_files() == known
    assert there[0] - known
    assert flow.rows() == {1: ("a", 0), 2: ("a", 8)}


def test_files_of_a_commit_of_unknown_outcome_are_left(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))

    def committed_unanswered(*commit: Any) -> None:
        metadata_swap.swap_metadata(*commit)
        raise UnknownOutcomeError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot_commit, "swap_metadata", committed_unanswered)
        with pytest.raises(UnknownOutcomeError):
            flow.apply("run 2")
    assert flow.apply("run 2").outcome is Outcome.ALREADY_APPLIED
    assert flow.rows() == {1: ("b", 0), 2: ("a", 0)}


def test_auto_writes_files_anew_where_delete_files_would_cost_readers_more(flow: Flow) -> None:
    flow.changes["strategy"] = UpsertStrategy.AUTO
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(9)))
    report = flow.apply("run 1")
    assert report.strategy == "positions"
    flow.arrive("2.jsonl", row(1, "b"), row(2, "b"))
    assert flow.apply("run 2").strategy == "positions"
    # Eleven rows in data files, two of them deleted.
    flow.arrive("3.jsonl", row(3, "c"), row(4, "c"), row(5, "c"), row(6, "c"))
    report = flow.apply("run 3")
    assert (report.strategy, str(report.strategy_reason).partition(",")[0]) == (
        "copy-on-write",
        "4 keys are 36% of the table's 11 rows; pruned by 4 keys",
    )
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('write.merge.mode' = 'copy-on-write')")
    flow.arrive("4.jsonl", row(3, "d"))
    report = flow.apply("run 4")
    assert (report.strategy, str(report.strategy_reason).partition(";")[0]) == (
        "copy-on-write",
        "the table's write.merge.mode asks for copy-on-write",
    )
    flow.spark.sql(f"ALTER TABLE {flow.table} ADD COLUMN x INT")
    flow.arrive("5.jsonl", row(3, "e"))
    report = flow.apply("run 5", missing_columns=MissingColumns.NULL)
    assert (report.strategy, report.warnings) == ("copy-on-write", ())
    assert flow.rows()[3] == ("e", 0, None)


def test_a_runtime_without_the_classes_is_told_of(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {UpsertStrategy.COPY_ON_WRITE: ("org.apache.iceberg.NotThere",)}
    monkeypatch.setattr(strategy_requirements, "_INTERNALS", missing)
    flow.arrive("1.jsonl", row(1, "a"))
    with pytest.raises(
        UnsupportedError, match=r"'copy-on-write' is not possible, .* lacks org.apache.iceberg.NotThere"
    ):
        flow.apply("run 1")


def test_deletes_that_another_writer_calls_an_append_bring_no_row_back(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"), row(3, "a"))
    properties = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    flow.apply("run 1", create=TableLayout(properties=properties))

    def delete_as_an_append() -> None:
        flow.spark.sql(f"DELETE FROM {flow.table} WHERE id = 2")
        write_metadata_of(flow.spark, flow.table, flow.loaded().metadata_location, call_head_an_append)

    flow.arrive("2.jsonl", row(1, "b"))
    report = flow.apply("run 2", progress=InterruptedProgress(at="commit", then=delete_as_an_append))
    assert flow.rows() == as_spark_reads(flow) == {1: ("b", 0), 3: ("a", 0)}
    assert report.attempts == 2


def call_head_an_append(metadata: dict[str, Any]) -> None:
    """Say of the newest snapshot what RisingWave says of each."""
    (head,) = (each for each in metadata["snapshots"] if each["snapshot-id"] == metadata["current-snapshot-id"])
    head["summary"] = {"operation": "append"}

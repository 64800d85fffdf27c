"""Reads and writes that an upsert by position repeats when another commit was made before its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_lake_provider.contracts.author.audits import Audits
from airflow_lake_provider.contracts.author.merge_engines import Aggregation, Deduplicate, MergeEngine
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.write_deletes import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts import position_upsert
from tests.spark.equality_delete import delete_by_equality
from tests.spark.upsert_flow import SCHEMA, Flow, InterruptedProgress, NewFlow, row

V3, V2 = TableLayout(), TableLayout(properties={"format-version": "2"})
BY_NAME = {version: replace(layout, partition_by=("name",)) for version, layout in (("3", V3), ("2", V2))}
SUM = Aggregation(aggregates={"n": "sum"})


@pytest.fixture
def flow(new_flow: NewFlow) -> Flow:
    return new_flow(strategy=UpsertStrategy.POSITIONS)


def meanwhile(*actions: Callable[[], Any]) -> InterruptedProgress:
    return InterruptedProgress(at="commit", then=lambda: [action() for action in actions])


def hide_files(flow: Flow, partition: str) -> None:
    """Make every read of the data files of a partition fail."""
    for path in flow.folder().glob(f"{partition}/*.parquet"):
        path.rename(path.with_suffix(".hidden"))


def show_files(flow: Flow) -> None:
    for path in flow.folder().rglob("*.hidden"):
        path.rename(path.with_suffix(".parquet"))


def rewrite(flow: Flow, where: str) -> None:
    options = f"where => '{where}', options => map('rewrite-all', 'true')"
    flow.spark.sql(f"CALL lake_default.system.rewrite_data_files(table => '{flow.table}', {options})")


def added(flow: Flow, what: str) -> int:
    """A count of the newest snapshot's summary."""
    snapshot = flow.loaded().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return int(snapshot.summary[f"added-{what}"] or 0)


@pytest.mark.parametrize("version", BY_NAME)
def test_a_compaction_costs_a_read_of_the_files_that_it_wrote(flow: Flow, version: str) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b"), row(3, "a"), row(4, "b"))
    flow.apply("run 1", create=BY_NAME[version])
    flow.arrive("2.jsonl", row(3, "a", 1))
    flow.apply("run 2")
    flow.arrive("3.jsonl", row(1, "a", 7), row(2, "b", 7))
    progress = meanwhile(lambda: rewrite(flow, 'name = "a"'), lambda: hide_files(flow, "name=b"))
    report = flow.apply("run 3", progress=progress)
    show_files(flow)
    assert (report.attempts, report.rows_updated, report.rows_inserted) == (1, 2, 0)
    assert flow.rows() == {1: ("a", 7), 2: ("b", 7), 3: ("a", 1), 4: ("b", 0)}


@pytest.mark.parametrize("layout", [V3, V2], ids=["v3", "v2"])
def test_only_keys_whose_rows_have_changed_are_staged_again(flow: Flow, layout: TableLayout) -> None:
    flow.changes["merge_engine"] = SUM
    flow.arrive("1.jsonl", *(row(number, "a", 1) for number in range(5)))
    flow.apply("run 1", create=layout)
    ids = flow.row_ids() if layout is V3 else {}
    flow.arrive("2.jsonl", *(row(number, "b", 10) for number in range(6)))
    foreign = meanwhile(
        lambda: flow.spark.sql(f"UPDATE {flow.table} SET n = 100 WHERE id = 1"),
        lambda: flow.spark.sql(f"INSERT INTO {flow.table} VALUES (5, 'z', 1000)"),
    )
    report = flow.apply("run 2", progress=foreign)
    sums = {0: 11, 1: 110, 2: 11, 3: 11, 4: 11, 5: 1010}
    assert flow.rows() == {number: ("b", total) for number, total in sums.items()}
    assert (report.attempts, report.rows_updated, report.rows_inserted) == (1, 6, 0)
    # Six staged at first, of which two do not count, and two anew.
    assert (added(flow, "data-files"), added(flow, "records")) == (2, 8)
    assert {number: flow.row_ids()[number] for number in ids} == ids


def test_a_batch_of_which_most_has_changed_is_staged_again_as_a_whole(flow: Flow) -> None:
    flow.changes["merge_engine"] = SUM
    flow.arrive("1.jsonl", row(1, "a", 1), row(2, "a", 1))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 10), row(2, "b", 10))
    flow.apply("run 2", progress=meanwhile(lambda: flow.spark.sql(f"UPDATE {flow.table} SET n = 100")))
    assert flow.rows() == {1: ("b", 110), 2: ("b", 110)}
    assert (added(flow, "data-files"), added(flow, "records")) == (1, 2)


@pytest.mark.parametrize("layout", [V3, V2], ids=["v3", "v2"])
def test_a_key_that_changes_twice_while_the_batch_waits_is_right(
    flow: Flow, layout: TableLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.changes["merge_engine"] = SUM
    flow.arrive("1.jsonl", *(row(number, "a", 1) for number in range(6)))
    flow.apply("run 1", create=layout)
    flow.arrive("2.jsonl", *(row(number, "b", 10) for number in range(6)))
    update = "UPDATE {} SET n = n + 100 WHERE id IN {}"
    others = [update.format(flow.table, "(1, 2)"), update.format(flow.table, "(2, 3)")]

    def deletes_written_late(*arguments: Any) -> Any:
        delta = write_deletes(*arguments)
        if others:
            flow.spark.sql(others.pop(0))
        return delta

    monkeypatch.setattr(position_upsert, "write_deletes", deletes_written_late)
    report = flow.apply("run 2")
    assert (report.attempts, report.rows_updated, others) == (1, 6, [])
    sums = {0: 11, 1: 111, 2: 211, 3: 111, 4: 11, 5: 11}
    assert flow.rows() == {number: ("b", total) for number, total in sums.items()}


def test_a_compaction_is_rebased_by_a_batch_that_spells_its_key_otherwise(flow: Flow, tmp_path: Path) -> None:
    flow.arrive("1.jsonl", *(row(number, "a") for number in range(3)))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(2, "b"))
    flow.apply("run 2")
    batch = flow.spark.range(1, 301).selectExpr("id AS ID", "'c' AS NAME", "0 AS n", "'u' AS op")
    batch.write.parquet(f"{tmp_path}/3")
    source = Files(path=f"{tmp_path}/3", format="parquet")
    report = flow.apply("run 3", source=source, progress=meanwhile(lambda: rewrite(flow, "true")))
    assert (report.attempts, len(flow.rows()), flow.rows()[0]) == (1, 301, ("a", 0))


LAYOUTS = {
    "partitioned": replace(V3, partition_by=("bucket(3, id)",)),
    "partitioned v2": replace(V2, partition_by=("bucket(3, id)",)),
    "orc": TableLayout(file_format="orc"),
    "avro": TableLayout(file_format="avro"),
}


@pytest.mark.parametrize(("layout", "audited"), [*((layout, False) for layout in LAYOUTS), ("partitioned", True)])
def test_rows_that_change_while_a_batch_waits_are_merged_in_every_layout(
    flow: Flow, layout: str, audited: bool
) -> None:
    flow.changes["merge_engine"] = SUM
    flow.arrive("1.jsonl", *(row(number, "a", 1) for number in range(8)))
    flow.apply("run 1", create=LAYOUTS[layout])
    flow.arrive("2.jsonl", *(row(number, "b", 10) for number in range(8)))
    changes = meanwhile(
        lambda: flow.spark.sql(f"UPDATE {flow.table} SET n = 100 WHERE id IN (1, 2)"),
        lambda: rewrite(flow, "true"),
        lambda: flow.spark.sql(f"DELETE FROM {flow.table} WHERE id = 3"),
    )
    audits = Audits(queries={"none is negative": "SELECT * FROM audited WHERE n < 0"}) if audited else None
    report = flow.apply("run 2", progress=changes, audits=audits)
    assert report.attempts == 1
    sums = {number: 110 if number in (1, 2) else 10 if number == 3 else 11 for number in range(8)}
    found = {found["id"]: found["n"] for found in flow.spark.table(flow.table).collect()}
    assert found == sums


def test_deletes_that_name_no_file_are_followed(flow: Flow) -> None:
    flow.arrive("1.jsonl", *(row(number, "a", 1) for number in range(4)))
    flow.apply("run 1", create=V2)
    flow.arrive("2.jsonl", row(1, "b"), row(2, "b"))

    def foreign() -> None:
        table = IcebergTable(flow.spark, "lake_default", TableName.parse(flow.table))
        delete_by_equality(flow.spark, table.java, [1, 3])

    report = flow.apply("run 2", progress=meanwhile(foreign))
    assert (report.attempts, report.rows_updated, report.rows_inserted) == (1, 1, 1)
    found = {found["id"]: found["name"] for found in flow.spark.table(flow.table).collect()}
    assert found == {0: "a", 1: "b", 2: "b"}


UPGRADE = "ALTER TABLE {} SET TBLPROPERTIES ('format-version'='3')"


@pytest.mark.parametrize(
    ("others", "merge_engine"),
    [
        ([UPGRADE], SUM),
        ([UPGRADE, "INSERT INTO {} VALUES (2, 'z', 1), (4, 'z', 1)"], Deduplicate()),
        (["UPDATE {} SET n = 100 WHERE id = 1", UPGRADE], Deduplicate()),
        ([UPGRADE, "UPDATE {} SET n = 100 WHERE id = 1"], SUM),
    ],
    ids=["alone", "and an append", "after an update", "and an update"],
)
def test_a_table_that_is_upgraded_while_the_batch_waits_gets_it_once(
    flow: Flow, others: list[str], merge_engine: MergeEngine
) -> None:
    flow.changes["merge_engine"] = merge_engine
    flow.arrive("1.jsonl", *(row(number, "a", 1) for number in (1, 3, 5)))
    flow.apply("run 1", create=V2)
    model = dict.fromkeys((1, 3, 5), ("a", 1))
    if len(others) > 1 and "INSERT" in others[1]:
        model |= {2: ("z", 1), 4: ("z", 1)}
    if any("UPDATE" in other for other in others):
        model[1] = ("a", 100)
    flow.arrive("2.jsonl", *(row(number, "b", 10) for number in (1, 2, 3)))
    flow.apply("run 2", progress=meanwhile(*(lambda o=o: flow.spark.sql(o.format(flow.table)) for o in others)))
    before = {number: model.get(number, ("", 0))[1] if merge_engine is SUM else 0 for number in (1, 2, 3)}
    assert flow.rows() == model | {number: ("b", 10 + before[number]) for number in (1, 2, 3)}


def test_a_table_that_is_upgraded_between_deletes_and_commit_gets_vectors(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.arrive("1.jsonl", row(1, "a"), row(2, "a"))
    flow.apply("run 1", create=V2)
    flow.arrive("2.jsonl", row(1, "b"))
    upgrades = [UPGRADE.format(flow.table)]

    def deletes_written_early(*arguments: Any) -> Any:
        delta = write_deletes(*arguments)
        while upgrades:
            flow.spark.sql(upgrades.pop())
        return delta

    monkeypatch.setattr(position_upsert, "write_deletes", deletes_written_early)
    flow.apply("run 2")
    assert flow.rows() == {1: ("b", 0), 2: ("a", 0)}


def test_a_batch_made_by_a_query_over_the_target_is_made_again_when_the_target_has_changed(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 10))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 5))
    query = f"SELECT s.id, s.name, t.n + s.n AS n, s.op FROM source s JOIN lake_default.{flow.table} t ON t.id = s.id"
    source = Query(query, over=Files(path=f"{flow.inbox}/2.jsonl", format="json", schema=SCHEMA))
    update = f"UPDATE {flow.table} SET n = 20 WHERE id = 1"
    flow.apply("run 2", progress=InterruptedProgress(at="commit", then=lambda: flow.spark.sql(update)), source=source)
    assert flow.rows() == {1: ("b", 25)}


def test_a_batch_made_by_a_query_over_its_files_alone_is_kept_when_the_target_has_changed(flow: Flow) -> None:
    flow.arrive("1.jsonl", row(1, "a", 10))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b", 5))
    query = "WITH named AS (SELECT id, upper(name) AS name, n, op FROM source) SELECT * FROM named"
    source = Query(query, over=Files(path=f"{flow.inbox}/2.jsonl", format="json", schema=SCHEMA))
    insert = f"INSERT INTO {flow.table} VALUES (2, 'z', 0)"
    writer = InterruptedProgress(at="commit", then=lambda: flow.spark.sql(insert))
    assert flow.apply("run 2", progress=writer, source=source).attempts == 1
    assert flow.rows() == {1: ("B", 5), 2: ("z", 0)}

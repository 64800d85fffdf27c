"""A table's own properties hold for what is written, and the report says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import CommitConflictError
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.commits import metadata_swap
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.row_change_flow import delete, rows_outside, update
from tests.spark.upsert_flow import Flow, NewFlow, row

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "owner-settings.md"
# Names of TableProperties that no owner sets: of the catalog, or values.
RESERVED = {
    *("comment", "uuid", "format-version", "snapshot-count", "none", "hash", "range"),
    *("current-schema", "current-snapshot-id", "current-snapshot-summary", "current-snapshot-timestamp-ms"),
    *("default-partition-spec", "default-sort-order"),
}


def deletes(flow: Flow) -> list[Any]:
    files = flow.spark.sql(f"SELECT file_path, lower_bounds FROM {flow.table}.delete_files").collect()
    return sorted(files, key=lambda file: str(file.file_path))


def parquet(path: str) -> pq.FileMetaData:
    return pq.ParquetFile(path.removeprefix("file://").removeprefix("file:")).metadata


def upserted(flow: Flow, rows: int = 4, **changes: Any) -> str:
    flow.arrive("1.jsonl", *(row(key, "a") for key in range(rows)))
    flow.apply("run 1", strategy=UpsertStrategy.POSITIONS)
    flow.arrive("2.jsonl", *(row(key, "b") for key in range(1, rows)))
    return flow.apply("run 2", **changes).reason


def layout(properties: dict[str, str], version: int = 2) -> TableLayout:
    return TableLayout(properties={"format-version": str(version), **properties})


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("write.delete.parquet.compression-codec", "snappy"),
        ("write.parquet.compression-codec", "gzip"),
        ("write.delete.parquet.compression-codec", "lz4"),
        ("write.delete.parquet.compression-codec", "uncompressed"),
        ("write.delete.format.default", "orc"),
    ],
)
@pytest.mark.parametrize("strategy", [UpsertStrategy.POSITIONS, UpsertStrategy.EQUALITY])
def test_delete_files_are_compressed_as_the_owner_says_and_read(
    new_flow: NewFlow, name: str, codec: str, strategy: UpsertStrategy
) -> None:
    flow = new_flow(create=layout({name: codec}))
    reason = upserted(flow, strategy=strategy)
    (file,) = deletes(flow)
    wanted = "zstd" if codec == "orc" else codec
    assert parquet(file.file_path).row_group(0).column(0).compression.lower().startswith(wanted)
    assert f"{codec!r}, the table's {name}" in reason if codec == "orc" else f"is {codec}, the table's {name}" in reason
    found = flow.spark.sql(f"SELECT id, name FROM {flow.table}").collect()
    assert {each.id: each.name for each in found} == {0: "a", 1: "b", 2: "b", 3: "b"}


def test_equality_deletes_are_split_at_the_owners_size_and_have_no_bounds_that_the_owner_forbids(
    new_flow: NewFlow,
) -> None:
    names = {"write.delete.target-file-size-bytes": "4000", "write.metadata.metrics.default": "none"}
    flow = new_flow(create=layout(names))
    reason = upserted(flow, rows=3000, strategy=UpsertStrategy.EQUALITY)
    files = deletes(flow)
    assert len(files) > 1
    assert sum(parquet(file.file_path).num_rows for file in files) == 2999
    assert not any(file.lower_bounds for file in files)
    assert "is 4000, the table's write.delete.target-file-size-bytes" in reason
    assert flow.spark.sql(f"SELECT count(*) FROM {flow.table} WHERE name = 'b'").head()[0] == 2999  # type: ignore[index]  # a row


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["delete", "update"])
def test_a_row_change_leaves_no_delete_file_where_the_owner_wants_none(
    spark: SparkSession, version: int, kind: str
) -> None:
    mode = f"write.{kind}.mode"
    table = MaintainedTable(spark, version=version, properties={mode: "copy-on-write"})
    table.append(0, 5)
    table.append(5, 5)
    table.spark.sql(f"UPDATE {table.name} SET region = NULL WHERE id = 7") if kind == "delete" else None
    before = table.lineage() if version == 3 else {}
    if kind == "delete":
        report: Any = delete(table, where="id = 1 OR (region = 'north' AND id > 7)")
        left = {0, 2, 3, 4, 5, 6, 7}
    else:
        report = update(table, where="id > 7", assignments={"amount": "amount + 1"})
        left = set(range(10))
    assert rows_outside(table).keys() == left
    if kind == "update":
        assert rows_outside(table)[8] == ("north", 81)
    assert not [file for file in table.live_files(1) if "lake-deletes" in file]
    assert report.reason.startswith(
        f"{kind}d {len(set(range(10)) - left) or 2} rows; strategy is copy-on-write, the table's {mode}"
    )
    if version == 3:
        after = table.lineage()
        assert {key: id_ for key, (id_, _) in after.items()} == {key: before[key][0] for key in left}
        untouched = left - {8, 9} if kind == "update" else left
        assert {key: after[key] for key in untouched} == {key: before[key] for key in untouched}


def test_a_row_change_whose_answer_may_differ_is_made_by_deletes(spark: SparkSession) -> None:
    table = MaintainedTable(spark, version=2, properties={"write.delete.mode": "copy-on-write"})
    table.append(0, 20)
    report = delete(table, where="rand() < 0.5 OR id = 3", allow_sql=True)
    assert report.rows_deleted is not None
    assert len(rows_outside(table)) == 20 - report.rows_deleted
    assert "copy-on-write" not in report.reason


@pytest.mark.parametrize(
    "moment", ["now()", "current_timestamp", "localtimestamp()", "CAST('now' AS TIMESTAMP)", "TIMESTAMP 'NOW'"]
)
def test_a_row_change_that_asks_the_clock_loses_no_row(spark: SparkSession, moment: str) -> None:
    table = MaintainedTable(spark, version=2, properties={"write.update.mode": "copy-on-write"})
    table.append(0, 20)
    # Half of the rows, others at each moment.
    where = f"pmod(hash(id, {moment}), 2) = 0 OR id = 3"
    report = update(table, where=where, assignments={"region": "'south'"}, allow_sql=True)
    regions = [region for region, _ in rows_outside(table).values()]
    assert (len(regions), regions.count("south")) == (20, report.rows_updated)
    assert "copy-on-write" not in report.reason


def test_a_row_change_by_another_table_that_changes_meanwhile_loses_no_row(spark: SparkSession) -> None:
    table = MaintainedTable(spark, version=2, properties={"write.update.mode": "copy-on-write"})
    table.append(0, 5)
    chosen = MaintainedTable(spark)
    chosen.append(1, 1)
    meanwhile = ProgressThatRuns("stage", lambda: chosen.append(3, 1))
    where = f"id IN (SELECT id FROM {chosen.name})"
    report = update(table, progress=meanwhile, where=where, assignments={"region": "'south'"}, allow_sql=True)
    assert report.rows_updated == 1
    assert rows_outside(table) == {**table.rows, 1: ("south", 10)}


def test_a_predicate_that_names_the_present_moment_is_asked_once(spark: SparkSession) -> None:
    table = MaintainedTable(spark, version=2, properties={"write.delete.mode": "copy-on-write"})
    table.append(0, 5)
    report = delete(table, where="id = 1 AND DATE '2020-01-01' < DATE 'today'")
    assert (report.rows_deleted, set(rows_outside(table))) == (1, {0, 2, 3, 4})
    assert "copy-on-write" not in report.reason


def test_keys_are_deleted_by_copy_where_the_owner_wants_it(spark: SparkSession, tmp_path: Path) -> None:
    table = MaintainedTable(spark, version=2, properties={"write.delete.mode": "copy-on-write"})
    table.append(0, 5)
    (tmp_path / "keys.csv").write_text("id\n1\n3\n")
    keys = Files(str(tmp_path / "keys.csv"), format="csv", options={"header": True}, schema="id BIGINT")
    assert delete(table, keys_from=keys, keys=("id",)).rows_deleted == 2
    assert rows_outside(table).keys() == {0, 2, 4}
    assert table.live_files(1) == []


def test_data_files_have_the_owners_size_codec_and_place(new_flow: NewFlow) -> None:
    flow = new_flow()
    place = f"{flow.inbox.parent}/elsewhere"
    names = {"write.target-file-size-bytes": "1", "write.parquet.compression-codec": "snappy", "write.data.path": place}
    flow.changes["create"] = layout(names)
    reason = upserted(flow, rows=2500, strategy=UpsertStrategy.POSITIONS)
    files = [file.file_path for file in flow.spark.sql(f"SELECT file_path FROM {flow.table}.data_files").collect()]
    assert len(files) > 2
    assert {parquet(file).row_group(0).column(0).compression for file in files} == {"SNAPPY"}
    assert all(place in file for file in [*files, *(file.file_path for file in deletes(flow))])
    assert "the size of data files is 1, the table's write.target-file-size-bytes" in reason


def test_a_publication_is_sent_as_often_as_the_owner_says(new_flow: NewFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = new_flow(create=layout({"commit.retry.num-retries": "2"}))
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply("run 1")
    flow.arrive("2.jsonl", row(1, "b"))
    sent: list[Any] = []
    send = metadata_swap._send

    def late(*commit: Any) -> None:
        """Let another writer set a property first, which moves no branch, so that the catalog refuses this one."""
        sent.append(commit)
        flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('owner-of-try' = '{len(sent)}')")
        send(*commit)

    monkeypatch.setattr(metadata_swap, "_send", late)
    with pytest.raises(CommitConflictError, match="changed 3 times"):
        flow.apply("run 2", strategy=UpsertStrategy.MERGE, max_attempts=1)
    assert len(sent) == 3


@pytest.mark.parametrize(("named", "wanted"), [(None, "orc"), ("avro", "avro")])
def test_a_catalogs_default_gives_way_only_to_what_the_dag_names(
    spark: SparkSession, tmp_path: Path, named: str | None, wanted: str
) -> None:
    session, catalog = spark.newSession(), f"defaults_{uuid4().hex[:6]}"
    prefix = f"spark.sql.catalog.{catalog}"
    session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{prefix}.type", "hadoop")
    session.conf.set(f"{prefix}.warehouse", f"file://{tmp_path}/warehouse")
    defaults = {"write.format.default": "orc", "format-version": "2", "write.merge.mode": "copy-on-write"}
    for name, value in defaults.items():
        session.conf.set(f"{prefix}.table-default.{name}", value)
    flow = Flow(session, "shop.orders", tmp_path / "inbox", {"catalog": catalog})
    flow.arrive("1.jsonl", row(1, "a"))
    create = TableLayout(file_format=named) if named else TableLayout()
    assert flow.apply("run 1", create=create).committed
    listed = session.sql(f"SHOW TBLPROPERTIES {catalog}.shop.orders").collect()
    properties = {each.key: each.value for each in listed}
    assert {name: properties[name] for name in defaults if name != "format-version"} == {
        **{name: value for name, value in defaults.items() if name != "format-version"},
        "write.format.default": wanted,
    }
    assert properties["format-version"] == "2"
    assert properties["write.delete.mode"] == "merge-on-read"


def test_the_page_names_every_property_that_iceberg_has(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    fields = jvm.java.lang.Class.forName("org.apache.iceberg.TableProperties").getFields()
    values = {str(f.getName()): f.get(None) for f in fields if str(f.getType().getSimpleName()) == "String"}
    names = {value for name, value in values.items() if not name.endswith("_DEFAULT")}
    known = set(re.findall(r"`([a-z][a-z.-]+)`", PAGE.read_text()))
    assert {n for n in names if n and ("." in n or "-" in n)} - RESERVED - known == set()

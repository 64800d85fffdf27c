"""Files of a lake table given as files of rows, which would bring deleted rows back, are refused with the remedy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.upsert_flow import Flow, row

PLAIN: dict[str, Any] = {"delete_when": None, "exclude_columns": ()}


def load(flow: Flow, pattern: Path | str) -> None:
    flow.apply("run 2", source=Files(path=str(pattern), format="parquet"), missing_columns="null", **PLAIN)


@pytest.mark.parametrize(
    ("kind", "marks", "below"),
    [
        ("Delta Lake", ["_delta_log/00000000000000000000.json"], "day=2026-01-01/"),
        ("Hudi", [".hoodie/hoodie.properties"], "2026/01/01/"),
        ("Paimon", ["snapshot/snapshot-1", "schema/schema-0"], "day=2026-01-01/bucket-0/"),
    ],
)
def test_files_of_a_table_of_another_format_are_refused(
    flow: Flow, tmp_path: Path, kind: str, marks: list[str], below: str
) -> None:
    root = tmp_path / "orders"
    for mark in (*marks, f"{below}a.parquet"):
        (root / mark).parent.mkdir(parents=True, exist_ok=True)
        (root / mark).write_text("")
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), root / below / "a.parquet")
    for pattern in (root, root / below, root / "*", root / below / "a.parquet"):
        with pytest.raises(
            BadInputError, match=rf"of the {kind} table in .*/orders, .* by a PySparkFunction, .*{kind}"
        ):
            load(flow, pattern)
    for mark in marks:
        shutil.rmtree((root / mark).parent)
    load(flow, root / below)


def test_keys_to_delete_are_taken_from_no_folder_of_a_table(flow: Flow, tmp_path: Path) -> None:
    flow.arrive("1.jsonl", row(1, "a"))
    flow.apply()
    (tmp_path / "keys" / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "keys" / "a.parquet")
    keys = Files(path=str(tmp_path / "keys"), format="parquet")
    given: dict[str, Any] = {"catalog": "lake_default", "table": flow.table, "keys_from": keys, "keys": ("id",)}
    with pytest.raises(BadInputError, match="of the Delta Lake table"):
        delete_rows(flow.spark, DeleteRowsSpec(run=RunIdentity.of("dag", "run", "task"), **given), Progress())


def test_data_files_of_an_iceberg_table_are_refused_and_a_folder_named_metadata_is_none(
    flow: Flow, tmp_path: Path
) -> None:
    flow.changes["create"] = TableLayout(properties={"format-version": "2"})
    flow.arrive("1.jsonl", row(1, "a"), row(2, "b"))
    flow.apply()
    root = flow.folder().parent
    for pattern in (root, root / "data", root / "data" / "*.parquet"):
        with pytest.raises(BadInputError, match=r"of the Iceberg table in .*\. Read the table by LakeTable, or copy"):
            load(flow, pattern)
    copy = tmp_path / "copied" / "data"
    shutil.copytree(root / "data", copy)
    (copy.parent / "metadata").mkdir()
    (copy.parent / "metadata" / "schema.json").write_text("{}")
    load(flow.copy(f"{flow.table}_copy"), copy)

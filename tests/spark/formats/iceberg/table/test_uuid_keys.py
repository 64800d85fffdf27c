"""Tables whose key is a UUID, which Spark takes for text: one spelling of each is a key, others are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType, StructType, UUIDType
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.applied.run_key import RunIdentity
from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, InvalidSpecError
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.actions.delete_rows import delete_rows
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.append_flow import append
from tests.spark.upsert_flow import Flow

FIRST, SECOND = UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), UUID("00000000-0000-4000-8000-0000000000ff")
STRATEGIES = [UpsertStrategy.POSITIONS, UpsertStrategy.COPY_ON_WRITE, UpsertStrategy.MERGE]


@pytest.fixture
def flow(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Flow:
    arguments: dict[str, Any] = {
        "source": Files(path=f"{tmp_path}/*.jsonl", format="json", schema="id STRING, n INT"),
        "delete_when": None,
    }
    made = Flow(spark, f"upserts.u{abs(hash(request.node.name)) % 10**9}", tmp_path, arguments)
    schema = Schema(NestedField(1, "id", UUIDType(), required=True), NestedField(2, "n", IntegerType()))
    made.catalog().create_table(made.table, schema)
    return made


def held(flow: Flow) -> list[tuple[UUID, int]]:
    found = flow.loaded().scan().to_arrow().to_pylist()
    return sorted((UUID(bytes=row["id"]) if isinstance(row["id"], bytes) else row["id"], row["n"]) for row in found)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_uuid_is_a_key_in_the_spelling_of_iceberg_and_refused_in_any_other(
    flow: Flow, strategy: UpsertStrategy
) -> None:
    for number in (1, 2):
        flow.arrive(f"{number}.jsonl", {"id": str(FIRST), "n": number}, {"id": str(SECOND), "n": number})
        flow.apply(f"run {number}", strategy=strategy)
    assert held(flow) == [(SECOND, 2), (FIRST, 2)]
    flow.arrive("3.jsonl", {"id": str(FIRST).upper(), "n": 3}, {"id": str(SECOND), "n": 3})
    with pytest.raises(BadInputError, match="1 keys are no UUIDs in lower case"):
        flow.apply("run 3", strategy=strategy)
    assert held(flow) == [(SECOND, 2), (FIRST, 2)]


def test_an_erasure_is_not_told_that_a_uuid_in_capitals_is_held_nowhere(flow: Flow, tmp_path: Path) -> None:
    flow.arrive("1.jsonl", {"id": str(FIRST), "n": 1}, {"id": str(SECOND), "n": 1})
    flow.apply("run 1")

    def erase(text: str) -> int | None:
        keys = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
        keys.write_text(f"id\n{text}\n")
        source = Files(path=str(keys), format="csv", options={"header": "true", "multiLine": "true"})
        run = RunIdentity.of("dag", text, "task", "-1")
        spec = DeleteRowsSpec(catalog="lake_default", table=flow.table, run=run, keys_from=source, keys=("id",))
        return delete_rows(flow.spark, spec, Progress()).rows_deleted

    for wrong in (str(FIRST).upper(), f'"{FIRST}\n"'):
        with pytest.raises(BadInputError, match="1 keys are no UUIDs") as refused:
            erase(wrong)
        assert wrong not in str(refused.value)
    run = RunIdentity.of("dag", "where", "task", "-1")
    where = DeleteRowsSpec(catalog="lake_default", table=flow.table, run=run, where=f"id = '{FIRST}'".upper())
    with pytest.raises(InvalidSpecError, match=r"a UUID in capitals; write those of \['id'\]") as refused_where:
        delete_rows(flow.spark, where, Progress())
    assert str(FIRST).upper() not in str(refused_where.value)
    assert erase(str(FIRST)) == 1
    assert held(flow) == [(SECOND, 1)]


def test_a_source_is_not_taken_for_empty_as_its_predicate_has_a_uuid_in_capitals(flow: Flow, tmp_path: Path) -> None:
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('format-version' = '3')")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES ('{FIRST}', 1)")
    first = flow.head()
    flow.spark.sql(f"ALTER TABLE {flow.table} RENAME COLUMN id TO uid")
    copy, capitals = Flow(flow.spark, f"{flow.table}_copy", tmp_path), str(FIRST).upper()
    now, then = f"uid = '{capitals}'", f"id = '{capitals}'"
    for number, source in enumerate((LakeTable(flow.table, where=now), LakeTable(flow.table, where=then, as_of=first))):
        with pytest.raises(InvalidSpecError, match="a UUID in capitals") as refused:
            append(copy, f"run {number}", source=source)
        assert capitals not in str(refused.value)
    with pytest.raises(InvalidSpecError, match="a UUID in capitals"):
        read_changes(flow.spark, flow.table, None, None, keys=["uid"], where=now)
    # That is code, which may well have capitals.
    append(copy, "run 2", source=LakeTable(flow.table, where=f"upper(uid) = '{capitals}'"), allow_sql=True)
    assert copy.loaded().scan().count() == 1


def test_capitals_in_a_predicate_are_refused_of_the_uuids_that_it_names_and_of_no_other_columns(
    flow: Flow, tmp_path: Path
) -> None:
    with flow.loaded().update_schema() as change:
        change.add_column("parents", StructType(NestedField(9, "parent", UUIDType())))
        change.add_column("valid", StringType())
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('format-version' = '3')")
    capitals = str(FIRST).upper()
    copies = [Flow(flow.spark, f"{flow.table}_{number}", tmp_path) for number in range(3)]
    row = f"'{SECOND}', 1, named_struct('parent', '{FIRST}'), '{capitals}'"
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES ({row})")
    append(copies[0], "run 1", source=LakeTable(flow.table, where=f"valid = '{capitals}'"))
    flow.spark.sql(f"ALTER TABLE {flow.table} DROP COLUMN id")
    flow.spark.sql(f"ALTER TABLE {flow.table} RENAME COLUMN valid TO id")
    append(copies[1], "run 2", source=LakeTable(flow.table, where=f"id = '{capitals}'"))
    assert [copy.loaded().scan().count() for copy in copies[:2]] == [1, 1]
    with pytest.raises(InvalidSpecError, match=r"a UUID in capitals; write those of \['parent'\]"):
        append(copies[2], "run 3", source=LakeTable(flow.table, where=f"parents.parent = '{capitals}'"))


def test_a_uuid_that_lives_on_between_those_of_its_file_is_not_deleted(flow: Flow) -> None:
    flow.spark.sql(f"ALTER TABLE {flow.table} SET TBLPROPERTIES ('format-version' = '3')")
    middle = UUID("10000000-0000-4000-8000-000000000000")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES ('{middle}', 1)")
    values = f"('{SECOND}', 2), ('{middle}', 2), ('{FIRST}', 2)"
    flow.spark.sql(f"INSERT INTO {flow.table} SELECT /*+ COALESCE(1) */ * FROM VALUES {values} AS t(id, n)")
    before = str(flow.loaded().metadata.current_snapshot_id)
    flow.spark.sql(f"DELETE FROM {flow.table} WHERE n = 1")
    found = read_changes(flow.spark, flow.table, before, None, keys=["id"]).collect()
    assert [(row["_change_type"], row["id"]) for row in found] == []

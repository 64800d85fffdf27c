"""Findings of ``check_table`` on tables that Spark SQL and others made is what the driver then does with them."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.author.schema_contract import MissingColumns
from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.table_name import TableName
from airflow_lake_provider.iceberg.table_check import check_table
from airflow_lake_provider.iceberg.upsert_strategy import UpsertStrategy
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from tests.spark.equality_delete import delete_by_equality
from tests.spark.upsert_flow import Flow, row
from tests.table_facts import facts

BUCKETS, NAMES = "PARTITIONED BY (bucket(4, id))", "PARTITIONED BY (truncate(2, name))"
COPY_ON_WRITE = "'write.merge.mode' = 'copy-on-write'"
POSITIONS, COPIED, MERGE, EQUALITY = "positions", "copy-on-write", "merge", "equality"
TABLES = [
    ("", "'format-version' = '1'", [COPIED, MERGE]),
    (NAMES, "'format-version' = '2'", [POSITIONS, COPIED, MERGE]),
    (BUCKETS, "'format-version' = '2'", [POSITIONS, COPIED, MERGE, EQUALITY]),
    ("", f"'format-version' = '3', {COPY_ON_WRITE}", [COPIED, MERGE]),
]


def create(flow: Flow, partitioned: str, properties: str) -> None:
    flow.catalog()
    flow.spark.sql(
        f"CREATE TABLE {flow.table} (id BIGINT, name STRING, n INT) USING iceberg {partitioned} "
        f"TBLPROPERTIES ({properties})"
    )
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)")


def told(flow: Flow) -> list[str]:
    """Strategies that the check calls possible."""
    found = {verdict.use: verdict.possible for verdict in check_table(facts(flow.loaded()), ["id"])}
    return [name for name in (POSITIONS, COPIED, MERGE, EQUALITY) if found[f"strategy='{name}'"]]


def taken(flow: Flow) -> list[str]:
    """Strategies by which the driver applies a batch, each a row of its own."""
    done = []
    for number, name in enumerate((POSITIONS, COPIED, MERGE, EQUALITY), 10):
        flow.arrive(f"{name}.jsonl", row(number, name, number))
        try:
            report = flow.apply(f"run {name}", strategy=UpsertStrategy(name))
        except UnsupportedError:
            (flow.inbox / f"{name}.jsonl").unlink()
            continue
        assert (report.outcome, report.strategy) == (Outcome.APPLIED, name)
        done.append(name)
    return done


@pytest.mark.parametrize(("partitioned", "properties", "possible"), TABLES)
def test_a_strategy_that_is_called_possible_is_taken(
    flow: Flow, partitioned: str, properties: str, possible: list[str]
) -> None:
    create(flow, partitioned, properties)
    assert told(flow) == possible == taken(flow)


@pytest.mark.parametrize(
    ("column", "possible"),
    [
        *(("_lake_pos", [MERGE, EQUALITY]), ("_pos", []), ("_POS", [])),
        ("_DELETED", [POSITIONS, COPIED, MERGE, EQUALITY]),
    ],
)
def test_a_column_under_a_name_that_rows_are_read_with_rules_out_the_strategies_that_read_it(
    flow: Flow, column: str, possible: list[str]
) -> None:
    create(flow, "", "'format-version' = '3'")
    flow.spark.sql(f"ALTER TABLE {flow.table} ADD COLUMNS ({column} STRING)")
    flow.changes["missing_columns"] = MissingColumns.NULL
    assert told(flow) == possible == taken(flow)


def test_equality_deletes_of_another_writer_are_counted_and_in_nobodys_way(flow: Flow) -> None:
    create(flow, "", "'format-version' = '2'")
    table = IcebergTable(flow.spark, "lake_default", TableName.parse(flow.table))
    delete_by_equality(flow.spark, table.java, [2])
    compaction = next(found for found in check_table(facts(flow.loaded()), ["id"]) if found.use == "strategy='binpack'")
    assert compaction.reason == "applies 1 keys in equality deletes, as Flink writes them"
    assert told(flow) == [POSITIONS, COPIED, MERGE, EQUALITY]
    flow.arrive("1.jsonl", row(1, "z", 9))
    assert flow.apply().outcome is Outcome.APPLIED
    assert sorted(found["id"] for found in flow.spark.table(flow.table).collect()) == [1, 3, 4]

"""An upsert of what is above a watermark, as each database has to give it."""

from __future__ import annotations

import json
from datetime import timedelta

from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.reports.job import Outcome, UpsertReport
from tests.spark.sources.database_tables import DatabaseTables
from tests.spark.upsert_flow import Flow, NewFlow


def read_above_watermark(
    shop: DatabaseTables, new_flow: NewFlow, kind: str, zone: str, offset: str = ""
) -> tuple[Flow, UpsertReport]:
    """Read rows as they come, some of them late, and compare them with those that an overlap should read.

    :param shop: the database.
    :param new_flow: makes the table.
    :param kind: type of the watermark in the database.
    :param zone: that the watermark's greatest value of 12:30 ends with in the position.
    :param offset: that constants of the database need, so that they are in UTC.
    :return: the table that was written, and the report of its last run.
    """

    def at(minute: int, second: int = 0) -> str:
        return f"'2024-01-01 12:{minute:02}:{second:02}{offset}'"

    shop.run(f"CREATE TABLE orders (id int, changed {kind})", "CREATE INDEX by_change ON orders (changed)")
    read = JdbcTable(shop.conn_id, "orders", watermark="changed", overlap=timedelta(minutes=5))
    flow = new_flow(source=read, delete_when=None, exclude_columns=())
    assert flow.apply("run 0").outcome is Outcome.EMPTY_BATCH
    shop.run(f"INSERT INTO orders VALUES (1, {at(10)}), (2, {at(20)})")
    assert flow.apply("run 1").batch_rows == 2
    # Late by no more than the overlap, and by more; then new.
    shop.run(f"INSERT INTO orders VALUES (3, {at(15)}), (4, {at(14, 59)})")
    assert flow.apply("run 2").outcome is Outcome.NOTHING_NEW
    shop.run(f"INSERT INTO orders VALUES (5, {at(30)})")
    report = flow.apply("run 3")
    assert report.batch_rows == 3
    assert sorted(row["id"] for row in flow.records()) == [1, 2, 3, 5]
    position = json.loads(flow.properties()["lake.position.inbox"])
    assert position["positions"] == {"watermark": ["changed", f"2024-01-01T12:30:00.000000{zone}"]}
    return flow, report

"""Watermarks of tables of a real PostgreSQL; the rows are compared with what psycopg2 reads."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.applied.source_position import SourcePosition
from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.author.query import Query
from airflow_lake_provider.contracts.errors import (
    BadInputError,
    InvalidSpecError,
    LakeProviderError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from tests.spark.append_flow import append, events_of
from tests.spark.sources.postgresql_shop import Shop, server, shop
from tests.spark.sources.watermark_flow import read_above_watermark
from tests.spark.upsert_flow import NewFlow

__all__ = ["server", "shop"]


def at(minute: int, second: int = 0) -> str:
    return f"'2024-01-01 12:{minute:02}:{second:02}+00'"


def test_a_watermark_reads_what_is_above_it_and_an_overlap_what_came_late(shop: Shop, new_flow: NewFlow) -> None:
    flow, report = read_above_watermark(shop, new_flow, "timestamptz NOT NULL", zone="Z", offset="+00")
    assert "after 2024-01-01T12:20:00.000000Z up to changed=2024-01-01T12:30:00.000000Z" in report.reason
    # As after a restored backup.
    shop.run("DELETE FROM orders WHERE id = 5")
    report = flow.apply("run 4")
    assert report.outcome is Outcome.NOTHING_NEW
    (warning,) = report.warnings
    assert "changed is 2024-01-01T12:20:00.000000Z now, and rows up to 2024-01-01T12:30:00.000000Z were" in warning


@pytest.mark.parametrize(
    ("kind", "values", "more", "partitions"),
    [
        ("bigint", ["-9223372036854775808", "5"], "6", None),
        ("date", ["'2024-01-01'", "'2024-01-02'"], "'2024-01-03'", None),
        ("timestamp", [at(1), at(2)], at(2, 1), None),
        ("timestamptz", [at(1), at(2)], at(2, 1), 3),
    ],
)
def test_rows_above_a_watermark_are_read_once(
    shop: Shop, kind: str, values: list[str], more: str, partitions: int | None
) -> None:
    shop.run(f"CREATE TABLE log (id int, w {kind})", f"INSERT INTO log VALUES (1, {values[0]}), (2, {values[1]})")
    source, listing = shop.listed("log", watermark="w", columns=["id"], partitions=partitions)
    assert sorted(row["id"] for row in source.raw(listing, None).rows.collect()) == [1, 2]
    position = SourcePosition.read(listing.position_after(SourcePosition(), None).to_properties("s"), "s")
    shop.run(f"INSERT INTO log VALUES (3, {more}), (4, {more})")
    new = source.list().beyond(position)
    assert sorted(row["id"] for row in source.raw(new, None).rows.collect()) == [3, 4]
    assert source.list().beyond(new.position_after(position, None)).is_empty


def test_an_append_adds_what_is_above_the_watermark_once_and_looks_up_a_whole_table(
    shop: Shop, new_flow: NewFlow
) -> None:
    shop.run("CREATE TABLE log (id int, w int)", "INSERT INTO log VALUES (1, 1)")
    shop.run("CREATE TABLE names AS SELECT i AS id, 'n' || i AS name FROM generate_series(1, 3) i")
    inputs = {"log": JdbcTable("pg_shop", "log", watermark="w"), "names": JdbcTable("pg_shop", "names")}
    flow = new_flow(source=Query("SELECT id, name FROM log JOIN names USING (id)", over=inputs))
    assert append(flow, "run 1").rows_appended == 1
    assert append(flow, "run 2").outcome is Outcome.NOTHING_NEW
    shop.run("INSERT INTO log VALUES (2, 2)")
    assert append(flow, "run 3").rows_appended == 1
    assert append(flow, "run 3").outcome is Outcome.ALREADY_APPLIED
    assert events_of(flow) == [(1, "n1"), (2, "n2")]
    assert shop.waiting_transactions() == 0


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_watermark_that_has_got_a_zone_is_another_one(shop: Shop, new_flow: NewFlow, zone: str) -> None:
    shop.run("CREATE TABLE log (id int, name text, at timestamp)")
    shop.run("INSERT INTO log SELECT i, 'n', '2024-01-01 00:00' FROM generate_series(1, 3) i")
    flow = new_flow(source=JdbcTable("pg_shop", "log", watermark="at", columns=["id", "name"]))
    assert append(flow, "run 1").rows_appended == 3
    # What was applied is five hours later by it, or nine hours earlier.
    shop.run(f"ALTER TABLE log ALTER at TYPE timestamptz USING at AT TIME ZONE '{zone}'")
    shop.run("INSERT INTO log SELECT 4, 'n', max(at) + interval '1 hour' FROM log")
    with pytest.raises(BadInputError, match=r"at=2024-01-01T00:00:00.000000, and is of another type now"):
        append(flow, "run 2")
    assert len(events_of(flow)) == 3


@pytest.mark.parametrize(
    ("kind", "value", "error", "says"),
    [
        ("timestamptz", "NULL", BadInputError, "is NULL in some rows"),
        ("timestamptz", "'infinity'", BadInputError, "is infinite, or before year 1 in its greatest value, infinity"),
        ("date", "'9999-01-01'", BadInputError, "lies more than a day in the future"),
        ("text", "'a'", BadInputError, "is of type text; it must be a whole number"),
        ("numeric", "1", BadInputError, "is of type numeric; it must be a whole number"),
        ("int", "1", InvalidSpecError, "overlap of watermark 'w' must be a whole number"),
    ],
)
def test_a_watermark_that_would_lose_rows_is_refused(
    shop: Shop, kind: str, value: str, error: type[LakeProviderError], says: str
) -> None:
    shop.run(f"CREATE TABLE stamped (w {kind})", f"INSERT INTO stamped VALUES ({value})")
    with pytest.raises(error, match=says):
        shop.listed("stamped", watermark="w", overlap="PT1H")

"""Types of a real PostgreSQL: each value is the one that psycopg2 reads, or is refused."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg2
import pytest
from pyspark.sql.types import DecimalType, StructField, StructType

from airflow_lake_provider.contracts.author.jdbc_table import JdbcTable
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.sources.jdbc.database import Database
from airflow_lake_provider.spark_jobs.sources.jdbc.relation import Relation
from airflow_lake_provider.spark_jobs.sources.jdbc.splits import SPLIT, Splits, statement_of
from tests.spark.sources.postgresql_shop import POSTGRESQL, Shop, server, shop

__all__ = ["server", "shop"]

IN_CENTS = StructType([StructField("BAD", DecimalType(4, 2))])
# Type and constant of PostgreSQL, and the value that a lake table has.
VALUES: dict[str, tuple[str, Any]] = {
    "bool": ("true", True),
    "int2": ("-32768", -32768),
    "int4": ("2147483647", 2147483647),
    "int8": ("-9223372036854775808", -(2**63)),
    "oid": ("4294967295", 4294967295),
    "float4": ("'-Infinity'", float("-inf")),
    "float8": ("0.1", 0.1),
    "numeric(38,9)": ("12345678901234567890123456789.123456789", Decimal("12345678901234567890123456789.123456789")),
    "numeric": ("1e40::numeric + 0.5", "10000000000000000000000000000000000000000.5"),
    "numeric(5,-2)": ("12345", "12300"),
    "text": (r"E'a\\b''c\u20ac'", "a\\b'c€"),
    "varchar(3)": ("'ab '", "ab "),
    "char(4)": ("'ab'", "ab"),
    '"char"': ("'x'", "x"),
    "uuid": ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "json": ("""'{"b": 1,  "a": 12345678901234567890.10}'""", '{"b": 1,  "a": 12345678901234567890.10}'),
    "jsonb": ("""'{"b":1,"a":12345678901234567890.10}'""", '{"a": 12345678901234567890.10, "b": 1}'),
    "xml": ("'<a/>'", "<a/>"),
    "bytea": (r"'\x00ff'", b"\x00\xff"),
    "date": ("'1500-02-28'", date(1500, 2, 28)),
    "time": ("'24:00'", "24:00:00"),
    "timetz": ("'23:59:59.999999+05:30'", "23:59:59.999999+05:30"),
    "timestamp": ("'1500-02-28 00:00:00.000001'", datetime.fromisoformat("1500-02-28T00:00:00.000001")),
    "timestamptz": ("'2024-03-31 02:30:00.123456+09'", datetime(2024, 3, 30, 17, 30, 0, 123456, tzinfo=UTC)),
    "interval": ("'1 year 2 days -3 seconds'", "P1Y2DT-3S"),
    "inet": ("'10.0.0.1/8'", "10.0.0.1/8"),
    "bit(3)": ("B'101'", "101"),
    "mood": ("'sad'", "sad"),
    "_mood": ("'sad'", "sad"),
    "small": ("7", 7),
    "int2[]": ("'{1,NULL,-3}'", [1, None, -3]),
    "int8[]": ("'{}'", []),
    "text[]": ("""'{"a,b",NULL,"\\""}'""", ["a,b", None, '"']),
    "uuid[]": ("'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "numeric(4,2)[]": ("'{1.5,99.99}'", [Decimal("1.50"), Decimal("99.99")]),
    "float8[]": ("'{NaN,0.1}'", [float("nan"), 0.1]),
    "bool[]": ("'{t,f}'", [True, False]),
    "date[]": ("'{2024-02-29}'", [date(2024, 2, 29)]),
    "timestamp[]": ("'{2024-03-31 02:30:00.5}'", [datetime.fromisoformat("2024-03-31T02:30:00.5")]),
    "timestamptz[]": ("'{2024-03-31 02:30:00+09}'", [datetime(2024, 3, 30, 17, 30, tzinfo=UTC)]),
}


def test_each_type_has_the_very_value_that_the_database_has(shop: Shop) -> None:
    shop.run("CREATE TYPE mood AS ENUM ('sad', 'glad')", "CREATE TYPE _mood AS ENUM ('sad')")
    shop.run("CREATE DOMAIN small AS int CHECK (VALUE < 10)")
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(VALUES))
    constants = ", ".join(f"CAST({constant} AS {kind})" for kind, (constant, _) in VALUES.items())
    nulls = ", ".join(["NULL"] * len(VALUES))
    shop.run(f"CREATE TABLE kinds ({columns})", f"INSERT INTO kinds VALUES ({constants}), ({nulls})")
    read = shop.rows("kinds")
    assert [row for row in read if all(value is None for value in row)] == [(None,) * len(VALUES)]
    (values,) = (row for row in read if row[0] is not None)
    assert {kind: plain(value) for kind, value in zip(VALUES, values, strict=True)} == {
        kind: plain(value) for kind, (_, value) in VALUES.items()
    }


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_days_before_year_1_and_after_9999_stay_the_same_in_arrays(shop: Shop, kind: str) -> None:
    days = "{0044-03-15 BC,NULL,0001-01-01,15000-12-31,1969-12-31}"
    shop.run("SET TIME ZONE 'UTC'", f"CREATE TABLE eras (days {kind}[], one {kind})")
    shop.run(f"INSERT INTO eras VALUES ('{days}', '4713-01-01 BC'), ('{{}}', NULL), (NULL, NULL)")
    source, listing = shop.listed("eras")
    rows = source.raw(listing, None).rows
    read = rows.selectExpr("transform(days, x -> unix_date(CAST(x AS DATE)))", "unix_date(CAST(one AS DATE))").collect()
    # Days of the Julian period, of which 2440588 is that of 1970-01-01.
    day = "to_char({}, 'J')::int - 2440588"
    inside = f"CASE WHEN days IS NOT NULL THEN ARRAY(SELECT {day.format('x')} FROM unnest(days) AS x) END"
    assert [tuple(row) for row in read] == shop.ask(f"SELECT {inside}, {day.format('one')} FROM eras")
    assert {field.dataType.simpleString() for field in rows.schema} == {SPARK_TYPE[kind], f"array<{SPARK_TYPE[kind]}>"}


SPARK_TYPE = {"date": "date", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}


def plain(value: Any) -> str:
    """Return a value as text that tells NaN, and types, apart; all zones here are UTC."""
    if isinstance(value, list):
        return str([plain(each) for each in value])
    return f"{value.isoformat()} {value.tzinfo is not None}" if isinstance(value, datetime) else repr(value)


@pytest.mark.parametrize(
    ("kind", "constant", "says"),
    [
        ("date", "'infinity'", "infinity"),
        ("timestamptz", "'-infinity'", "infinity"),
        ("timestamp[]", "'{infinity}'", "infinity"),
        ("numeric(4,2)", "'NaN'", "NaN"),
        ("numeric(4,2)[]", "'{1,NaN}'", "NaN"),
        ("int[]", "'{{1,2},{3,4}}'", "an array of several dimensions"),
        ("numeric", "1.005", r"a number that is no decimal\(4,2\)"),
        ("numeric", "100", r"a number that is no decimal\(4,2\)"),
        ("numeric", "'Infinity'", r"a number that is no decimal\(4,2\)"),
        ("numeric", "'NaN'", "NaN"),
    ],
)
def test_a_value_that_no_lake_table_has_ends_the_statement(shop: Shop, kind: str, constant: str, says: str) -> None:
    shop.run(f"CREATE TABLE refused (bad {kind})", "INSERT INTO refused VALUES (NULL)")
    with closing(Database.open(shop.spark, shop.access, is_consistent=False)) as database:
        columns = Relation.look_at(database, JdbcTable("pg_shop", "refused")).columns
    statement = statement_of("refused", POSTGRESQL.sent_values(columns, IN_CENTS, "it"), "true", Splits(), SPLIT)
    assert shop.ask(statement) == [(None,)]
    shop.run(f"INSERT INTO refused VALUES ({constant})")
    with pytest.raises(psycopg2.DataError, match=f"lake refuses column bad, it has {says}"):
        shop.ask(statement)


def test_a_numeric_without_a_scale_is_fitted_to_the_decimal_of_the_table_or_refused(shop: Shop) -> None:
    shop.run("CREATE TABLE sums (bad numeric)", "INSERT INTO sums VALUES (1.50), (-99.9900), (NULL)")
    assert set(shop.rows("sums", IN_CENTS)) == {(Decimal("1.50"),), (Decimal("-99.99"),), (None,)}
    assert set(shop.rows("sums")) == {("1.50",), ("-99.9900",), (None,)}
    shop.run("INSERT INTO sums VALUES (1.005)")
    says = r"column bad, it has a number that is no decimal\(4,2\), which no lake table has. Say what becomes of it in"
    with pytest.raises(BadInputError, match=says):
        shop.rows("sums", IN_CENTS)
    shop.run("CREATE TABLE odd (id int, b money, c int4range, d point[])")
    with pytest.raises(BadInputError, match="no lake table has the types of b money, c int4range, d _point"):
        shop.rows("odd")
    assert shop.rows("odd", columns=["ID"]) == shop.rows(sql="SELECT b::text FROM odd") == []

"""Spark and Airflow open the same database: JDBC is told what SQLAlchemy reads in the address."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import unquote

import pytest
from sqlalchemy import create_engine, make_url, text

from airflow_lake_provider.catalogs.database_uri import check, jdbc_uri, sqlalchemy_uri
from airflow_lake_provider.contracts.errors import InvalidConnectionError


@pytest.mark.parametrize("name", ["a.db", "a b.db", "50%25.db", "a%20b.db", "x#1.db", "ü.db", "a&b=c.db", "a+b.db"])
def test_a_sqlite_file_of_any_name_is_one_on_both_sides(tmp_path: Path, name: str) -> None:
    uri = f"sqlite:///{tmp_path}/{name}"
    check("lake", uri)
    with create_engine(sqlalchemy_uri(uri, None, None)).begin() as connection:
        connection.execute(text("CREATE TABLE made (x INT)"))
    # sqlite-jdbc takes the path as it stands, up to the question mark.
    path = Path(jdbc_uri(uri).removeprefix("jdbc:sqlite:").partition("?")[0])
    assert path.exists()
    assert sqlite3.connect(path).execute("SELECT name FROM sqlite_master").fetchall() == [("made",)]


@pytest.mark.parametrize(
    "address", ["h/lake", "h:5433/lake", "[::1]:5433/lake", "h/la%20ke", "a,b/lake", "a,b:5433/lake", "h/ü"]
)
def test_a_postgresql_database_is_one_on_both_sides(address: str) -> None:
    uri = f"postgresql+psycopg2://{address}?sslmode=require"
    check("lake", uri)
    url = make_url(sqlalchemy_uri(uri, "me@x", "p/w"))
    assert (url.username, url.password, url.query) == ("me@x", "p/w", {"sslmode": "require"})
    host, _, rest = jdbc_uri(uri).removeprefix("jdbc:postgresql://").partition("/")
    database, _, options = rest.partition("?")
    assert (unquote(database), options) == (url.database, "sslmode=require")
    # libpq takes one port for all hosts, and pgjdbc needs it at each.
    assert host == address.partition("/")[0].replace("a,b:5433", "a:5433,b:5433")


@pytest.mark.parametrize("login", ["lake", None])
def test_postgresql_without_a_driver_is_opened_by_the_one_that_the_extra_installs(login: str | None) -> None:
    # SQLAlchemy 2.1 takes psycopg where nothing is said.
    assert create_engine(sqlalchemy_uri("postgresql://h/lake", login, login)).driver == "psycopg2"


def test_a_timeout_of_sqlite_is_kept() -> None:
    uri = "sqlite:////lake/a.db?timeout=1.5"
    assert sqlalchemy_uri(uri, None, None) == uri
    assert jdbc_uri(uri) == "jdbc:sqlite:/lake/a.db?busy_timeout=1500&journal_mode=WAL"


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("sqlite:/lake/a.db", "is none of SQLAlchemy; write sqlite:////absolute/path.db"),
        ("postgresql://h:port/lake", "is none of SQLAlchemy; write sqlite:////absolute/path.db or postgresql"),
        ("sqlite://host/lake/a.db", "names no file that Spark and Airflow both find"),
        ("sqlite:////lake/a%3F.db", "names no file that Spark and Airflow both find"),
        ("postgresql://h/d?sslmode=a&sslmode=b", "has sslmode more than once"),
        ("postgresql://h/", "lacks host or database"),
        ("postgresql://h/d?sslmode=REQUIRE", "option 'sslmode' in uri is one of disable, allow, prefer, require"),
        ("postgresql://h/d?connect_timeout=1.5", "option 'connect_timeout' in uri is a whole number of seconds"),
        ("postgresql://h/d?connect_timeout=-1", "option 'connect_timeout' in uri is a whole number of seconds"),
        ("postgresql://h/d?sslrootcert=system", "option 'sslrootcert' in uri is an absolute path"),
        ("postgresql+pg8000://h/d?sslmode=require", "known with postgresql+pg8000: application_name"),
    ],
)
def test_an_address_that_both_sides_would_read_in_their_own_way_is_refused(uri: str, said: str) -> None:
    with pytest.raises(InvalidConnectionError) as refusal:
        check("lake", uri)
    assert said in str(refusal.value)

"""Each row of the table of connection properties holds: PyIceberg gets the left side, Spark the right one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from airflow.providers.apache.iceberg.get_provider_info import get_provider_info

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection

_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "connection.md"
_AZURE = "abfss://files@acct.dfs.core.windows.net/wh"
_ROLE = "arn:aws:iam::123456789012:role/lake"
_TOKENS = {"oauth2-server-uri": "https://login.example.com/token"}
_ASSUME_ROLE = {
    "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
    "client.assume-role.arn": _ROLE,
    "client.assume-role.region": "eu",
    "client.assume-role.session-name": "lake",
}
# Values that the page names in a cell of properties.
_VALUES = {"V1", "true"}
_URIS = {"rest": "https://catalog.example.com", "sql": "postgresql://db/lake", "hive": "thrift://metastore:9083"}


@dataclass(frozen=True)
class Case:
    """What a connection says, and what the two sides get of it.

    :param given: properties of the extra, which PyIceberg gets as they are.
    :param spark: properties of Iceberg-Java.
    :param login: and ``password``: fields of the form.
    :param pyiceberg: properties that PyIceberg gets beside those of the extra.
    """

    given: Mapping[str, str]
    spark: Mapping[str, str]
    kind: str = "rest"
    warehouse: str = "s3://bucket/wh"
    login: str | None = None
    password: str | None = None
    pyiceberg: Mapping[str, str] = field(default_factory=dict)


def same(given: Mapping[str, str], kind: str = "rest") -> Case:
    return Case(given, given, kind)


def keys(owner: str, token: bool = True) -> dict[str, str]:
    names = ("access-key-id", "secret-access-key", *(["session-token"] if token else []))
    return {f"{owner}.{name}": f"some-{name}" for name in names}


# A row may need several connections.
CASES: dict[str, tuple[Case, ...]] = {
    "login and password, REST": (
        Case(
            _TOKENS,
            {"credential": "id:secret", "rest.auth.type": "oauth2", **_TOKENS},
            login="id",
            password="secret",
            pyiceberg={"credential": "id:secret"},
        ),
    ),
    "login and password, PostgreSQL": (
        Case(
            {},
            {"jdbc.user": "lake", "jdbc.password": "p@ss"},
            kind="sql",
            login="lake",
            password="p@ss",
            pyiceberg={"uri": "postgresql+psycopg2://lake:p%40ss@db/lake"},
        ),
    ),
    "`token`, `credential`, `scope`, `audience`, `resource`, `oauth2-server-uri`, `prefix`, `header.*`": (
        same({"token": "t", "prefix": "p", "header.X-Team": "a"}),
        same({"credential": "id:secret", "scope": "all", "audience": "a", "resource": "r", **_TOKENS}),
    ),
    "`snapshot-loading-mode`, `view-endpoints-supported`, `rest-page-size`": (
        same({"snapshot-loading-mode": "refs", "view-endpoints-supported": "true", "rest-page-size": "50"}),
    ),
    "`rest.sigv4-enabled`": (
        Case(
            {"rest.sigv4-enabled": "true"}, {"rest.auth.type": "sigv4", "rest.auth.sigv4.delegate-auth-type": "none"}
        ),
        Case(
            {"rest.sigv4-enabled": "true", "token": "t"},
            {"rest.auth.type": "sigv4", "rest.auth.sigv4.delegate-auth-type": "oauth2"},
        ),
    ),
    "`rest.signing-region`, `rest.signing-name`": (
        Case(
            {"rest.sigv4-enabled": "true", "rest.signing-region": "eu", "rest.signing-name": "glue"},
            {"rest.signing-region": "eu", "rest.signing-name": "glue"},
        ),
    ),
    "`rest.sigv4.max-retries`": (
        Case({"rest.sigv4-enabled": "true", "rest.sigv4.max-retries": "3"}, {"rest.client.max-retries": "3"}),
    ),
    "`schema_version`, `init_catalog_tables`": (
        Case(
            {"schema_version": "v0", "init_catalog_tables": "false"},
            {"jdbc.schema-version": "V0", "jdbc.init-catalog-tables": "false"},
            kind="sql",
        ),
        Case({}, {"jdbc.schema-version": "V1"}, kind="sql"),
    ),
    "`lock-check-min-wait-time`, `lock-check-max-wait-time` (seconds)": (
        Case(
            {"lock-check-min-wait-time": "0.5", "lock-check-max-wait-time": "60"},
            {
                "hadoop.iceberg.hive.lock-check-min-wait-ms": "500",
                "hadoop.iceberg.hive.lock-check-max-wait-ms": "60000",
            },
            kind="hive",
        ),
    ),
    "`glue.id`, `glue.skip-archive`, `glue.endpoint`": (
        same({"glue.id": "1234", "glue.skip-archive": "false", "glue.endpoint": "http://glue:5000"}, "glue"),
    ),
    "`s3.region`, `client.region`, `glue.region` (must be equal)": (
        Case({"s3.region": "eu"}, {"client.region": "eu"}),
        Case({"client.region": "eu"}, {"client.region": "eu"}),
        Case({"glue.region": "eu", "s3.region": "eu", "client.region": "eu"}, {"client.region": "eu"}, kind="glue"),
    ),
    "`s3.access-key-id`, `s3.secret-access-key`, `s3.session-token`": (same(keys("s3")),),
    "`client.access-key-id`, `client.secret-access-key`, `client.session-token`": (
        Case(keys("client"), keys("s3")),
        Case({**keys("client"), **keys("s3", token=False)}, keys("s3", token=False)),
        Case({"rest.sigv4-enabled": "true", **keys("client")}, {**keys("s3"), **keys("rest")}),
    ),
    "`s3.role-arn`, `s3.role-session-name` (or `client.*`)": (
        Case({"s3.role-arn": _ROLE, "s3.role-session-name": "lake", "s3.region": "eu"}, _ASSUME_ROLE),
        Case({"client.role-arn": _ROLE, "client.role-session-name": "lake", "client.region": "eu"}, _ASSUME_ROLE),
    ),
    "`s3.anonymous`": (
        Case(
            {"s3.anonymous": "true"},
            {"client.credentials-provider": "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"},
        ),
    ),
    "`s3.endpoint`": (same({"s3.endpoint": "http://store:9000"}),),
    "`s3.force-virtual-addressing`": (
        Case({"s3.force-virtual-addressing": "true"}, {"s3.path-style-access": "false"}),
        Case({"s3.force-virtual-addressing": "false"}, {"s3.path-style-access": "true"}),
        Case({"s3.endpoint": "http://store:9000"}, {"s3.path-style-access": "true"}),
    ),
    "`s3.resolve-region`": (Case({"s3.resolve-region": "true"}, {"s3.cross-region-access-enabled": "true"}),),
    "`s3.proxy-uri`": (Case({"s3.proxy-uri": "http://proxy:3128"}, {"http-client.proxy-endpoint": "http://proxy:3128"}),),
    "`s3.connect-timeout`, `s3.request-timeout` (seconds)": (
        Case(
            {"s3.connect-timeout": "1.5", "s3.request-timeout": "60"},
            {"http-client.apache.connection-timeout-ms": "1500", "http-client.apache.socket-timeout-ms": "60000"},
        ),
    ),
    "`s3.server-side-encryption`, `s3.sse-kms-key-id`": (
        Case(
            {"s3.server-side-encryption": "aws:kms", "s3.sse-kms-key-id": "k"},
            {"s3.sse.type": "kms", "s3.sse.key": "k"},
        ),
    ),
    "`gcs.project-id`, `gcs.oauth2.token`, `gcs.oauth2.token-expires-at`, `gcs.service.host`": (
        same(
            {
                "gcs.project-id": "p",
                "gcs.oauth2.token": "t",
                "gcs.oauth2.token-expires-at": "1",
                "gcs.service.host": "http://store:4443",
            }
        ),
    ),
    "`gcs.requester-pays`": (
        Case({"gcs.requester-pays": "true", "gcs.project-id": "p"}, {"gcs.user-project": "p", "gcs.project-id": "p"}),
    ),
    "`adls.account-name`, `adls.account-key`": (
        Case(
            {"adls.account-name": "acct", "adls.account-key": "k"},
            {"adls.auth.shared-key.account.name": "acct", "adls.auth.shared-key.account.key": "k"},
            warehouse=_AZURE,
        ),
    ),
    "`adls.sas-token`, `adls.sas-token.*`, `adls.account-host`": (
        Case({"adls.sas-token": "s"}, {"adls.sas-token.acct.dfs.core.windows.net": "s"}, warehouse=_AZURE),
        Case({"adls.sas-token": "s", "adls.account-host": "a.example.com"}, {"adls.sas-token.a.example.com": "s"}),
        same({"adls.sas-token.a.example.com": "s"}),
    ),
    "`adls.token`": (same({"adls.token": "t"}),),
    "`hdfs.host`, `hdfs.port`": (
        Case(
            {"hdfs.host": "nn", "hdfs.port": "8020"}, {"hadoop.fs.defaultFS": "hdfs://nn:8020"}, warehouse="hdfs:///wh"
        ),
    ),
}  # fmt: skip


def rows() -> dict[str, str]:
    """Return the page's first table, right side by left side."""
    table = _PAGE.read_text().partition("\n## ")[0]
    cells = (line.strip("|").split("|") for line in table.splitlines() if line.startswith("|"))
    found = {left.strip(): right.strip() for left, right in cells}
    return {left: right for left, right in found.items() if left != "PyIceberg, in the extra" and set(left) != {"-"}}


def names(cell: str) -> Iterator[str]:
    """Yield a regular expression for each property that a cell names."""
    for text in re.findall(r"`([^`]+)`", cell):
        name = text.partition("=")[0]
        options = re.fullmatch(r"(.*)\{(.*)\}(.*)", name)
        each = [f"{options[1]}{one}{options[3]}" for one in options[2].split(",")] if options else [name]
        yield from (re.sub(r"\\\*|<[^>]*>", ".+", re.escape(one)) for one in each if one not in _VALUES)


def test_every_row_has_a_case_and_every_case_a_row() -> None:
    assert list(CASES) == list(rows())


@pytest.mark.parametrize("row", CASES)
def test_a_row_holds_on_both_sides(row: str) -> None:
    for case in CASES[row]:
        connection = CatalogConnection.from_fields(
            conn_id="lake",
            host=_URIS.get(case.kind),
            login=case.login,
            password=case.password,
            extra={"type": case.kind, "warehouse": case.warehouse, **case.given},
        )
        pyiceberg = connection.pyiceberg_properties()
        assert {**case.given, **case.pyiceberg}.items() <= pyiceberg.items()
        spark = {f"spark.sql.catalog.lake.{name}": value for name, value in case.spark.items()}
        assert spark.items() <= connection.spark_settings().items()


@pytest.mark.parametrize("row", CASES)
def test_the_cases_of_a_row_have_all_that_it_names(row: str) -> None:
    given = {name for case in CASES[row] for name in case.given}
    got = {name for case in CASES[row] for name in case.spark}
    right = row if rows()[row] == "the same" else rows()[row]
    for cell, properties in ((row, given), (right, got)):
        missing = [name for name in names(cell) if not any(re.fullmatch(name, each) for each in properties)]
        assert missing == [], f"no case of this row has them, of {sorted(properties)}"


def test_each_field_that_airflows_form_shows_has_a_row() -> None:
    info = get_provider_info()  # type: ignore[no-untyped-call]  # of the official provider
    (form,) = (each for each in info["connection-types"] if each["connection-type"] == "iceberg")
    behaviour = form["ui-field-behaviour"]
    below = _PAGE.read_text().partition("\n## The form in Airflow\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| ([^|]+?) \| `(\w+)` \|", below, re.MULTILINE)
    assert dict(map(reversed, named)) == {
        "conn_id": "Connection ID",
        "conn_type": "Connection Type",
        **behaviour["relabeling"],
        "extra": "Extra Fields JSON",
    }
    assert {field for _, field in named}.isdisjoint(behaviour["hidden-fields"])

"""Secrets in every property that PyIceberg, Iceberg and Hadoop document, and in every form in which texts show them."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.catalogs.secret_properties import REDACTION_REGEX, is_secret, secret_values
from airflow_lake_provider.contracts.errors import InvalidConnectionError

_LIST = Path(__file__).with_name("documented_properties.txt")


def documented() -> Iterator[tuple[str, bool]]:
    """Yield every name of the list, and whether it is marked as a secret there."""
    for line in _LIST.read_text().splitlines():
        if not line.startswith("#"):
            for name in line.split():
                yield name.lstrip("!"), name.startswith("!")


NAMES = dict(documented())


def test_each_documented_property_is_masked_if_it_is_a_secret_and_only_then() -> None:
    assert len(NAMES) > 900
    assert {name: is_secret(name) for name in NAMES} == NAMES


@pytest.mark.parametrize("prefix", ["spark.sql.catalog.lake.", "spark.sql.catalog.lake.hadoop.", "spark.hadoop."])
def test_each_documented_secret_is_redacted_on_the_pages_of_spark(prefix: str) -> None:
    shown = {name for name, secret in NAMES.items() if secret and not re.search(REDACTION_REGEX, prefix + name)}
    assert shown == set()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "X-Api-Key",
            "apikey",
            "header.X-Anything",
            "passphrase",
            "private_key",
            "Authorization",
            "cookie",
            "sslpassword",
        ),
        *(
            "hadoop.fs.s3a.encryption.key",
            "fs.azure.account.key.type",
            "fs.azure.sas.files",
            "sig",
            "pwd",
            "Set-Cookie",
        ),
        *(
            "adls.sas-token.acct.type",
            "hadoop.javax.jdo.option.ConnectionPassword",
            "client_secret",
            "service-account-json",
        ),
    ],
)
def test_a_name_of_no_list_is_recognised(name: str) -> None:
    assert is_secret(name)
    assert re.search(REDACTION_REGEX, f"spark.sql.catalog.lake.{name}")


@pytest.mark.parametrize(
    "name",
    [
        *("token-refresh-enabled", "s3.sse.type", "rest.auth.type", "gcs.oauth2.token-expires-at", "oauth2-server-uri"),
        *("client.credentials-provider", "adls.auth.shared-key.account.name", "s3.sse-kms-key-id", "encryption.key-id"),
        *("header.X-Iceberg-Access-Delegation", "hadoop.security.authorization", "client.refresh-credentials-endpoint"),
    ],
)
def test_a_name_that_merely_speaks_of_a_secret_is_not_masked(name: str) -> None:
    assert not is_secret(name)


SECRETS = {
    "lines": "first-line\r\nsecond-line\nthird-line",
    "quotes": 'it\'s "quoted" here',
    "backslash": "back\\slash\\n",
    "percent": "p%41ss%2Fword",
    "blanks": "two words+more",
    "other letters": "geheimnis-äöü-😀",
    "signs of a URI": "p@ss:w/rd#?&=",
    "tab": "tab\there-too",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_no_form_in_which_a_text_shows_a_secret_stays(secret: str) -> None:
    hidden = set(secret_values({"s3.secret-access-key": secret}))
    shown = {
        *(secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], ascii(secret)[1:-1], repr({"a": secret})[7:-2]),
        *(quote(secret), quote(secret, safe=""), quote_plus(secret), *secret.splitlines()),
    }
    assert shown <= hidden


@pytest.mark.parametrize(
    ("given", "secrets"),
    [
        ({"s3.proxy-uri": "http://user:p@ss-word@proxy:8080"}, {"p@ss-word"}),
        ({"s3.proxy-uri": "http://user:pa/ss-word@proxy:8080"}, {"pa/ss-word"}),
        ({"s3.proxy-uri": "HTTP://user:pass-word@proxy"}, {"pass-word"}),
        ({"s3.proxy-uri": "http://token-only@proxy:80"}, {"token-only"}),
        ({"s3.proxy-uri": "socks5h://us:er:pw@proxy"}, {"er:pw"}),
        ({"auth": {"type": "basic", "basic": {"username": "u", "password": "pw-999"}}}, {"pw-999"}),
        ({"auth": {"type": "custom", "custom": {"keys": ["key-one", ["key-two"]]}}}, {"key-one", "key-two"}),
        ({"auth": {"custom": [{"apikey": "key-one"}, {"tokens": [{"a": "key-two"}]}]}}, {"key-one"}),
        ({"ssl": {"client": {"key_password": "pw-999"}}}, {"pw-999"}),
        ({"credential": "client:se:cret"}, {"client:se:cret", "se:cret"}),
        ({"gcs.service-account-json": '{"private_key": "-----BEGIN\\nabcdef"}'}, {"-----BEGIN\nabcdef", "abcdef"}),
        ({"hive.uris": "jdbc:x://h/db?user=a&password=pw-999;b=c"}, {"pw-999"}),
        ({"adls.connection-string": "AccountName=a;AccountKey=abc=="}, {"abc=="}),
        ({"s3.endpoint": "https://store/?sig=abcdef%3D"}, {"abcdef="}),
        ({"hadoop.x": "http://h/?api_key=abcdef"}, {"abcdef"}),
    ],
)
def test_secrets_within_values_are_found(given: dict[str, Any], secrets: set[str]) -> None:
    assert secrets <= set(secret_values(given))


def test_what_is_no_secret_is_not_masked() -> None:
    given = {
        "token-refresh-enabled": "true",
        "x.token": "true",
        "warehouse": "abfss://files@acct.dfs.core.windows.net/a",
    }
    assert set(secret_values({**given, "auth": {"type": "basic", "basic": {"username": "reader"}}})) == set()


REFUSED: dict[str, dict[str, Any]] = {
    "a line in a token": {"extra": {"token": "first\nSECRET"}},
    "a line in a header": {"extra": {"header.X-Key": "first\r\nSECRET: x"}},
    "a user in the URI": {"host": "https://user:SECRET@catalog"},
    "a token in the URI": {"host": "https://SECRET@catalog"},
    "a signature in the URI": {"host": "https://catalog/?sig=SECRET"},
    "a key in the URI": {"host": "https://catalog/?api_key=SECRET"},
    "a short key in the URI": {"host": "https://catalog/?key=SECRET"},
    "a password in a parameter": {"host": "postgresql://db/lake?sslpassword=SECRET", "extra": {"type": "sql"}},
    "a parameter in capitals": {"host": "postgresql://db/lake?PASS=SECRET", "extra": {"type": "sql"}},
    "a broken address": {"host": "https://user:SECRET@[catalog"},
    "letters that split a host": {"host": "https://user:SECRET@catalog\u2100.example.com"},
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_connection_shows_its_secret_nowhere(what: str) -> None:
    given = {"host": "https://catalog", **REFUSED[what]}
    with pytest.raises(InvalidConnectionError) as refused:
        CatalogConnection.from_fields(conn_id="lake", **given)
    error = refused.value
    shown = ["".join(traceback.format_exception_only(error)), repr(error.__cause__), repr(error.__context__)]
    assert not any("SECRET" in text for text in shown)


def test_the_secret_of_a_header_is_hidden_without_its_scheme_too() -> None:
    assert {"Bearer s3cr3t-token", "s3cr3t-token"} <= set(
        secret_values({"header.Authorization": "Bearer s3cr3t-token"})
    )

"""PyIceberg's names for object stores, as Iceberg-Java writes them."""

from __future__ import annotations

import re
import string
from contextlib import suppress
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_lake_provider.catalogs.catalog_connection import CatalogConnection
from airflow_lake_provider.catalogs.connection_fields import JAVA_ONLY, PYICEBERG_ONLY
from airflow_lake_provider.catalogs.property_translation import TRANSLATED
from airflow_lake_provider.contracts.errors import InvalidConnectionError

KEYS = {"s3.access-key-id": "id", "s3.secret-access-key": "hidden"}
AZURE = "abfss://files@acct.dfs.core.windows.net/wh"
ROLE = "arn:aws:iam::123456789012:role/lake"


def java(extra: dict[str, Any], warehouse: str = "s3://bucket/wh", kind: str = "rest") -> dict[str, str]:
    host = None if kind == "glue" else "https://catalog.example.com"
    found = CatalogConnection.from_fields(
        conn_id="lake", host=host, extra={"type": kind, "warehouse": warehouse, **extra}
    ).spark_settings()
    prefix = "spark.sql.catalog.lake."
    known = {"type", "uri", "warehouse", "io-impl", "cache-enabled"}
    return {
        k.removeprefix(prefix): v
        for k, v in found.items()
        if k.startswith(prefix) and k.removeprefix(prefix) not in known
    }


TRANSLATIONS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "region": ({"s3.region": "eu-west-1"}, {"client.region": "eu-west-1"}),
    "both-regions-alike": ({"s3.region": "eu", "client.region": "eu"}, {"client.region": "eu"}),
    "keys": (
        {**KEYS, "s3.session-token": "t"},
        {"s3.access-key-id": "id", "s3.secret-access-key": "hidden", "s3.session-token": "t"},
    ),
    "keys-of-all-clients": (
        {"client.access-key-id": "id", "client.secret-access-key": "hidden"},
        {"s3.access-key-id": "id", "s3.secret-access-key": "hidden"},
    ),
    "keys-of-s3-win": (
        {"client.access-key-id": "other", "client.secret-access-key": "other", **KEYS},
        {"s3.access-key-id": "id", "s3.secret-access-key": "hidden"},
    ),
    "own-endpoint-by-path": (
        {"s3.endpoint": "http://store:9000"},
        {"s3.endpoint": "http://store:9000", "s3.path-style-access": "true"},
    ),
    "own-endpoint-by-host": (
        {"s3.endpoint": "http://store", "s3.force-virtual-addressing": True},
        {"s3.endpoint": "http://store", "s3.path-style-access": "false"},
    ),
    "role": (
        {"s3.role-arn": ROLE, "s3.role-session-name": "lake", "s3.region": "eu"},
        {
            "client.region": "eu",
            "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
            "client.assume-role.arn": ROLE,
            "client.assume-role.region": "eu",
            "client.assume-role.session-name": "lake",
        },
    ),
    "anonymous": (
        {"s3.anonymous": "true"},
        {"client.credentials-provider": "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"},
    ),
    "encryption": (
        {"s3.server-side-encryption": "aws:kms", "s3.sse-kms-key-id": "k"},
        {"s3.sse.type": "kms", "s3.sse.key": "k"},
    ),
    "time-limits": (
        {"s3.connect-timeout": "1.5", "s3.request-timeout": 60},
        {"http-client.apache.connection-timeout-ms": "1500", "http-client.apache.socket-timeout-ms": "60000"},
    ),
    "proxy": ({"s3.proxy-uri": "http://proxy:3128"}, {"http-client.proxy-endpoint": "http://proxy:3128"}),
    "gcs": (
        {"gcs.project-id": "p", "gcs.oauth2.token": "t", "gcs.requester-pays": True, "gcs.service.host": "http://g"},
        {"gcs.project-id": "p", "gcs.oauth2.token": "t", "gcs.user-project": "p", "gcs.service.host": "http://g"},
    ),
    "headers": ({"header.X-Team": "a"}, {"header.X-Team": "a"}),
}


@pytest.mark.parametrize(("given", "expected"), TRANSLATIONS.values(), ids=TRANSLATIONS.keys())
def test_a_property_gets_the_name_and_unit_of_the_other_side(given: dict[str, Any], expected: dict[str, str]) -> None:
    assert java(given) == expected


def test_an_azure_account_key_needs_the_accounts_name_which_the_warehouse_knows() -> None:
    expected = {"adls.auth.shared-key.account.name": "acct", "adls.auth.shared-key.account.key": "k"}
    assert java({"adls.account-key": "k"}, AZURE) == expected
    assert java({"adls.account-key": "k", "adls.account-name": "acct"}, "prod") == expected


def test_an_azure_sas_token_is_bound_to_the_accounts_host() -> None:
    assert java({"adls.sas-token": "s"}, AZURE) == {"adls.sas-token.acct.dfs.core.windows.net": "s"}
    named = {"adls.sas-token": "s", "adls.account-name": "acct"}
    assert java(named, "prod") == {"adls.sas-token.acct.dfs.core.windows.net": "s"}


def test_the_name_node_is_the_default_file_system() -> None:
    named = {"hdfs.host": "nn", "hdfs.port": 8020}
    assert java(named, "hdfs:///wh") == {"hadoop.fs.defaultFS": "hdfs://nn:8020"}


REFUSED: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "key-without-secret": ({"s3.access-key-id": "id"}, "s3://b/w", "rest", "without s3.secret-access-key"),
    "token-without-key": ({"s3.session-token": "t"}, "s3://b/w", "rest", "without s3.access-key-id"),
    "role-and-keys": ({**KEYS, "s3.role-arn": ROLE, "s3.region": "eu"}, "s3://b/w", "rest", "contradicts access keys"),
    "role-without-region": ({"s3.role-arn": ROLE}, "s3://b/w", "rest", "needs s3.region"),
    "anonymous-and-keys": ({**KEYS, "s3.anonymous": True}, "s3://b/w", "rest", "contradicts access keys"),
    "role-and-glue": ({"s3.role-arn": ROLE, "s3.region": "eu"}, "s3://b/w", "glue", "in Spark only"),
    "keys-and-glue": (
        {"client.access-key-id": "i", "client.secret-access-key": "s"}, "s3://b/w", "glue", "takes no keys"
    ),
    "regions-differ": ({"s3.region": "eu", "client.region": "us"}, "s3://b/w", "rest", "has client.region for both"),
    "requester-without-project": ({"gcs.requester-pays": True}, "gs://b/w", "rest", "needs gcs.project-id"),
    "account-key-alone": ({"adls.account-key": "k"}, "prod", "rest", "needs adls.account-name"),
    "sas-alone": ({"adls.sas-token": "s"}, "prod", "rest", "needs adls.account-name"),
    "accounts-differ": ({"adls.account-name": "other"}, AZURE, "rest", "'other'"),
    "hdfs-port-alone": ({"hdfs.port": 1}, "hdfs:///w", "rest", "without hdfs.host"),
    "name-nodes-differ": ({"hdfs.host": "a"}, "hdfs://b/w", "rest", "'a', the warehouse says 'b'"),
    "encryption-unknown": ({"s3.server-side-encryption": "rot13"}, "s3://b/w", "rest", "'rot13' is none of"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "warehouse", "kind", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_half_given_and_contradicting_store_properties_are_refused(
    given: dict[str, Any], warehouse: str, kind: str, said: str
) -> None:
    with pytest.raises(InvalidConnectionError, match=re.escape(said)):
        java(given, warehouse, kind)


@pytest.mark.parametrize(
    ("warehouse", "file_io"),
    [
        ("s3a://b/w", "aws.s3.S3FileIO"),
        ("gs://b/w", "gcp.gcs.GCSFileIO"),
        ("wasb://c@a.blob.core.windows.net/w", "azure.adlsv2.ADLSFileIO"),
        ("hdfs://nn/w", "hadoop.HadoopFileIO"),
        ("hdfs://nn:8020/me@x:y/w", "hadoop.HadoopFileIO"),
        ("hdfs://[::1]:8020/w", "hadoop.HadoopFileIO"),
        ("file:/w", "hadoop.HadoopFileIO"),
    ],
)
def test_the_warehouse_decides_how_spark_opens_files(warehouse: str, file_io: str) -> None:
    found = CatalogConnection.from_fields(conn_id="lake", host="https://c", extra={"warehouse": warehouse})
    assert found.spark_settings()["spark.sql.catalog.lake.io-impl"] == f"org.apache.iceberg.{file_io}"


@pytest.mark.parametrize("root", ["/lake", "file:/lake", "file:///lake", "s3://b"])
def test_a_warehouse_with_any_sign_in_it_is_read_whole_by_pyiceberg_or_refused(root: str) -> None:
    read = set()
    for sign in {*string.printable, "é", "e\u0301", "\u2028"} - {"/"}:
        extra = {"type": "sql", "warehouse": f"{root}/w{sign}h"}
        with suppress(InvalidConnectionError):
            given = CatalogConnection.from_fields(conn_id="lake", host="sqlite:////lake/c.db", extra=extra)
            place = PyArrowFileIO.parse_location(f"{given.warehouse}/shop/orders")
            assert place[2].strip("/") == f"{root.rpartition(':')[2].strip('/')}/w{sign}h/shop/orders"
            read.add(sign)
    assert {*string.ascii_letters, *string.digits, " ", "%", "&", "+", ";", "\\", "é"} <= read


def test_every_property_pyiceberg_reads_is_either_translated_or_refused_with_a_reason() -> None:
    import pyiceberg.catalog.glue as glue
    import pyiceberg.catalog.rest as rest
    import pyiceberg.io as io

    wanted = ("S3_", "ADLS_", "GCS_", "HDFS_", "AWS_", "GLUE_", "SIGV4")
    known = {
        value
        for module in (io, glue, rest)
        for name, value in vars(module).items()
        if name.startswith(wanted) and isinstance(value, str) and re.fullmatch(r"[a-z0-9]+(\.[a-z0-9_.-]+)+", value)
    }
    assert len(known) > 60
    assert known - TRANSLATED.keys() - PYICEBERG_ONLY.keys() == set()


def test_no_property_is_both_translated_and_refused() -> None:
    assert TRANSLATED.keys() & PYICEBERG_ONLY.keys() == set()
    assert TRANSLATED.keys() & JAVA_ONLY.keys() == set()

"""Credentials that a REST server vends: they are used alone, and a job starts where they are all it needs."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from tests.unit.hooks.rest_server import OWN, THIEF, Answers, hook, serve

SERVERS: dict[str, tuple[Answers, dict[str, str]]] = {
    "Polaris, S3": (
        Answers(
            defaults={"polaris.config.x": "y", "default-base-location": "s3://bucket"},
            overrides={"prefix": "lake"},
            table={"s3.access-key-id": "V", "s3.secret-access-key": "W", "client.region": "us-east-1"},
        ),
        {"s3.access-key-id": "V", "s3.secret-access-key": "W", "client.region": "us-east-1"},
    ),
    "Polaris, MinIO, credentials of a prefix": (
        Answers(
            credentials=[
                {
                    "prefix": "s3://bucket/shop",
                    "config": {
                        "s3.access-key-id": "V",
                        "s3.secret-access-key": "W",
                        "s3.session-token": "X",
                        "s3.endpoint": "http://minio:9000",
                        "s3.path-style-access": "true",
                        "client.refresh-credentials-endpoint": "v1/lake/namespaces/shop/tables/orders/credentials",
                    },
                }
            ]
        ),
        {"s3.access-key-id": "V", "s3.session-token": "X", "s3.endpoint": "http://minio:9000"},
    ),
    "Lakekeeper, signing": (
        Answers(
            overrides={"prefix": "2e6b", "uri": "{uri}"},
            table={
                "s3.signer": "S3V4RestSigner",
                "s3.remote-signing-enabled": "true",
                "region": "local",
                "s3.signer.uri": "{uri}",
                "s3.signer.endpoint": "v1/signer/2e6b/v1/aws/s3/sign",
                "s3.endpoint": "http://minio:9000",
                "s3.region": "local",
                "s3.path-style-access": "true",
            },
        ),
        {"s3.signer": "S3V4RestSigner", "s3.endpoint": "http://minio:9000", "s3.anonymous": "true"},
    ),
    "Nessie": (
        Answers(
            defaults={
                "prefix": "main%7Cwh",
                "warehouse": "s3://bucket",
                "rest-metrics-reporting-enabled": "false",
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "client.region": "us-east-1",
                "rest-page-size": "200",
            },
            overrides={"nessie.core-base-uri": "{uri}/api", "nessie.is-nessie-catalog": "true"},
            table={
                "s3.access-key-id": "V",
                "s3.secret-access-key": "W",
                "s3.session-token": "X",
                "s3.endpoint": "http://minio:9000",
                "s3.remote-signing-enabled": "false",
                "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
            },
        ),
        {"s3.endpoint": "http://minio:9000", "s3.access-key-id": "V"},
    ),
    "Gravitino, the endpoint in its configuration": (
        Answers(
            defaults={"s3.endpoint": "http://minio:9000", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"},
            table={"s3.access-key-id": "V", "s3.secret-access-key": "W", "s3.session-token": "X"},
        ),
        {"s3.endpoint": "http://minio:9000", "s3.secret-access-key": "W"},
    ),
    "Unity Catalog, GCS": (
        Answers(table={"gcs.oauth2.token": "V", "gcs.oauth2.token-expires-at": "1799999999999"}),
        {"gcs.oauth2.token": "V"},
    ),
    "a store like that of GCS": (
        Answers(table={"gcs.oauth2.token": "V", "gcs.service.host": "http://gcs:4443"}),
        {"gcs.oauth2.token": "V", "gcs.service.host": "http://gcs:4443"},
    ),
    "Open Catalog, Azure": (
        Answers(
            table={
                "adls.sas-token.acct.dfs.core.windows.net": "sig=V",
                "adls.sas-token-expires-at-ms.acct.dfs.core.windows.net": "1799999999999",
                "adls.refresh-credentials-endpoint": "/v1/credentials",
            }
        ),
        {"adls.sas-token.acct.dfs.core.windows.net": "sig=V"},
    ),
    "S3 Tables, Glue": (
        Answers(
            overrides={"prefix": "catalogs/1234", "namespace-separator": "%2E", "rest-scan-planning-enabled": "true"}
        ),
        {},
    ),
}
STORE_OF = {"OWN-KEY": "s3.", "OWN-SECRET": "s3.", "OWN-SESSION": "s3.", "OWN-GCS": "gcs.", "OWN-ADLS": "adls.sas"}


def usual(name: str) -> Answers:
    return copy.deepcopy(SERVERS[name][0])


def tell(server: Answers) -> None:
    for said in (server.overrides, server.table):
        said.update({name: value.replace("{uri}", server.uri) for name, value in said.items()})


@pytest.mark.parametrize("name", SERVERS)
def test_vended_credentials_are_used_alone_at_the_endpoint_that_comes_with_them(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = SERVERS[name][1]
    with serve(usual(name)) as server:
        tell(server)
        properties = (
            hook(monkeypatch, tmp_path, server.uri, **OWN, token="TOKEN").load_table("shop.orders").io.properties
        )
    assert {each: properties.get(each) for each in expected} == expected
    for secret, prefix in STORE_OF.items():
        vended = any(each.startswith(prefix) and "endpoint" not in each for each in expected if "region" not in each)
        assert (secret in properties.values()) == (not vended), secret


@pytest.mark.parametrize("name", SERVERS)
def test_a_job_starts_where_a_usual_server_vends_what_it_needs(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serve(usual(name)) as server:
        tell(server)
        hook(monkeypatch, tmp_path, server.uri, token="TOKEN").refuse_for_spark(["shop.orders", "shop.orders"])


@pytest.mark.parametrize("left", ["s3.session-token", "s3.role-arn"])
def test_spark_is_not_started_where_a_key_of_the_connection_would_go_along_with_vended_ones(
    left: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = {name: OWN[name] for name in ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")}
    own = own if left in own else {"s3.role-arn": "arn:aws:iam::1:role/lake"}
    table = {"s3.access-key-id": "V", "s3.secret-access-key": "W", "s3.endpoint": THIEF}
    with serve(Answers(table=table)) as server:
        lake = hook(monkeypatch, tmp_path, server.uri, **own, **{"s3.region": "eu-west-1"})
        with pytest.raises(UnsupportedError, match=r"'s3\.endpoint'"):
            lake.refuse_for_spark(["shop.orders"])


def test_an_endpoint_that_the_connection_names_too_gets_its_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serve(Answers(overrides={"s3.endpoint": "http://minio:9000"})) as server:
        lake = hook(monkeypatch, tmp_path, server.uri, **OWN, **{"s3.endpoint": "http://minio:9000"})
        assert lake.load_table("shop.orders").io.properties["s3.secret-access-key"] == "OWN-SECRET"
        lake.refuse_for_spark(["shop.orders"])

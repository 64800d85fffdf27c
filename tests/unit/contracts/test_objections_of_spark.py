from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.untrusted_properties import objections_of_spark

OWN = {
    "type": "rest",
    "uri": "https://catalog.example:8181/api",
    "credential": "id:secret",
    "s3.access-key-id": "ours",
    "s3.secret-access-key": "our secret",
}
VENDED = {"s3.access-key-id": "theirs", "s3.secret-access-key": "their secret", "s3.session-token": "their token"}
EVIL = "https://evil.example"


def objections(said: dict[str, str], own: dict[str, str]) -> set[str]:
    """What a driver would not follow of a FileIO's properties."""
    return set(objections_of_spark(said, own, own["uri"]))


@pytest.mark.parametrize(
    "said",
    [
        {"io-impl": "com.evil.FileIO"},
        {"client.factory": "com.evil.Factory"},
        {"s3.client-factory-impl": "com.evil.Factory"},
        {"client.credentials-provider": "com.evil.Provider", **VENDED},
        {"adls.token-credential-provider": "com.evil.Provider"},
        {"metrics-reporter-impl": "com.evil.Reporter"},
        {"encryption.kms-impl": "com.evil.Kms"},
        {"rest.client.tls.configurer-impl": "com.evil.Tls"},
        {"rest.auth.type": "com.evil.Auth"},
        {"s3.endpoint": EVIL},
        {"s3.endpoint": EVIL, "s3.access-key-id": "theirs"},
        {"s3.endpoint": EVIL, "s3.session-token": "their token"},
        {"gcs.service.host": EVIL},
        {"adls.connection-string.a": EVIL},
        {"uri": EVIL},
        {"uri": "https://catalog.example:8182/api"},
        {"oauth2-server-uri": f"{EVIL}/token"},
        {"s3.signer.uri": EVIL},
        {"s3.signer.endpoint": f"{EVIL}/sign"},
        {"s3.signer.endpoint": "//evil.example/sign"},
        {"client.refresh-credentials-endpoint": f"{EVIL}/keys"},
        {"http-client.proxy-endpoint": EVIL},
        {"rest.client.proxy.hostname": "evil.example"},
        {"s3.acl": "public-read"},
        {"s3.access-points.bucket": "arn:aws:s3:us:1:accesspoint/evil"},
        {"s3.staging-dir": "/etc"},
        {"client.assume-role.arn": "arn:aws:iam::1:role/evil"},
        {"glue.endpoint": EVIL},
        {"kms.endpoint": EVIL},
        {"dynamodb.endpoint": EVIL},
    ],
    ids=str,
)
def test_a_server_chooses_no_code_and_no_place_for_the_sessions_keys(said: dict[str, str]) -> None:
    assert objections({**OWN, **said}, OWN)


@pytest.mark.parametrize(
    "said",
    [
        VENDED,
        {**VENDED, "s3.endpoint": "https://store.example", "s3.path-style-access": "true", "client.region": "eu"},
        {"gcs.oauth2.token": "t", "gcs.oauth2.token-expires-at": "1", "gcs.service.host": "https://gcs.example"},
        {"adls.sas-token.a": "t", "adls.connection-string.a": "https://a.dfs.example"},
        {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"},
        {"token": "of the table", "prefix": "p", "warehouse": "w", "polaris.anything": "x", "app-id": "spark"},
        {"s3.signer.uri": "https://catalog.example:8181/other", "s3.signer.endpoint": "v1/sign"},
        {"client.refresh-credentials-endpoint": "v1/credentials", "client.refresh-credentials-enabled": "true"},
        {"s3.delete-enabled": "false", "s3.write.tags.team": "x", "s3.retry.num-retries": "3"},
        {"io.manifest.cache-enabled": "true", "rest-metrics-reporting-enabled": "false"},
    ],
    ids=str,
)
def test_what_a_server_vends_and_how_its_store_is_spoken_to_is_followed(said: dict[str, str]) -> None:
    assert objections({**OWN, **said}, OWN) == set()


def test_what_the_session_says_itself_is_trusted() -> None:
    own = {**OWN, "s3.endpoint": "https://own.example", "client.factory": "com.site.Factory", "io-impl": "com.site.IO"}
    assert objections(own, own) == set()


def test_a_token_of_the_session_does_not_go_along_with_keys_that_were_vended() -> None:
    own = {**OWN, "s3.session-token": "our token"}
    said = {**own, "s3.access-key-id": "theirs", "s3.secret-access-key": "theirs", "s3.endpoint": EVIL}
    assert objections(said, own) == {"s3.endpoint"}


def test_a_catalog_that_signs_each_request_may_say_where_only_if_the_session_has_no_keys() -> None:
    said = {"s3.endpoint": "https://store.example", "s3.remote-signing-enabled": "true"}
    without = {"type": "rest", "uri": OWN["uri"]}
    assert objections({**without, **said}, without) == set()
    assert objections({**OWN, **said}, OWN) == {"s3.endpoint"}

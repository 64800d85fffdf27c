from __future__ import annotations

import pickle

import pytest

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.s3_access import s3_arguments

KEYS = {"s3.access-key-id": "id", "s3.secret-access-key": "secret", "s3.session-token": "token"}
ENDPOINT = {"s3.endpoint": "http://127.0.0.1:9000"}


def test_keys_region_and_endpoint_are_those_of_the_file_io() -> None:
    given = {**KEYS, **ENDPOINT, "s3.path-style-access": "true", "client.region": "eu-west-1", "uri": "http://catalog"}
    assert s3_arguments(given) == {
        "access_key": "id",
        "secret_key": "secret",
        "session_token": "token",
        "region": "eu-west-1",
        "endpoint_override": "http://127.0.0.1:9000",
        "force_virtual_addressing": False,
    }


def test_a_bucket_is_part_of_the_host_unless_the_path_has_it() -> None:
    assert s3_arguments(ENDPOINT)["force_virtual_addressing"] is True


@pytest.mark.parametrize("given", [{}, {"s3.access-key-id": "id"}, {"s3.session-token": "token"}])
def test_without_both_keys_the_executors_ask_their_own_environment(given: dict[str, str]) -> None:
    assert s3_arguments(given) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client.factory", "org.example.Factory"),
        ("client.credentials-provider", "org.example.Provider"),
        ("client.assume-role.arn", "arn:aws:iam::1:role/lake"),
        ("s3.client-factory-impl", "org.example.Factory"),
        ("s3.remote-signing-enabled", "true"),
        ("s3.access-grants.enabled", "true"),
        ("s3.access-points.lake", "arn:aws:s3:::accesspoint/lake"),
        ("s3.sse.type", "kms"),
        ("s3.sse.key", "alias/lake"),
        ("s3.acl", "bucket-owner-full-control"),
        ("s3.write.storage-class", "GLACIER"),
        ("s3.write.tags.team", "shop"),
        ("s3.write.table-tag-enabled", "true"),
        ("s3.delete-enabled", "false"),
        ("s3.dualstack-enabled", "true"),
        ("http-client.proxy-endpoint", "http://proxy"),
        ("glue.lakeformation-enabled", "true"),
        ("s3.something-new", "1"),
    ],
)
def test_what_configures_the_client_in_another_way_is_refused_by_name_and_not_by_value(name: str, value: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        s3_arguments({**KEYS, name: value})
    assert name in str(refusal.value)
    assert value not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("s3.remote-signing-enabled", "false"),
        ("s3.sse.type", "none"),
        ("s3.delete-enabled", "true"),
        ("s3.multipart.part-size-bytes", "5242880"),
        ("s3.session-token-expires-at-ms", "1700000000000"),
        ("client.refresh-credentials-endpoint", "/v1/credentials"),
        ("http-client.apache.max-connections", "9"),
    ],
)
def test_what_changes_neither_client_nor_files_is_taken(name: str, value: str) -> None:
    assert s3_arguments({**KEYS, name: value}) == s3_arguments(KEYS)


def test_keys_that_only_the_java_client_fetches_are_refused() -> None:
    fetched = {"client.refresh-credentials-endpoint": "/v1/credentials"}
    with pytest.raises(UnsupportedError, match="to its Java client only"):
        s3_arguments(fetched)
    assert s3_arguments({**fetched, "client.refresh-credentials-enabled": "false"}) == {}


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("file:/a/b c%20d.parquet", "/a/b c%20d.parquet"),
        ("file:///a/b.parquet", "/a/b.parquet"),
        ("/a/b.parquet", "/a/b.parquet"),
        ("s3://lake/a/day=2026-01-01 00%3A00/x+y.parquet", "lake/a/day=2026-01-01 00%3A00/x+y.parquet"),
        ("s3a://lake/é.parquet", "lake/é.parquet"),
    ],
)
def test_a_location_is_the_path_of_its_file_as_it_stands(location: str, path: str) -> None:
    files = TableFiles({"s3": {"access_key": "id", "secret_key": "secret", "region": "us-east-1"}})
    assert files.opens(location)
    assert files.place_of(location)[1] == path


@pytest.mark.parametrize(
    "location", ["s3://lake", "s3://lake/", "s3://lake/a?b", "s3://lake/a#b", "gs://lake/a", "hdfs://name/a"]
)
def test_other_locations_are_refused(location: str) -> None:
    files = TableFiles({"s3": {}})
    assert not files.opens(location)
    with pytest.raises(UnsupportedError, match="is not opened by Python workers"):
        files.place_of(location)


def test_the_credentials_of_the_longest_prefix_open_a_file() -> None:
    region = {"region": "us-east-1"}
    by_prefix = {"s3": region, "s3://lake/a": {**region, "access_key": "a", "secret_key": "s"}, "s3://lake/a/b": region}
    files = TableFiles({**by_prefix, "s3://lake/a/b": {**region, "access_key": "b", "secret_key": "s"}})
    assert files.place_of("s3://lake/a/b/x")[0] is files.place_of("s3://lake/a/b/y")[0]
    assert files.place_of("s3://lake/a/x")[0] is not files.place_of("s3://lake/a/b/x")[0]
    assert files.place_of("s3://other/x")[0] is not files.place_of("s3://lake/a/x")[0]


@pytest.mark.parametrize(
    "name", ["s3.write.tags.pii", "s3.delete.tags.enabled", "s3.access-points.my-enabled", "s3.acl"]
)
def test_a_tag_that_is_called_false_is_a_tag(name: str) -> None:
    with pytest.raises(UnsupportedError, match="is for the Java client of the store"):
        s3_arguments({**KEYS, name: "false"})


def test_nothing_shows_the_credentials_but_the_pickled_object_itself() -> None:
    files = TableFiles({"s3": s3_arguments(KEYS)})
    assert "secret" not in repr(files) + str(files)
    assert pickle.loads(pickle.dumps(files)) == files
